"""What is looked for in place of lost nodes."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """What a lost node was to hold, pods by pod set. Its `node` was there before, or it was a machine of `purchase`. `bought`:
    another one may be bought anywhere; else only nodes that are there count.
    """

    pods: Mapping[str, int]
    node: str = ""
    purchase: str = ""
    bought: bool = True


@dataclass(frozen=True, slots=True)
class StandIn:
    """Look for other nodes in place of these, and write down what was found."""

    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Sought:
    """`due`: it is time to look; `unfound`: why the last look found nothing for some; `seconds`: how long it is looked for if
    no pod has come.
    """

    due: bool = False
    unfound: str = ""
    seconds: int = 2400
