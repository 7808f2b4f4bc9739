"""CreateFleet of type instant (cloud.md 1.4): what can't be had is data in the answer, not an error."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.checks import resolve
from e2e.clouds.ec2.errors import AwsError, conflict, invalid, missing
from e2e.clouds.ec2.instances import Instance
from e2e.clouds.ec2.launch import dry_run, launch, remember, seen
from e2e.clouds.ec2.pages import named, page, tag_list
from e2e.clouds.ec2.tags import by_resource
from e2e.clouds.ec2.templates import of, overlay, version

MOST = 1000
"""MinTargetCapacity (API reference, OnDemandOptionsRequest)."""
PLACE = ("InstanceType", "SubnetId", "AvailabilityZone", "AvailabilityZoneId", "Placement", "ImageId", "BlockDeviceMappings")


@dataclass(frozen=True, slots=True)
class Pool:
    """One override of a template: a type in a zone. `reference` and `override` are told back in the answer."""

    reference: Mapping[str, Any]
    override: Mapping[str, Any]
    launch: Mapping[str, Any]

    @property
    def told(self) -> dict[str, Any]:
        reference = {key: value for key, value in self.reference.items() if key != "LaunchTemplateSpecificationUserData"}
        return {"LaunchTemplateSpecification": reference, "Overrides": dict(self.override)}


Made = list[tuple[Pool, list[Instance]]]


@dataclass(frozen=True, slots=True)
class Order:
    """What a fleet is to bring: `target` instances, `least` of them or none (0: any number), from one pool if `single`."""

    fleet: str
    target: int
    least: int
    single: bool
    tags: Mapping[str, str]


def create_fleet(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    if params.get("Type", "maintain") != "instant":
        raise AwsError("Unsupported", "This stand-in serves fleets of type instant alone")
    token = ("CreateFleet", "", params.get("ClientToken", ""))
    used = seen(account, token, params)
    if used is not None:
        return used.answer
    tags = by_resource(params.get("TagSpecifications", ()), ("fleet", "instance", "volume", "network-interface"))
    pools = _pools(account, params)
    target, least = _target(params)
    if params.get("DryRun"):
        raise dry_run()
    order = Order(account.new_id("fleet"), target, least, _is_single(params), tags.get("instance", {}))
    made, errors = _fill(account, _ordered(params, pools), order, now)
    answer = {"FleetId": order.fleet, "Instances": _rows(made), "Errors": errors}
    account.fleets[order.fleet] = {"Tags": tags.get("fleet", {}), "Answer": answer, "Params": params}
    remember(account, token, params, [each.id for _, instances in made for each in instances], answer)
    return answer


def _target(params: Params) -> tuple[int, int]:
    """Instances asked for, and how many at least (0: whatever there is)."""
    capacity, options = params["TargetCapacitySpecification"], params.get("OnDemandOptions", {})
    if capacity.get("DefaultTargetCapacityType", "on-demand") not in ("on-demand", "capacity-block"):
        raise AwsError("Unsupported", "This stand-in serves on-demand and capacity-block targets alone")
    target, least = capacity["TotalTargetCapacity"], options.get("MinTargetCapacity", 0)
    if target < 1:
        raise invalid("TotalTargetCapacity must be 1 or more")
    if least and not _is_single(params):
        raise conflict("MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone")
    if least > min(target, MOST):
        raise invalid(f"MinTargetCapacity must be {min(target, MOST)} at most")
    return target, least


def _pools(account: Account, params: Params) -> list[Pool]:
    """Every override of every template. Raises AwsError for a template that can't be used at all."""
    found = []
    for config in params["LaunchTemplateConfigs"]:
        reference = config.get("LaunchTemplateSpecification", {})
        if not reference.get("Version"):
            raise missing("LaunchTemplateConfigs.LaunchTemplateSpecification.Version")  # cloud.md 1.4
        number, data = version(of(account, reference), reference["Version"])
        told = {**reference, "Version": str(number)}
        found += [Pool(told, each, _launch(data, reference, each)) for each in config.get("Overrides") or [{}]]
    capacity_type = params["TargetCapacitySpecification"].get("DefaultTargetCapacityType", "on-demand")
    for pool in found:
        market = pool.launch.get("InstanceMarketOptions", {}).get("MarketType", "on-demand")
        if (market == "capacity-block") != (capacity_type == "capacity-block"):
            raise conflict(f"DefaultTargetCapacityType {capacity_type} doesn't go with the template's market {market}")
    return found


