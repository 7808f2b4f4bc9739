"""What EC2 refuses in a launch, and what the launch comes to."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.catalogue import types
from e2e.clouds.ec2.errors import AwsError, conflict, invalid, missing
from e2e.clouds.ec2.instances import Spec
from e2e.clouds.ec2.network import interfaces, with_addresses
from e2e.clouds.ec2.objects import Subnet
from e2e.clouds.ec2.tags import by_resource

USER_DATA_LIMIT = 16 * 1024
"""Bytes before encoding (cloud.md 1.10)."""
MARKETS = ("on-demand", "capacity-block", "interruptible-capacity-reservation", "spot")


def resolve(account: Account, whole: Mapping[str, Any]) -> Spec:
    """The launch that merged parameters mean. Raises AwsError."""
    for required in ("ImageId", "InstanceType"):
        if not whole.get(required):
            raise missing(required)
    if whole["InstanceType"] not in types():
        raise invalid(f"Invalid value '{whole['InstanceType']}' for InstanceType.")
    cards = interfaces(whole)
    subnet = _subnet(account, whole, cards)
    preference, target, group_arn = _reservation(whole.get("CapacityReservationSpecification", {}))
    return Spec(
        type=whole["InstanceType"],
        image=whole["ImageId"],
        zone=subnet.zone,
        subnet=subnet.id,
        vpc=subnet.vpc,
        security_groups=_security_groups(account, whole, cards, subnet),
        interfaces=tuple(cards),
        tags=by_resource(whole.get("TagSpecifications", ()), ("instance", "volume", "network-interface")),
        tenancy=whole.get("Placement", {}).get("Tenancy", "default"),
        group=_placement_group(account, whole.get("Placement", {})),
        market=_market(whole.get("InstanceMarketOptions", {}), target, group_arn),
        preference=preference,
        target=target,
        target_group=group_arn,
        user_data=_user_data(whole.get("UserData", "")),
        profile=_profile(account, whole.get("IamInstanceProfile", {})),
        protected=bool(whole.get("DisableApiTermination")),
        addresses=len(with_addresses(cards)),
        efa=sum(each.get("InterfaceType") in ("efa", "efa-only") for each in cards),
    )


def _subnet(account: Account, whole: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> Subnet:
    """The one subnet of the launch, in the zone that the placement names, if it does."""
    placement = whole.get("Placement", {})
    if placement.get("AvailabilityZone") and placement.get("AvailabilityZoneId"):
        raise conflict("Only one of AvailabilityZone and AvailabilityZoneId may be given")
    named = {each["SubnetId"] for each in cards if each.get("SubnetId")} | {
        whole["SubnetId"] for _ in "x" if whole.get("SubnetId")
    }
    if unknown := sorted(named - account.subnets.keys()):
        raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{unknown[0]}' does not exist")
    zone, identity = placement.get("AvailabilityZone", ""), placement.get("AvailabilityZoneId", "")
    wanted = account.zone_of(zone, identity).name if zone or identity else ""
    if len({account.subnets[each].zone for each in named}) > 1:
        raise conflict("All network interfaces must be in the same Availability Zone")
    subnets = [account.subnets[each] for each in sorted(named)] or [
        each for each in account.subnets.values() if wanted in ("", each.zone)
    ]
    if not subnets:
        raise missing("SubnetId")
    if wanted and subnets[0].zone != wanted:
        raise conflict(f"The subnet {subnets[0].id} is not in the Availability Zone {wanted}")
    return subnets[0]


def _security_groups(
    account: Account, whole: Mapping[str, Any], cards: Sequence[Mapping[str, Any]], subnet: Subnet
) -> tuple[str, ...]:
    named = [*whole.get("SecurityGroupIds", ()), *(group for each in cards for group in each.get("Groups", ()))]
    groups = tuple(dict.fromkeys(named)) or tuple(sorted(account.security_groups))[:1]
    for each in groups:
        if each not in account.security_groups:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{each}' does not exist")
        if account.security_groups[each].vpc != subnet.vpc:
            raise AwsError("InvalidParameter", f"Security group {each} and subnet {subnet.id} belong to different networks.")
    return groups


def _reservation(asked: Mapping[str, Any]) -> tuple[str, str, str]:
    """Preference, reservation and resource group (cloud.md 1.1)."""
    preference, target = asked.get("CapacityReservationPreference", ""), asked.get("CapacityReservationTarget", {})
    identity, group = target.get("CapacityReservationId", ""), target.get("CapacityReservationResourceGroupArn", "")
    if identity and group:
        raise conflict("A target names a CapacityReservationId or a CapacityReservationResourceGroupArn, not both")
    if preference in ("open", "none") and target:
        text = "You can specify either a CapacityReservationTarget or a CapacityReservationPreference, but not both"
        raise conflict(f"{text} (preference {preference})")
    if preference not in ("", "open", "none", "capacity-reservations-only"):
        raise invalid(f"Invalid value '{preference}' for CapacityReservationPreference")
    return preference or ("" if target else "open"), identity, group


def _market(asked: Mapping[str, Any], target: str, group: str) -> str:
    market = str(asked.get("MarketType", "on-demand"))
    if market not in MARKETS:
        raise invalid(f"Invalid value '{market}' for MarketType")
    if market in ("spot", "interruptible-capacity-reservation"):
        raise AwsError("Unsupported", f"This stand-in has no {market} instances")
    if market == "capacity-block" and not (target or group):
        raise conflict("MarketType capacity-block needs the target of the Capacity Block's reservation")
    return market


def _placement_group(account: Account, placement: Mapping[str, Any]) -> str:
    name, identity = placement.get("GroupName", ""), placement.get("GroupId", "")
    if name and identity:
        raise conflict("Only one of GroupName and GroupId may be given")
    if not name and not identity:
        return ""
    for group in account.placement_groups.values():
        if name == group.name or identity == group.id:
            return group.name
    raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name or identity}' is unknown.")


def _user_data(text: str) -> str:
    """Base64 as on the wire; a launch template's must be encoded by its author (cloud.md 1.10)."""
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data") from error
    if len(raw) > USER_DATA_LIMIT:
        raise invalid(f"User data is limited to {USER_DATA_LIMIT} bytes")
    return text


def _profile(account: Account, asked: Mapping[str, Any]) -> str:
    if asked.get("Arn") and asked.get("Name"):
        raise conflict("An instance profile is named by Arn or by Name, not both")
    name = asked.get("Name")
    return f"arn:aws:iam::{account.settings.account}:instance-profile/{name}" if name else asked.get("Arn", "")
