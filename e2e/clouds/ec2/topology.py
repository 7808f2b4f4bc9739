"""The two topology calls (cloud.md 1.6)."""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.catalogue import has_topology
from e2e.clouds.ec2.errors import invalid
from e2e.clouds.ec2.instances import Instance
from e2e.clouds.ec2.objects import Reservation
from e2e.clouds.ec2.pages import chosen, named, page
from e2e.clouds.ec2.reservations import NOT_FOUND
from e2e.clouds.ec2.room import places_of


def of_instances(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    ids = params.get("InstanceIds", [])
    if len(ids) > 100:
        raise invalid("InstanceIds may name 100 at most")
    found = account.shown(ids, now) if ids else [each for each in account.instances.values() if each.shows(now)]
    if names := params.get("GroupNames"):
        found = [each for each in found if each.spec.group in names]
    fields = {
        "availability-zone": lambda each: each.spec.zone,
        "instance-type": lambda each: each.spec.type,
        "zone-id": lambda each: account.zones[each.spec.zone].id,
    }
    kept = [each for each in chosen(found, params, fields) if has_topology(each.spec.type)]
    part, more = page(kept, params, ids="InstanceIds", most=100, default=20)
    return {"Instances": [_instance(account, each, now) for each in part], **more}


def of_reservations(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = named(account.reservations, params, "CapacityReservationIds", NOT_FOUND, "capacity reservation", most=10)
    fields = {"availability-zone": lambda each: each.zone, "instance-type": lambda each: each.type}
    kept = [each for each in chosen(found, params, fields) if has_topology(each.type)]
    part, more = page(kept, params, ids="CapacityReservationIds", most=10, default=10)
    return {"CapacityReservations": [_reservation(account, each, now) for each in part], **more}


def shared_nodes(paths: Sequence[Sequence[str]]) -> list[str]:
    """The nodes that all of a reservation lies below: a path cut where its machines part."""
    layers = takewhile(lambda layer: len(set(layer)) == 1, zip(*paths, strict=False))
    return [layer[0] for layer in layers]


def _instance(account: Account, each: Instance, now: datetime) -> dict[str, Any]:
    running = each.state(now) == "running"
    return {
        "InstanceId": each.id,
        "InstanceType": each.spec.type,
        "AvailabilityZone": each.spec.zone,
        "ZoneId": account.zones[each.spec.zone].id,
        "NetworkNodes": [account.node_hash(node) for node in each.nodes] if running else [],
        **({"GroupName": each.spec.group} if each.spec.group else {}),
        **({"CapacityBlockId": each.block} if each.block and running else {}),
    }


def _reservation(account: Account, each: Reservation, now: datetime) -> dict[str, Any]:
    told = each.state_at(now) in ("active", "pending")
    paths = places_of(each) if told else []
    group = each.placement_group_arn.rpartition("/")[2]
    return {
        "CapacityReservationId": each.id,
        "State": each.state_at(now),
        "InstanceType": each.type,
        "AvailabilityZone": each.zone,
        "AvailabilityZoneId": account.zones[each.zone].id,
        "NetworkNodes": [account.node_hash(node) for node in shared_nodes(paths)],
        **({"GroupName": group} if group else {}),
        **({"CapacityBlockId": each.block} if each.block else {}),
    }


OPERATIONS: dict[str, Operation] = {
    "DescribeCapacityReservationTopology": of_reservations,
    "DescribeInstanceTopology": of_instances,
}
