"""Finds what nobody claims: machines with our tag that no booking and no node stands for, and marks of bookings that are gone.

Nothing is concluded from one look. An orphan must be seen twice, apart, and stay one for a grace; before it is ended, booking,
node and pods are looked up live. When much looks orphaned at once, it is our sight that is doubted: nothing is ended, and an
alarm is raised.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kube import core
from kube.meta import ObjectKey, decode
from kube.resources import BOOKINGS, CAPACITY_POOLS, NODES, PODS
from provisioner import marks
from provisioner.clouds.base import Cloud, CloudError, Instance, InstanceState
from provisioner.observing import is_stranger, still_there
from provisioner.pace import Pace
from provisioner.state import MANAGER, QUARANTINED_LABEL, TAG_BOOKING, TAG_INSTALLATION, State
from provisioner.steps import ENDED
from runtime.client import Client, Resource
from runtime.errors import ApiError, Conflict, NotFound, TransportError
from runtime.events import Recorder
from runtime.logging import get_logger
from runtime.telemetry import meter

PERIOD = 15.0
APART = 30.0
"""Seconds at least between two sightings."""
FEW, SHARE = 5, 2
"""More than FEW orphans, and more than one in SHARE of all machines: an alarm instead of an end."""
_NODE, _POD = Resource(*NODES), Resource(*PODS)
_alive = (InstanceState.PENDING, InstanceState.RUNNING)
_log = get_logger("reaper")


class Sightings:
    """Since when each thing looks orphaned, without interruption."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def ripe(self, orphans: Iterable[str], now: datetime, grace: float) -> list[str]:
        """Those seen before, at least `grace` (and APART) seconds ago. Whatever isn't named this time is forgotten."""
        self._since = {each: self._since.get(each, now) for each in orphans}
        wait = max(grace, APART)
        return sorted(each for each, since in self._since.items() if (now - since).total_seconds() >= wait)


@dataclass(frozen=True, slots=True)
class Claims:
    """What stands for machines: names of all bookings, providerIDs that they or nodes name."""

    bookings: frozenset[str]
    machines: frozenset[str]

    def orphan(self, machine: Instance) -> bool:
        """Running, with our tag, and nothing stands for it. A node does, whatever its state: its marks are seen to first."""
        claimed = machine.tags.get(TAG_BOOKING, "") in self.bookings or machine.provider_id in self.machines
        return machine.state in _alive and not claimed


def too_many(orphans: int, running: int) -> bool:
    """Whether so much looks orphaned that our own sight is in doubt."""
    return orphans > max(FEW, running / SHARE)


def stale(node: core.Node, bookings: frozenset[str], used: bool) -> str | None:
    """The name of a gone booking whose marks the node bears, "" for marks of none, None when all is well.

    A launched node without marks and without a note that it is idle counts as well: nobody would ever end it.
    """
    on_it = marks.bookings_on(node.metadata.labels)
    if used or on_it & bookings or QUARANTINED_LABEL in node.metadata.labels:
        return None
    if on_it:
        return min(on_it)
    unclaimed = marks.launched(node) and marks.IDLE_SINCE not in node.metadata.annotations
    return "" if unclaimed or marks.tainted(node) else None


