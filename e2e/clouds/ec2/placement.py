"""Placement groups: no tokens and no pages (cloud.md 1.5)."""

from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.errors import AwsError, missing
from e2e.clouds.ec2.launch import dry_run
from e2e.clouds.ec2.objects import PlacementGroup
from e2e.clouds.ec2.pages import chosen, named, tag_list
from e2e.clouds.ec2.tags import by_resource

MOST = 500
"""Placement groups of an account in a region (cloud.md 1.5)."""
UNKNOWN = "InvalidPlacementGroup.Unknown"


def create(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    name, strategy = params.get("GroupName"), params.get("Strategy", "cluster")
    if not name:
        raise missing("GroupName")
    if name in account.placement_groups:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    if len(account.placement_groups) >= MOST:
        raise AwsError("PlacementGroupLimitExceeded", f"You have reached the limit of {MOST} placement groups")
    tags = by_resource(params.get("TagSpecifications", ()), ("placement-group",)).get("placement-group", {})
    if params.get("DryRun"):
        raise dry_run()
    group = PlacementGroup(name=name, id=account.new_id("pg"), strategy=strategy, tags=tags)
    account.placement_groups[name] = group
    return {"PlacementGroup": _group(account, group)}


def delete(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """Refused while an instance is in it, also one that is shutting down."""
    name = params["GroupName"]
    if name not in account.placement_groups:
        raise AwsError(UNKNOWN, f"The Placement Group '{name}' is unknown.")
    if any(each.spec.group == name and each.state(now) != "terminated" for each in account.instances.values()):
        raise AwsError("InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use and may not be deleted.")
    if params.get("DryRun"):
        raise dry_run()
    del account.placement_groups[name]
    return {}


def describe(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = named(account.placement_groups, params, "GroupNames", UNKNOWN, "Placement Group")
    if ids := params.get("GroupIds"):
        found = named({each.id: each for each in found}, {"GroupIds": ids}, "GroupIds", UNKNOWN, "Placement Group")
    fields = {
        "group-name": lambda each: each.name,
        "group-arn": lambda each: account.arn("placement-group", each.name),
        "strategy": lambda each: each.strategy,
        "state": lambda each: "available",
    }
    return {"PlacementGroups": [_group(account, each) for each in chosen(found, params, fields, lambda each: each.tags)]}


def _group(account: Account, group: PlacementGroup) -> dict[str, Any]:
    return {
        "GroupName": group.name,
        "GroupId": group.id,
        "GroupArn": account.arn("placement-group", group.name),
        "State": "available",
        "Strategy": group.strategy,
        "Tags": tag_list(group.tags),
    }


OPERATIONS: dict[str, Operation] = {
    "CreatePlacementGroup": create,
    "DeletePlacementGroup": delete,
    "DescribePlacementGroups": describe,
}
