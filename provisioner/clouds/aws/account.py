"""What a pool's launches rest on in the account, as records: its launch template and its subnets. Pure."""

import base64
import binascii
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Subnet:
    """`zone` is the account's own name of the zone (us-east-1a), `zone_id` the same in all accounts (use1-az6)."""

    id: str
    zone: str
    zone_id: str
    free: int
    size: int
    state: str = "available"


@dataclass(frozen=True, slots=True)
class Template:
    """One version of a launch template. `preference` is its own for capacity reservations, `efas` how many it sets up itself.

    `groups` are its security groups, `outside` those that stand beside its interfaces, not in them. `owner` is the account,
    `tells_tags` whether instances read their own tags in their metadata.
    """

    id: str
    version: str
    user_data: str = ""
    groups: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    has_interfaces: bool = False
    preference: str = ""
    efas: int = 0
    targets_reservation: bool = False
    image: str = ""
    market: str = ""
    placement_group: str = ""
    instance_type: str = ""
    owner: str = ""
    tells_tags: bool = False


def subnet(answer: Mapping[str, Any]) -> Subnet:
    block = answer.get("CidrBlock") or "0.0.0.0/32"
    return Subnet(
        id=answer["SubnetId"],
        zone=answer.get("AvailabilityZone") or "",
        zone_id=answer.get("AvailabilityZoneId") or "",
        free=answer.get("AvailableIpAddressCount", 0),
        size=ipaddress.ip_network(block, strict=False).num_addresses,
        state=answer.get("State") or "available",
    )


def in_zone(subnets: Iterable[Subnet], zone: str) -> tuple[Subnet, ...]:
    """The subnets of a zone, largest first: an order that stays while addresses come and go, so that a launch that is repeated
    with its token is the same launch."""
    return tuple(sorted((each for each in subnets if each.zone == zone), key=lambda each: (-each.size, each.id)))


def zone_name(subnets: Iterable[Subnet], zone: str, zone_id: str) -> str:
    """The account's own name of a zone that may be told in another account's: ids are the same in all. Without a subnet
    there, and when its name means another zone here, its id stands for it."""
    names = {each.zone_id: each.zone for each in subnets if each.zone_id}
    return names.get(zone_id) or (zone_id if zone_id and zone in names.values() else zone)


def template(answer: Mapping[str, Any]) -> Template:
    """From an item of LaunchTemplateVersions."""
    data: Mapping[str, Any] = answer.get("LaunchTemplateData") or {}
    interfaces: list[Mapping[str, Any]] = data.get("NetworkInterfaces") or []
    beside = data.get("SecurityGroupIds") or data.get("SecurityGroups") or []
    reservation = data.get("CapacityReservationSpecification") or {}
    placement = data.get("Placement") or {}
    return Template(
        id=answer["LaunchTemplateId"],
        version=str(answer["VersionNumber"]),
        user_data=_decoded(data.get("UserData") or ""),
        groups=tuple(beside or (group for each in interfaces[:1] for group in each.get("Groups") or ())),
        outside=tuple(beside),
        has_interfaces=bool(interfaces),
        preference=reservation.get("CapacityReservationPreference") or "",
        efas=sum((each.get("InterfaceType") or "").startswith("efa") for each in interfaces),
        targets_reservation=bool(reservation.get("CapacityReservationTarget")),
        image=data.get("ImageId") or "",
        market=(data.get("InstanceMarketOptions") or {}).get("MarketType") or "",
        placement_group=placement.get("GroupName") or placement.get("GroupId") or "",
        instance_type=data.get("InstanceType") or "",
        tells_tags=(data.get("MetadataOptions") or {}).get("InstanceMetadataTags") == "enabled",
        owner=(answer.get("CreatedBy") or "").removeprefix("arn:").partition("::")[2].partition(":")[0],
    )


def _decoded(text: str) -> str:
    """User data is base64 in a launch template; what isn't is taken as it is."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return text
