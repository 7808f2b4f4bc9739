"""Our instances as EC2 lists them. One listing serves all who ask within a second: many bookings look every other second."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from capacity.model import Labels
from provisioner.clouds.aws import machines, topology
from provisioner.clouds.aws.caching import Cached
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.base import Announcement, CloudError, ErrorKind, Instance
from provisioner.state import TAG_INSTALLATION

FRESH = 1.0
FIRST_LOOK, LONGEST_LOOK, MOST_LOOKS = 2.0, 60.0, 10
"""Seconds between looks for an instance's place in the network, which EC2 tells some time after its start, and how many."""
EVENTS = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
EVENTS_KEPT = 60.0
Events = Mapping[str, tuple[Announcement, ...]]
AT_ONCE = 100
"""Ids that one call for topology takes (EC2 API Reference, DescribeInstanceTopology)."""


class Listing:
    """Of one account."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = asyncio.Lock()
        self._events = Cached(self._read_events, EVENTS_KEPT)
        self._lists: dict[tuple[tuple[str, str], ...], tuple[float, list[Mapping[str, Any]]]] = {}
        self._places: dict[str, Labels] = {}
        self._looks: dict[str, tuple[int, float]] = {}

    async def instances(self, tags: Labels, zone_ids: Mapping[str, str]) -> tuple[Instance, ...]:
        """All with these tags; `zone_ids` maps the account's zone names to ids. Raises CloudError."""
        raw = await self._listed(tags)
        events = await self._announced() if raw else {}
        found = [self._instance(each, zone_ids, events) for each in raw]
        mine = [each for each in found if tags.items() <= dict(each.tags).items()]
        if await self._look_for_places([each for each in mine if machines.awaits_topology(each)]):
            return await self.instances(tags, zone_ids)
        return tuple(mine)

    def _instance(self, told: Mapping[str, Any], zone_ids: Mapping[str, str], events: Events) -> Instance:
        made = machines.instance(told, zone_ids, self._places.get(told["InstanceId"], {}))
        return replace(made, announced=events[made.id]) if made.id in events else made

    async def _announced(self) -> Events:
        """Machines are listed though their events can't be read."""
        try:
            return await self._events.get()
        except CloudError:
            return {}

    async def _read_events(self) -> Events:
        """Of all instances of the account that have any. What may not be read is not there."""
        filters = [{"Name": "event.code", "Values": list(EVENTS)}]
        try:
            told = await self._calls.pages(Op.STATUS, "InstanceStatuses", Filters=filters, MaxResults=1000)
        except CloudError as error:
            if error.kind is ErrorKind.CONFIG:
                return {}
            raise
        return {each["InstanceId"]: coming for each in told if (coming := machines.announcements(each))}

    def drop(self) -> None:
        """What is listed from now on was asked for after now."""
        self._lists = {}

    async def _listed(self, tags: Labels) -> list[Mapping[str, Any]]:
        wide = {TAG_INSTALLATION: tags[TAG_INSTALLATION]} if TAG_INSTALLATION in tags else tags
        key = tuple(sorted(wide.items()))
        async with self._lock:
            asked, lists = asyncio.get_running_loop().time(), self._lists
            at, found = lists.get(key, (float("-inf"), []))
            if asked - at >= FRESH:
                filters = [{"Name": f"tag:{name}", "Values": [value]} for name, value in key]
                calls = await self._calls.pages(Op.INSTANCES, "Reservations", Filters=filters, MaxResults=1000)
                found = [each for call in calls for each in call.get("Instances") or ()]
                lists[key] = (asked, found)  # nobody's, if it was dropped meanwhile
            return found

    async def _look_for_places(self, waiting: Sequence[Instance]) -> bool:
        """Whether anything new was learnt. What can't be learnt now is asked again later, less and less often."""
        now = asyncio.get_running_loop().time()
        due = [each.id for each in waiting if self._due(each.id, now)][:AT_ONCE]
        if not due:
            return False
        for identity in due:
            looks = self._looks.get(identity, (0, now))[0]
            self._looks[identity] = (looks + 1, now + min(LONGEST_LOOK, FIRST_LOOK * 2**looks))
        try:
            told = await self._calls.pages(Op.INSTANCE_TOPOLOGY, "Instances", InstanceIds=due)
        except CloudError:
            return False
        places = {each["InstanceId"]: labels for each in told if (labels := topology.of_item(each))}
        self._places |= places
        return bool(places)

    def _due(self, identity: str, now: float) -> bool:
        looks, at = self._looks.get(identity, (0, now))
        return looks < MOST_LOOKS and now >= at
