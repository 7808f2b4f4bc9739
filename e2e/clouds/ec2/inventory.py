"""What the account tells of the region: types, zones, subnets, security groups."""

from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.catalogue import types
from e2e.clouds.ec2.errors import AwsError, conflict, invalid
from e2e.clouds.ec2.objects import SecurityGroup, Stock, Subnet, Zone
from e2e.clouds.ec2.pages import chosen, named, page

ALL = {"IpProtocol": "-1"}


def instance_types(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    wanted = params.get("InstanceTypes", [])
    if len(wanted) > 100:
        raise invalid("InstanceTypes may name 100 at most")
    if unknown := [each for each in wanted if each not in types()]:
        raise AwsError("InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]")
    found = [types()[each] for each in wanted] or list(types().values())
    kept = chosen(found, params, {"instance-type": lambda each: str(each["InstanceType"])})
    part, more = page(kept, params, ids="InstanceTypes", least=5, most=100, default=100)
    return {"InstanceTypes": list(part), **more}


def type_offerings(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """Where a type is offered at all, whether there are any now or not."""
    kind = params.get("LocationType", "region")
    if kind not in ("availability-zone", "availability-zone-id"):
        raise AwsError("Unsupported", "This stand-in tells offerings by availability-zone or availability-zone-id alone")

    def location(stock: Stock) -> str:
        return stock.zone if kind == "availability-zone" else account.zones[stock.zone].id

    kept = chosen(account.stock.values(), params, {"instance-type": lambda each: each.type, "location": location})
    part, more = page(kept, params, least=5)
    rows = [{"InstanceType": each.type, "LocationType": kind, "Location": location(each)} for each in part]
    return {"InstanceTypeOfferings": rows, **more}


def zones(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """No pages (cloud.md 1.6)."""
    found = list(account.zones.values())
    if names := params.get("ZoneNames"):
        found = [account.zone_of(each) for each in names]
    if ids := params.get("ZoneIds"):
        found = [account.zone_of(identity=each) for each in ids]
    fields = {
        "zone-name": lambda each: each.name,
        "zone-id": lambda each: each.id,
        "region-name": lambda each: account.settings.region,
        "state": lambda each: "available",
        "zone-type": lambda each: "availability-zone",
    }
    return {"AvailabilityZones": [_zone(account, each) for each in chosen(found, params, fields)]}


def _zone(account: Account, zone: Zone) -> dict[str, Any]:
    return {
        "ZoneName": zone.name,
        "ZoneId": zone.id,
        "State": "available",
        "RegionName": account.settings.region,
        "ZoneType": "availability-zone",
        "OptInStatus": "opt-in-not-required",
        "Messages": [],
    }


def subnets(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = named(account.subnets, params, "SubnetIds", "InvalidSubnetID.NotFound", "subnet ID")
    fields = {
        "subnet-id": lambda each: each.id,
        "availability-zone": lambda each: each.zone,
        "availability-zone-id": lambda each: account.zones[each.zone].id,
        "vpc-id": lambda each: each.vpc,
        "state": lambda each: "available",
    }
    part, more = page(chosen(found, params, fields, lambda _: {}), params, ids="SubnetIds", least=5)
    return {"Subnets": [_subnet(account, each, now) for each in part], **more}


def _subnet(account: Account, subnet: Subnet, now: datetime) -> dict[str, Any]:
    return {
        "SubnetId": subnet.id,
        "AvailabilityZone": subnet.zone,
        "AvailabilityZoneId": account.zones[subnet.zone].id,
        "VpcId": subnet.vpc,
        "CidrBlock": subnet.cidr,
        "State": "available",
        "AvailableIpAddressCount": account.free_addresses(subnet, now),
        "OwnerId": account.settings.account,
        "SubnetArn": account.arn("subnet", subnet.id),
        "MapPublicIpOnLaunch": False,
        "Tags": [],
    }


def security_groups(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    if params.get("GroupIds") and params.get("GroupNames"):
        raise conflict("Security groups are named by id or by name, not both")
    found = named(account.security_groups, params, "GroupIds", "InvalidGroup.NotFound", "security group")
    if names := params.get("GroupNames"):
        found = [each for each in found if each.name in names]
    fields = {"group-id": lambda each: each.id, "group-name": lambda each: each.name, "vpc-id": lambda each: each.vpc}
    part, more = page(chosen(found, params, fields, lambda _: {}), params, ids="GroupIds", least=5)
    return {"SecurityGroups": [_group(account, each) for each in part], **more}


def _group(account: Account, group: SecurityGroup) -> dict[str, Any]:
    """Traffic out to everywhere is allowed, as in a new group; EFA's needs a rule of its own (cloud.md 1.7)."""
    itself = {**ALL, "UserIdGroupPairs": [{"GroupId": group.id, "UserId": account.settings.account}], "IpRanges": []}
    everywhere = {**ALL, "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "UserIdGroupPairs": []}
    return {
        "GroupId": group.id,
        "GroupName": group.name,
        "Description": group.name,
        "VpcId": group.vpc,
        "OwnerId": account.settings.account,
        "IpPermissions": [itself] if group.from_itself else [],
        "IpPermissionsEgress": [everywhere, *([itself] if group.to_itself else [])],
        "Tags": [],
    }


OPERATIONS: dict[str, Operation] = {
    "DescribeAvailabilityZones": zones,
    "DescribeInstanceTypeOfferings": type_offerings,
    "DescribeInstanceTypes": instance_types,
    "DescribeSecurityGroups": security_groups,
    "DescribeSubnets": subnets,
}
