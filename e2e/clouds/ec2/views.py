"""Instances as the API tells them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.catalogue import types
from e2e.clouds.ec2.instances import CODES, Instance, Spec
from e2e.clouds.ec2.pages import tag_list


def call(account: Account, made: Sequence[Instance], now: datetime) -> dict[str, Any]:
    """What one call launched: a `Reservation` in EC2's first sense of the word."""
    return {
        "ReservationId": made[0].call if made else "",
        "OwnerId": account.settings.account,
        "Groups": [],
        "Instances": [instance(account, each, now) for each in made],
    }


def state(each: Instance, now: datetime) -> dict[str, Any]:
    name = each.state(now)
    return {"Code": CODES[name], "Name": name}


def instance(account: Account, each: Instance, now: datetime) -> dict[str, Any]:
    """Absent keys are fields that the API leaves out, too."""
    spec, ended = each.spec, each.state(now) == "terminated"
    network = {} if ended else {"SubnetId": spec.subnet, "VpcId": spec.vpc, "PrivateIpAddress": each.address}
    reservation = {"CapacityReservationId": each.reservation} if each.reservation else {}
    return {
        "InstanceId": each.id,
        "ImageId": spec.image,
        "InstanceType": spec.type,
        "State": state(each, now),
        "LaunchTime": each.launched,
        "AmiLaunchIndex": each.index,
        "ClientToken": each.token,
        "Architecture": types()[spec.type]["ProcessorInfo"]["SupportedArchitectures"][0],
        "PlatformDetails": spec.platform,
        "Placement": {
            "AvailabilityZone": spec.zone,
            "AvailabilityZoneId": account.zones[spec.zone].id,
            "GroupName": spec.group,
            "Tenancy": spec.tenancy,
        },
        "PrivateDnsName": "" if ended else each.hostname,
        "SecurityGroups": _groups(account, spec),
        "NetworkInterfaces": [] if ended else _interfaces(account, each),
        "CapacityReservationSpecification": _specification(spec),
        "StateTransitionReason": each.reason[1],
        "Tags": tag_list(each.tags),
        **network,
        **reservation,
        **({"CapacityBlockId": each.block} if each.block and each.runs <= now else {}),
        **({"InstanceLifecycle": spec.market} if spec.market != "on-demand" else {}),
        **({"StateReason": {"Code": each.reason[0], "Message": each.reason[1]}} if each.reason[0] else {}),
        **({"IamInstanceProfile": {"Arn": spec.profile}} if spec.profile else {}),
    }


def _specification(spec: Spec) -> dict[str, Any]:
    told: dict[str, Any] = {"CapacityReservationPreference": spec.preference} if spec.preference else {}
    if spec.target:
        told["CapacityReservationTarget"] = {"CapacityReservationId": spec.target}
    if spec.target_group:
        told["CapacityReservationTarget"] = {"CapacityReservationResourceGroupArn": spec.target_group}
    return told


def _groups(account: Account, spec: Spec) -> list[dict[str, str]]:
    return [{"GroupId": each, "GroupName": account.security_groups[each].name} for each in spec.security_groups]


def _interfaces(account: Account, each: Instance) -> list[dict[str, Any]]:
    return [
        {
            "NetworkInterfaceId": f"eni-{each.id[2:14]}{number:05x}",
            "InterfaceType": interface.get("InterfaceType", "interface"),
            "SubnetId": each.spec.subnet,
            "VpcId": each.spec.vpc,
            "Status": "in-use",
            "Groups": _groups(account, each.spec),
            "Attachment": {
                "DeviceIndex": interface.get("DeviceIndex", 0),
                "NetworkCardIndex": interface.get("NetworkCardIndex", 0),
                "DeleteOnTermination": interface.get("DeleteOnTermination", True),
                "Status": "attached",
            },
            **({} if interface.get("InterfaceType") == "efa-only" else {"PrivateIpAddress": each.address}),
        }
        for number, interface in enumerate(each.spec.interfaces)
    ]
