"""What each node and offering has for a gang: the records of a survey."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capacity.model import Constraint, Node, Offering, PodSet, Preferences

Told = tuple[Constraint | None, str]
"""The first constraint that keeps pods off, and how it is told; None and "" where none does."""
Where = Mapping[str, str | None]
"""The domain of each key in play, None where it isn't known."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What keeps the pods of one pod set off a node: the first constraint that fails, None when none does.

    `whole` of them fit on the node by room if it were empty, `size` with what runs there now.
    """

    constraint: Constraint | None
    whole: int
    size: int

    @property
    def pods(self) -> int:
        return 0 if self.constraint else self.size


@dataclass(slots=True)
class Lot:
    """`count` nodes, there or to be had from one offering, that are alike to the gang but for the words; `subject` is one.

    `verdicts` has one entry for each pod set, and so has `details`: of each text why its pods don't go there the number of nodes.
    `whys` has the same for the gang. `usable`: a pod of some pod set does go there.
    """

    subject: Node | Offering
    where: Where
    verdicts: tuple[Verdict, ...]
    usable: bool
    count: int
    details: tuple[dict[str, int], ...]
    whys: dict[str, int]

    def add(self, told: Sequence[str], why: str, count: int) -> None:
        """More nodes, of which this is told for each pod set, and for the gang where nothing goes."""
        self.count += count
        for details, detail in zip(self.details, told, strict=True):
            details[detail] = details.get(detail, 0) + count
        why = "" if self.usable else why
        self.whys[why] = self.whys.get(why, 0) + count


@dataclass(frozen=True, slots=True)
class Survey:
    """Every node and offering, once, topology apart. `usable` names those on which at least one pod of the gang could go now;
    `alike` has one for all lots between which counting makes no difference, and their number of nodes.
    """

    pod_sets: tuple[PodSet, ...]
    preferences: Preferences
    lots: tuple[Lot, ...]
    usable: frozenset[str]
    alike: tuple[tuple[Lot, int], ...]


def usable(verdicts: tuple[Verdict, ...]) -> bool:
    """Whether a pod of some pod set goes there."""
    return any(one.pods for one in verdicts)
