"""Network interfaces of a launch, EFA among them (cloud.md 1.7)."""

from collections.abc import Mapping, Sequence
from typing import Any

from e2e.clouds.ec2.catalogue import types
from e2e.clouds.ec2.errors import conflict, invalid

EFA = ("efa", "efa-only")
KINDS = ("interface", *EFA)
ADDRESS_FIELDS = (
    "AssociatePublicIpAddress",
    "PrivateIpAddress",
    "PrivateIpAddresses",
    "SecondaryPrivateIpAddressCount",
    "Ipv4Prefixes",
    "Ipv4PrefixCount",
    "Ipv6Addresses",
    "Ipv6AddressCount",
    "Ipv6Prefixes",
    "Ipv6PrefixCount",
)


def interfaces(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The interfaces that a launch asks for, one plain one if it names none. Raises AwsError."""
    asked: list[dict[str, Any]] = whole.get("NetworkInterfaces", [])
    if not asked:
        return [{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "interface"}]
    if whole.get("SubnetId") or whole.get("SecurityGroupIds"):
        raise conflict("Network interfaces and an instance-level subnet ID or security groups may not be specified together")
    _check_indexes(asked)
    _check_addresses(asked)
    _check_type(whole["InstanceType"], asked)
    return [{"InterfaceType": "interface", "NetworkCardIndex": 0, **each} for each in asked]


def with_addresses(cards: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Interfaces that take an address of the subnet."""
    return [each for each in cards if each.get("InterfaceType") != "efa-only"]


def _check_indexes(asked: Sequence[Mapping[str, Any]]) -> None:
    """One interface at each place, the first on card 0, further ones with device index 1 on their cards."""
    if any("DeviceIndex" not in each for each in asked):
        raise invalid("Each network interface requires a device index.")
    places = [(each.get("NetworkCardIndex", 0), each["DeviceIndex"]) for each in asked]
    if len(set(places)) < len(places):
        raise invalid("Each network interface requires a unique device index on its network card.")
    if (0, 0) not in places:
        raise invalid("The primary network interface must have device index 0 on network card 0.")
    if wrong := [card for card, device in places if card > 0 and device == 0]:
        raise invalid(f"Device index 0 is for network card 0 alone, and network card {wrong[0]} has it")


def _check_addresses(asked: Sequence[Mapping[str, Any]]) -> None:
    for each in asked:
        if each.get("InterfaceType") == "efa-only" and (wrong := [name for name in ADDRESS_FIELDS if name in each]):
            raise invalid(f"An efa-only network interface has no addresses: {wrong[0]}")
    if len(asked) > 1 and any(each.get("AssociatePublicIpAddress") for each in asked):
        raise conflict(
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces."
        )


def _check_type(name: str, asked: Sequence[Mapping[str, Any]]) -> None:
    """What the type has: cards, which of them take EFA, and how many EFA in all."""
    network = types().get(name, {}).get("NetworkInfo", {})
    cards = {each["NetworkCardIndex"]: each for each in network.get("NetworkCards", ())}
    for each in asked:
        index, kind = each.get("NetworkCardIndex", 0), each.get("InterfaceType", "interface")
        if kind not in KINDS:
            raise invalid(f"Invalid value '{kind}' for InterfaceType")
        if index not in cards:
            raise invalid(f"Network card index {index} exceeds the limit for {name}.")
        if kind in EFA and kind not in cards[index].get("InterfaceTypes", ()):
            raise invalid(f"{name} has no {kind} interfaces on network card {index}")
    if any(each.get("InterfaceType") == "efa-only" and each["DeviceIndex"] == 0 for each in asked):
        raise invalid("The primary network interface can't be efa-only")
    most = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    if (count := sum(each.get("InterfaceType") in EFA for each in asked)) > most:
        raise invalid(f"Interface count {count} exceeds the limit for {name}: {most} EFA interfaces")
