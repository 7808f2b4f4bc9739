"""Finds machines with our tag that nothing stands for, in every look, whoever made them: no booking, no node of a pool.

Nothing is concluded from one look. An orphan must be seen twice, apart, and stay one for a grace; before it is ended, booking,
node and pods are looked up live, its node closed, and it is looked at once more. When much looks orphaned at once, our own sight
is doubted: nothing is ended, the sightings begin anew, and the pool's condition TooManyOrphans says so.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from kube import core
from kube.meta import ObjectKey, decode
from kube.pools import POOL_LABEL
from kube.resources import BOOKINGS, NODES
from provisioner import live
from provisioner.clouds.base import Cloud, CloudError, Instance, InstanceState
from provisioner.ending.pace import Pace
from provisioner.ending.scalein import AT_ONCE
from provisioner.ending.sightings import Sightings
from provisioner.ending.stray import StrayMarks
from provisioner.nodes import hung, marks
from provisioner.state import QUARANTINED_LABEL, TAG_BOOKING, TAG_CLUSTER, TAG_INSTALLATION, TAG_POOL, State
from runtime import metrics
from runtime.client import Client, Resource
from runtime.errors import ApiError, TransportError
from runtime.logging import get_logger
from runtime.telemetry import meter

PERIOD = 15.0
FEW, SHARE = 5, 10
"""More than FEW orphans, and more than one in SHARE of the machines of a pool: an alarm instead of an end."""
_NODE = Resource(*NODES)
_alive = (InstanceState.PENDING, InstanceState.RUNNING)
_log = get_logger("reaper")


@dataclass(frozen=True, slots=True)
class Claims:
    """What stands for machines: names of all bookings, and the providerIDs that they or nodes of a pool name. `launched`: those
    of nodes that were launched for any pool, even one that is gone.
    """

    bookings: frozenset[str]
    machines: frozenset[str]
    launched: frozenset[str]

    def orphan(self, machine: Instance) -> bool:
        """Whether nothing stands for it. What is paid for anyway outlives its pool: prepaid machines with a node stay."""
        kept = machine.reservation is not None and machine.provider_id in self.launched
        return machine.tags.get(TAG_BOOKING, "") not in self.bookings and machine.provider_id not in self.machines and not kept


def too_many(orphans: int, running: int) -> bool:
    """Whether so much looks orphaned that our own sight is in doubt."""
    return orphans > max(FEW, running / SHARE)


@contextmanager
def _tried_again(where: str) -> Iterator[None]:
    try:
        yield
    except (ApiError, TransportError, CloudError, ValueError) as error:
        _log.warning("a look for orphans failed; it is tried again", where=where, error=str(error))


class Reaper:
    """Looks every few seconds, pool by pool."""

    def __init__(self, state: State, client: Client, now: Callable[[], datetime], pace: Pace) -> None:
        self._state, self._client, self._now, self._pace = state, client, now, pace
        self._stray = StrayMarks(state, client, now)
        self._sightings: dict[str, Sightings] = {}
        self._counts: dict[str, int] = {}
        metrics.gauge("corral_orphaned_machines", "Machines that nothing stands for, as of the last look", self._orphans)
        metrics.gauge("corral_nodes_of_gone_pools", "Nodes launched for a pool that isn't there any more", self._left)
        metrics.gauge(
            "corral_silent_nodes", "Nodes not Ready for half an hour and longer", lambda: hung.silent_nodes(state, now())
        )
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
        """One look at everything. What fails, or can't be read (ValueError), is tried again the next time, and holds up no other
        pool.
        """
        self._forget()
        with _tried_again("marks"):
            await self._stray.turn()
        seen: set[str] = set()
        for pool, cloud in sorted(self._state.clouds.items()):
            with _tried_again(pool):
                await self._pool(pool, cloud, seen)

    def _forget(self) -> None:
        """Drops what was seen in pools that are gone."""
        for known in (self._counts, self._sightings, self._state.alarms):
            for pool in set(known) - set(self._state.clouds):
                del known[pool]

    async def _pool(self, pool: str, cloud: Cloud, seen: set[str]) -> None:
        """`seen` are the machines that pools before this one answer for in this turn: clouds show each pool all of an account."""
        listed = await cloud.instances({TAG_INSTALLATION: self._state.installation})
        running = [each for each in listed if each.state in _alive and self._ours(each, pool) and each.provider_id not in seen]
        seen |= {each.provider_id for each in running}
        claims = self._claims()
        orphans = {each.id: each for each in running if claims.orphan(each)}
        ripe = self._judge(pool, list(orphans), len(running))
        await self._reap(pool, cloud, [orphans[each] for each in ripe])

    def _judge(self, pool: str, orphans: list[str], running: int) -> list[str]:
        """Ids of those that have been orphans for long enough, none while there are too many."""
        self._counts[pool] = len(orphans)
        if not too_many(len(orphans), running):
            self._state.alarms.pop(pool, None)
            sightings = self._sightings.setdefault(pool, Sightings())
            return sightings.ripe(orphans, asyncio.get_running_loop().time(), self._state.settings.reap_grace_seconds)
        self._sightings.pop(pool, None)
        self._alarms.add(1, {"pool": pool})
        _log.error("too many orphans", pool=pool, orphans=len(orphans), running=running)
        self._state.alarms[pool] = (
            f"{len(orphans)} of {running} machines look orphaned, such as {', '.join(sorted(orphans)[:3])}: none is ended; check "
            "installation id, bookings and the account, and end by hand what nobody needs"
        )
        return []

    def _ours(self, machine: Instance, pool: str) -> bool:
        """Of this installation in this cluster, and the pool's own or that of no pool there is. The cloud's filter is not trusted
        alone, and one installation id in the files of two clusters must harm neither."""
        tags = machine.tags
        mine = tags.get(TAG_INSTALLATION) == self._state.installation
        same_cluster = tags.get(TAG_CLUSTER, self._state.cluster) == self._state.cluster
        own = tags.get(TAG_POOL, "")
        return mine and same_cluster and (own == pool or self._state.pool(own) is None)

    def _claims(self) -> Claims:
        bookings = list(self._state.bookings.values())
        taken = {each.provider_id for booking in bookings for each in booking.spec.nodes}
        known = {each.provider_id for booking in bookings for each in booking.status.instances if each.state != "Gone"}
        standing = {node.spec.provider_id for node in self._state.nodes.values() if self._stands(node)}
        launched = frozenset(node.spec.provider_id for node in self._state.nodes.values() if marks.launched(node))
        return Claims(frozenset(each.metadata.name for each in bookings), frozenset(taken | known | standing), launched)

    def _stands(self, node: core.Node) -> bool:
        """Whether a node is reason enough for its machine: a pool's, booked, or with marks that are seen to first."""
        labels = node.metadata.labels
        marked = bool(marks.bookings_on(labels)) or (marks.tainted(node) and QUARANTINED_LABEL not in labels)
        return marked or self._state.selected(labels)

    async def _reap(self, pool: str, cloud: Cloud, machines: Iterable[Instance]) -> None:
        """Ends those that a live look shows without booking and pods in one call, as far as the budget goes."""
        nodes = await self._nodes() if machines else {}
        ids: list[str] = []
        for machine in machines:
            if len(ids) == AT_ONCE or self._pace.left(self._now()) <= 0:
                break
            with _tried_again(pool):
                vacant = not await self._booked(machine) and await self._vacant(nodes.get(machine.provider_id))
                if vacant and self._pace.take(self._now()):
                    _log.warning("ending a machine that nobody claims", pool=pool, id=machine.id, tags=dict(machine.tags))
                    ids.append(machine.id)
        if ids:
            await cloud.terminate(ids)
            self._reaped.add(len(ids), {"pool": pool})

    async def _nodes(self) -> Mapping[str, core.Node]:
        """By providerID, live."""
        nodes = [decode(each, core.Node) for each in await self._client.list(_NODE)]
        return {node.spec.provider_id: node for node in nodes if node.spec.provider_id}

    async def _booked(self, machine: Instance) -> bool:
        name = machine.tags.get(TAG_BOOKING, "")
        return bool(name) and await live.still_there(self._client, BOOKINGS, ObjectKey(name=name)) is not False

    async def _vacant(self, node: core.Node | None) -> bool:
        """Whether no pod runs there and none can come any more: the node was closed a look ago. Opens one in use again."""
        if node is None:
            return True
        if self._stands(node):
            return False
        used = bool(hung.strangers(self._state, await live.pods_on(self._client, node.metadata.name), self._now(), node))
        closed = marks.SCALE_IN in node.metadata.annotations
        if used is closed:
            patch = marks.scale_in_patch(node, None if used else self._now())
            await live.patch_node(self._client, node.metadata.name, patch)
        return closed and not used

    def _orphans(self) -> metrics.Series:
        return [(count, {"pool": pool}) for pool, count in sorted(self._counts.items())]

    def _left(self) -> metrics.Series:
        pools = Counter(node.metadata.labels[POOL_LABEL] for node in self._state.nodes.values() if marks.launched(node))
        return [(count, {"pool": pool}) for pool, count in sorted(pools.items()) if self._state.pool(pool) is None]
