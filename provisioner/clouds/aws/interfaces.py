"""The network interfaces of an instance: one on each card, EFA on all cards that have it. Pure.

A node that was launched with fewer EFAs than its type has can't get them later, so it gets the whole set. Index rule: device
index 0 on card 0, 1 on every other card (EC2 User Guide, "Maximize network bandwidth on instances with multiple network cards").
Further cards get `efa-only` interfaces where they can, which take no IP address from the subnet.
"""

from collections.abc import Sequence
from typing import Any

from provisioner.clouds.aws.shapes import Card, InstanceType

EFA, EFA_ONLY = "efa", "efa-only"


def efas(kind: InstanceType) -> int:
    """How many EFAs each instance of the type is launched with."""
    return min(kind.efas, sum(EFA in card.kinds for card in kind.cards))


def interfaces(kind: InstanceType, subnet: str, groups: Sequence[str]) -> list[dict[str, Any]]:
    """The NetworkInterfaces of a launch; a type without EFA has one plain interface."""
    common = {"SubnetId": subnet, "DeleteOnTermination": True, **({"Groups": list(groups)} if groups else {})}
    if not efas(kind):
        return [{"DeviceIndex": 0, **common}]
    cards = [(number, what) for number, card in enumerate(kind.cards) if (what := _kind(number, card))]
    return [
        {"NetworkCardIndex": number, "DeviceIndex": 0 if number == 0 else 1, "InterfaceType": what, **common}
        for number, what in cards[: efas(kind) + (cards[0][1] != EFA)]
    ]


def _kind(number: int, card: Card) -> str:
    """What goes onto a card, "" for a further one that has no EFA. The first must carry the instance's address."""
    if number == 0:
        return EFA if EFA in card.kinds else "interface"
    return EFA_ONLY if EFA_ONLY in card.kinds else EFA if EFA in card.kinds else ""
