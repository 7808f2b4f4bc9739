"""Listings of instances, and what EC2 announces of them, in virtual time."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.listing import Listing
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.base import Announcement, CloudError, ErrorKind

TAGS = {"corral.dev/installation": "here"}
MACHINE = {"InstanceId": "i-0a", "State": {"Name": "running"}, "Tags": [{"Key": "corral.dev/installation", "Value": "here"}]}
RETIRED = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)


class Told(Calls):
    """Answers each list half a second later with what was there when it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[Op, list[Any]] = {Op.INSTANCES: [], Op.STATUS: []}
        self.error: CloudError | None = None

    async def pages(self, op: Op, result: str, **parameters: Any) -> list[Any]:
        found = list(self.there[op])
        await asyncio.sleep(0.5)
        if op is Op.STATUS and self.error:
            raise self.error
        return found


@pytest.mark.looptime
async def test_a_listing_that_was_under_way_when_a_machine_came_serves_nobody_who_asks_later() -> None:
    told = Told()
    listing = Listing(told)
    early = asyncio.create_task(listing.instances(TAGS, {}))
    await asyncio.sleep(0.25)
    told.there[Op.INSTANCES] = [{"Instances": [MACHINE]}]
    listing.drop()
    assert await early == ()
    assert [each.id for each in await listing.instances(TAGS, {})] == ["i-0a"]


@pytest.mark.looptime
async def test_scheduled_events_are_announced() -> None:
    told = Told()
    event = {"Code": "instance-retirement", "Description": "degraded hardware", "NotBefore": RETIRED}
    told.there = {Op.INSTANCES: [{"Instances": [MACHINE]}], Op.STATUS: [{"InstanceId": "i-0a", "Events": [event]}]}
    [found] = await Listing(told).instances(TAGS, {})
    at = int(RETIRED.timestamp())
    assert found.announced == (Announcement("Maintenance", at, "instance-retirement: degraded hardware"),)


@pytest.mark.looptime
@pytest.mark.parametrize("kind", [ErrorKind.THROTTLED, ErrorKind.UNKNOWN, ErrorKind.CONFIG])
async def test_machines_are_listed_though_their_events_can_not_be_read(kind: ErrorKind) -> None:
    told = Told()
    told.there[Op.INSTANCES], told.error = [{"Instances": [MACHINE]}], CloudError(kind, "no")
    [found] = await Listing(told).instances(TAGS, {})
    assert (found.id, found.announced) == ("i-0a", ())