class Reaper:
    """Looks every few seconds, pool by pool."""

    def __init__(self, state: State, client: Client, recorder: Recorder, now: Callable[[], datetime], pace: Pace) -> None:
        self._state, self._client, self._recorder, self._now, self._pace = state, client, recorder, now, pace
        self._machines: dict[str, Sightings] = {}
        self._nodes = Sightings()
        self._alarms = meter().create_counter(
            "corral_reaper_alarms", description="Times that too much looked orphaned to be ended"
        )
        self._reaped = meter().create_counter("corral_reaped_machines", description="Machines ended because nobody claimed them")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(PERIOD)

    async def turn(self) -> None:
        """One look at everything. What fails, or can't be read (ValueError), is tried again the next time."""
        try:
            await self._see_to_marks()
            for pool, cloud in sorted(self._state.clouds.items()):
                await self._pool(pool, cloud)
        except (ApiError, TransportError, ValueError) as error:
            _log.warning("a look for orphans failed", error=str(error))

    async def _pool(self, pool: str, cloud: Cloud) -> None:
        try:
            listed = await cloud.instances({TAG_INSTALLATION: self._state.installation})
            running = [each for each in listed if each.state in _alive]
            claims, grace = self._claims(), self._state.settings.reap_grace_seconds
            orphans = {each.id: each for each in running if claims.orphan(each)}
            ripe = self._machines.setdefault(pool, Sightings()).ripe(orphans, self._now(), grace)
            if too_many(len(orphans), len(running)):
                await self._alarm(pool, len(orphans), len(running))
                return
            await self._reap(pool, cloud, [orphans[each] for each in ripe])
        except CloudError as error:
            _log.warning("no look for orphans in this pool", pool=pool, error=str(error))

    async def _reap(self, pool: str, cloud: Cloud, machines: Iterable[Instance]) -> None:
        for machine in machines:
            if self._pace.take(self._now()) and await self._surely_orphan(machine):
                _log.warning("ending a machine that nobody claims", pool=pool, id=machine.id, tags=dict(machine.tags))
                await cloud.terminate([machine.id])
                self._reaped.add(1, {"pool": pool})

    def _claims(self) -> Claims:
        bookings = list(self._state.bookings.values())
        taken = {each.provider_id for booking in bookings for each in booking.spec.nodes}
        known = {each.provider_id for booking in bookings for each in booking.status.instances if each.state != "Gone"}
        there = {node.spec.provider_id for node in self._state.nodes.values()}
        return Claims(frozenset(each.metadata.name for each in bookings), frozenset(taken | known | there))

    async def _surely_orphan(self, machine: Instance) -> bool:
        """A live look at the booking that it is tagged with and at all nodes."""
        name = machine.tags.get(TAG_BOOKING, "")
        if name and await still_there(self._client, BOOKINGS, ObjectKey(name=name)) is not False:
            return False
        nodes = await self._client.list(_NODE)
        return all(decode(each, core.Node).spec.provider_id != machine.provider_id for each in nodes)

    async def _alarm(self, pool: str, orphans: int, running: int) -> None:
        self._alarms.add(1, {"pool": pool})
        words = f"{orphans} of {running} machines look orphaned: none is ended; check installation id, bookings and the account"
        _log.error("too many orphans", pool=pool, orphans=orphans, running=running)
        found = self._state.pool(pool)
        if found is not None:
            about = {"apiVersion": CAPACITY_POOLS.api_version, "kind": CAPACITY_POOLS.kind}
            meta = {"name": pool, "uid": found.metadata.uid}
            await self._recorder.event({**about, "metadata": meta}, "Warning", "TooManyOrphans", words)

    # --- marks that nobody claims

    async def _see_to_marks(self) -> None:
        """Frees nodes of the marks of bookings that are gone; launched ones become idle, adopted ones are left as they were."""
        bookings = frozenset(each.metadata.name for each in self._state.bookings.values())
        planned = _planned(self._state)
        found: dict[str, str] = {}
        for node in self._state.nodes.values():
            used = node.metadata.name in planned or any(is_stranger(pod) for pod in self._state.pods_on(node.metadata.name))
            booking = stale(node, bookings, used)
            if booking is not None:
                found[node.metadata.name] = booking
        for name in self._nodes.ripe(found, self._now(), self._state.settings.reap_grace_seconds):
            await self._free(name, found[name])

    async def _free(self, name: str, booking: str) -> None:
        if booking and await still_there(self._client, BOOKINGS, ObjectKey(name=booking)) is not False:
            return
        listed = await self._client.list(_POD, field_selector=f"spec.nodeName={name}")
        if any(is_stranger(decode(each, core.Pod)) for each in listed):
            return
        try:
            node = decode(await self._client.get(_NODE, name), core.Node)
            _log.warning("freeing a node of marks that nobody claims", node=name, booking=booking)
            await self._client.patch(_NODE, name, marks.unmark_patch(node, {booking}, self._now()), manager=MANAGER)
        except (NotFound, Conflict) as error:
            _log.info("node not patched", node=name, error=str(error))


def _planned(state: State) -> Mapping[str, str]:
    """Node name or providerID -> the live booking that counts on it."""
    found: dict[str, str] = {}
    for booking in state.bookings.values():
        if booking.status.phase not in ENDED:
            found |= {each.name: booking.metadata.name for each in booking.spec.nodes}
            found |= {each.node: booking.metadata.name for each in booking.status.instances if each.node}
    return found
