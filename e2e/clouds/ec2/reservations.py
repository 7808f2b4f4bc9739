"""Capacity Reservations and Capacity Blocks as the API tells them (cloud.md 1.1, 1.2)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.objects import Reservation
from e2e.clouds.ec2.pages import chosen, named, page, tag_list
from e2e.clouds.ec2.room import told_free

NOT_FOUND = "InvalidCapacityReservationId.NotFound"


def describe(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = named(account.reservations, params, "CapacityReservationIds", NOT_FOUND, "capacity reservation")
    fields = {
        "instance-type": lambda each: each.type,
        "owner-id": lambda each: each.owner,
        "instance-platform": lambda each: each.platform,
        "availability-zone": lambda each: each.zone,
        "tenancy": lambda each: each.tenancy,
        "state": lambda each: each.state_at(now),
        "end-date-type": _end_type,
        "instance-match-criteria": lambda each: each.match,
        "placement-group-arn": lambda each: each.placement_group_arn,
    }
    kept = chosen(found, params, fields, lambda each: each.tags)
    part, more = page(kept, params, ids="CapacityReservationIds")
    return {"CapacityReservations": [_reservation(account, each, now) for each in part], **more}


def blocks(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    by_block: dict[str, list[Reservation]] = {}
    for each in account.reservations.values():
        if each.block:
            by_block.setdefault(each.block, []).append(each)
    found = named(by_block, params, "CapacityBlockIds", "InvalidCapacityBlockId.NotFound", "Capacity Block")
    fields = {
        "capacity-block-id": lambda each: each[0].block,
        "ultraserver-type": lambda each: each[0].ultraserver,
        "availability-zone": lambda each: each[0].zone,
        "state": lambda each: each[0].state_at(now),
    }
    part, more = page(chosen(found, params, fields, lambda each: each[0].tags), params, ids="CapacityBlockIds")
    return {"CapacityBlocks": [_block(account, each, now) for each in part], **more}


def _end_type(each: Reservation) -> str:
    return "unlimited" if each.end is None else "limited"


def _reservation(account: Account, each: Reservation, now: datetime) -> dict[str, Any]:
    behind = now - timedelta(seconds=account.settings.counting)
    free = told_free(account, each, now, behind)
    used = each.outside + len(account.taken(each.id, behind))
    return {
        "CapacityReservationId": each.id,
        "CapacityReservationArn": account.arn("capacity-reservation", each.id, each.owner),
        "OwnerId": each.owner,
        "InstanceType": each.type,
        "InstancePlatform": each.platform,
        "AvailabilityZone": each.zone,
        "AvailabilityZoneId": account.zones[each.zone].id,
        "Tenancy": each.tenancy,
        "TotalInstanceCount": each.total,
        "AvailableInstanceCount": free,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": each.state_at(now),
        "EndDateType": _end_type(each),
        "InstanceMatchCriteria": each.match,
        "ReservationType": each.kind,
        "CapacityAllocations": [{"AllocationType": "used", "Count": used}] if used else [],
        "Tags": tag_list(each.tags),
        **({"StartDate": each.start} if each.start else {}),
        **({"EndDate": each.end} if each.end else {}),
        **({"PlacementGroupArn": each.placement_group_arn} if each.placement_group_arn else {}),
        **({"CapacityBlockId": each.block} if each.block else {}),
        **({} if each.launchable is None else {"LaunchStatus": "launchable" if each.launchable else "unlaunchable"}),
    }


def _block(account: Account, parts: Sequence[Reservation], now: datetime) -> dict[str, Any]:
    first = parts[0]
    return {
        "CapacityBlockId": first.block,
        "AvailabilityZone": first.zone,
        "AvailabilityZoneId": account.zones[first.zone].id,
        "CapacityReservationIds": [each.id for each in parts],
        "State": first.state_at(now),
        "Tags": tag_list(first.tags),
        **({"UltraserverType": first.ultraserver} if first.ultraserver else {}),
        **({"StartDate": first.start, "CreateDate": first.start} if first.start else {}),
        **({"EndDate": first.end} if first.end else {}),
    }


OPERATIONS: dict[str, Operation] = {"DescribeCapacityBlocks": blocks, "DescribeCapacityReservations": describe}
