"""Instances after their launch: told, and ended (cloud.md 1.9)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from e2e.clouds.ec2 import views
from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.errors import AwsError, conflict, invalid, missing
from e2e.clouds.ec2.instances import Instance
from e2e.clouds.ec2.pages import Fields, chosen, page

MOST = 1000
"""Ids of one TerminateInstances."""
USER = ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")


def describe(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """Pages count instances; those of one launch are told together."""
    ids = params.get("InstanceIds", [])
    if ids and "MaxResults" in params:
        raise conflict("The parameter instancesSet cannot be used with the parameter maxResults")
    found = account.shown(ids, now) if ids else [each for each in account.instances.values() if each.shows(now)]
    kept = chosen(found, params, _fields(account, now), lambda each: each.tags)
    part, more = page(kept, params, ids="InstanceIds", least=5)
    calls: dict[str, list[Instance]] = {}
    for each in part:
        calls.setdefault(each.call, []).append(each)
    return {"Reservations": [views.call(account, each, now) for each in calls.values()], **more}


def status(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """Running instances alone, unless IncludeAllInstances."""
    ids = params.get("InstanceIds", [])
    found = account.shown(ids, now) if ids else [each for each in account.instances.values() if each.shows(now)]
    kept = chosen(found, params, _fields(account, now))
    told = [each for each in kept if params.get("IncludeAllInstances") or each.state(now) == "running"]
    part, more = page(told, params, ids="InstanceIds", least=5)
    return {"InstanceStatuses": [_status(account, each, now) for each in part], **more}


def terminate(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """One unknown id fails the call as a whole; a protected instance keeps those of its zone alive."""
    ids = params["InstanceIds"]
    if not ids:
        raise missing("InstanceIds")
    if len(ids) > MOST:
        raise invalid(f"InstanceIds may name {MOST} at most")
    found = account.shown(ids, now)
    if params.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
    guarded = {each.spec.zone for each in found if each.spec.protected}
    before = {each.id: views.state(each, now) for each in found}
    for each in found:
        if each.spec.zone not in guarded:
            account.stop(each, now, USER)
    if guarded:
        names = ", ".join(each.id for each in found if each.spec.protected)
        raise AwsError("OperationNotPermitted", f"The instance '{names}' may not be terminated: disableApiTermination is set.")
    return {
        "TerminatingInstances": [
            {"InstanceId": each.id, "PreviousState": before[each.id], "CurrentState": views.state(each, now)} for each in found
        ]
    }


def _status(account: Account, each: Instance, now: datetime) -> dict[str, Any]:
    well: dict[str, Any] = {"Status": "ok" if each.state(now) == "running" else "not-applicable", "Details": []}
    return {
        "InstanceId": each.id,
        "AvailabilityZone": each.spec.zone,
        "AvailabilityZoneId": account.zones[each.spec.zone].id,
        "InstanceState": views.state(each, now),
        "InstanceStatus": well,
        "SystemStatus": well,
        "Events": [],
    }


def _fields(account: Account, now: datetime) -> Fields[Instance]:
    fields: Mapping[str, Any] = {
        "availability-zone": lambda each: each.spec.zone,
        "availability-zone-id": lambda each: account.zones[each.spec.zone].id,
        "capacity-reservation-id": lambda each: each.reservation,
        "client-token": lambda each: each.token,
        "event.code": lambda each: "",  # none is ever announced here
        "image-id": lambda each: each.spec.image,
        "instance-id": lambda each: each.id,
        "instance-lifecycle": lambda each: "" if each.spec.market == "on-demand" else each.spec.market,
        "instance-state-code": lambda each: str(views.state(each, now)["Code"]),
        "instance-state-name": lambda each: each.state(now),
        "instance-type": lambda each: each.spec.type,
        "placement-group-name": lambda each: each.spec.group,
        "reservation-id": lambda each: each.call,
        "subnet-id": lambda each: each.spec.subnet,
        "vpc-id": lambda each: each.spec.vpc,
    }
    return fields


OPERATIONS: dict[str, Operation] = {
    "DescribeInstances": describe,
    "DescribeInstanceStatus": status,
    "TerminateInstances": terminate,
}
