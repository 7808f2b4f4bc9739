"""The network interfaces of an instance: one on each card, EFA on all of them where the type has it. Pure.

A node that was launched with fewer EFAs than its type has can't get them later, so it gets the whole set. Index rule: device
index 0 on card 0, 1 on every other card (EC2 User Guide, "Maximize network bandwidth on instances with multiple network cards").
Further cards get `efa-only` interfaces, which take no IP address from the subnet, but for types before those existed.
"""

from collections.abc import Sequence
from typing import Any

from provisioner.clouds.aws.shapes import InstanceType

_WITH_ADDRESS = ("p4d.", "p4de.", "p3dn.", "trn1.", "trn1n.")
"""Families whose cards carry IP traffic each; `efa-only` came after them (EC2 User Guide, "Elastic Fabric Adapter")."""


def efas(kind: InstanceType) -> int:
    """How many EFAs each instance of the type is launched with."""
    return min(kind.efas, len(kind.cards))


def interfaces(kind: InstanceType, subnet: str, groups: Sequence[str]) -> list[dict[str, Any]]:
    """The NetworkInterfaces of a launch; a type without EFA has one plain interface."""
    if not efas(kind):
        return [{"DeviceIndex": 0, **_common(subnet, groups)}]
    return [_efa(kind, card, subnet, groups) for card in range(efas(kind))]


def _efa(kind: InstanceType, card: int, subnet: str, groups: Sequence[str]) -> dict[str, Any]:
    with_address = card == 0 or kind.name.startswith(_WITH_ADDRESS)
    return {
        "NetworkCardIndex": card,
        "DeviceIndex": 0 if card == 0 else 1,
        "InterfaceType": "efa" if with_address else "efa-only",
        **_common(subnet, groups),
    }


def _common(subnet: str, groups: Sequence[str]) -> dict[str, Any]:
    return {"SubnetId": subnet, "DeleteOnTermination": True, **({"Groups": list(groups)} if groups else {})}