def _launch(data: Mapping[str, Any], reference: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """The launch of one override: its subnet replaces that of the template's network interfaces."""
    above = {key: value for key, value in override.items() if key in PLACE}
    zone = {key: above.pop(key) for key in ("AvailabilityZone", "AvailabilityZoneId") if key in above}
    if zone:
        above["Placement"] = {**above.get("Placement", {}), **zone}
    if data.get("NetworkInterfaces") and "SubnetId" in above:
        subnet = above.pop("SubnetId")
        above["NetworkInterfaces"] = [{**each, "SubnetId": subnet} for each in data["NetworkInterfaces"]]
    if "LaunchTemplateSpecificationUserData" in reference:
        above["UserData"] = reference["LaunchTemplateSpecificationUserData"]
    return overlay(data, above)


def _ordered(params: Params, pools: Sequence[Pool]) -> list[Pool]:
    if params.get("OnDemandOptions", {}).get("AllocationStrategy") == "prioritized":
        return sorted(pools, key=lambda pool: pool.override.get("Priority", float("inf")))
    return list(pools)


def _is_single(params: Params) -> bool:
    options = params.get("OnDemandOptions", {})
    return bool(options.get("SingleInstanceType") or options.get("SingleAvailabilityZone"))


def _fill(account: Account, pools: Sequence[Pool], order: Order, now: datetime) -> tuple[Made, list[dict[str, Any]]]:
    """From pool to pool until there is enough. With a minimum each pool must give it alone, for the stand-in tries no mix."""
    made: Made = []
    errors = []
    for index, pool in enumerate(pools):
        wanted = order.target - sum(len(each) for _, each in made)
        if wanted <= 0 or (order.single and made):
            break
        try:
            instances = _from_pool(account, pool, order, wanted, index, now)
        except AwsError as error:
            errors.append(_error(pool, error))
            continue
        made.append((pool, instances))
        if len(instances) < wanted:
            errors.append(_error(pool, AwsError("InsufficientInstanceCapacity", "There was less than asked for.")))
    return made, errors


def _from_pool(account: Account, pool: Pool, order: Order, most: int, index: int, now: datetime) -> list[Instance]:
    """Instances bear a token and a tag of the fleet's own, not the caller's token."""
    extra = {"TagSpecifications": [{"ResourceType": "instance", "Tags": tag_list(order.tags)}]} if order.tags else {}
    spec = resolve(account, overlay(pool.launch, extra))
    made = launch(account, spec, max(order.least, 1), most, f"{order.fleet}-{index}", now)
    for each in made:
        each.tags["aws:ec2:fleet-id"] = order.fleet
    return made


def _error(pool: Pool, error: AwsError) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": pool.told,
        "Lifecycle": pool.launch.get("InstanceMarketOptions", {}).get("MarketType", "on-demand"),
        "ErrorCode": error.code,
        "ErrorMessage": error.message,
    }


def _rows(made: Made) -> list[dict[str, Any]]:
    """One row an override, with all its instances."""
    rows = []
    for pool, instances in made:
        spec = instances[0].spec
        rows.append(
            {
                "LaunchTemplateAndOverrides": pool.told,
                "Lifecycle": spec.market,
                "InstanceIds": [each.id for each in instances],
                "InstanceType": spec.type,
                "AvailabilityZone": spec.zone,
                "SubnetId": spec.subnet,
            }
        )
    return rows


def describe_fleets(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """By id: fleets of type instant are told in no other way (cloud.md 1.4)."""
    if not params.get("FleetIds"):
        return {"Fleets": []}
    found = named(account.fleets, params, "FleetIds", "InvalidFleetId.NotFound", "fleet")
    part, more = page(found, params, ids="FleetIds")
    return {"Fleets": [_fleet(each) for each in part], **more}


def _fleet(fleet: Mapping[str, Any]) -> dict[str, Any]:
    answer = fleet["Answer"]
    counts = Counter(identity for row in answer["Instances"] for identity in row["InstanceIds"])
    return {
        "FleetId": answer["FleetId"],
        "FleetState": "active",
        "Type": "instant",
        "ClientToken": fleet["Params"].get("ClientToken", ""),
        "FulfilledCapacity": float(len(counts)),
        "Instances": answer["Instances"],
        "Errors": answer["Errors"],
        "Tags": tag_list(fleet["Tags"]),
    }


OPERATIONS: dict[str, Operation] = {"CreateFleet": create_fleet, "DescribeFleets": describe_fleets}
