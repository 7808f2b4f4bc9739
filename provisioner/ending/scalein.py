"""Ends machines that have been idle long enough. How long that is says the source; prepaid ones stay unless it says otherwise.

A node goes in turns: it is closed first (cordoned, with a note), so that neither the planner nor the scheduler takes it any more;
pods that come back elsewhere are asked to leave, by the eviction API; once it is empty it is looked at again, live, and ended. A
pod that must not be disturbed, or one that can't be moved, keeps its node; a node that is wanted meanwhile is opened again. Those
of one pool that are due are ended in one call. Quarantined nodes that no booking holds go as idle ones do, but are never opened.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kube import core
from kube.pools import POOL_LABEL
from kube.times import instant
from provisioner import live
from provisioner.clouds.base import CloudError, InstanceState
from provisioner.ending import disruption
from provisioner.ending.evictions import empty
from provisioner.ending.pace import Pace
from provisioner.nodes import hung, marks
from provisioner.nodes.health import ailment
from provisioner.observing import idle_seconds
from provisioner.state import BOOKINGS_BY_NODE, QUARANTINED_LABEL, SOURCE_LABEL, TAG_INSTALLATION, State
from provisioner.steps import ENDED
from runtime import metrics
from runtime.client import Client
from runtime.errors import ApiError, NotFound, TransportError
from runtime.logging import get_logger

PERIOD = 5.0
LONGEST_DRAIN = 600.0
"""Seconds after which a node whose pods a PodDisruptionBudget holds is opened again; its idle time begins anew."""
AT_ONCE = 50
"""Machines in one call: the first of them was looked at just before."""
RUNNING = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
_log = get_logger("scalein")


class Move(StrEnum):
    STAY = "stay"
    CLOSE = "close"
    OPEN = "open"
    DRAIN = "drain"
    RENEW = "renew"
    END = "end"


@dataclass(frozen=True, slots=True)
class Idle:
    """One idle launched node. `stay`: for how many seconds it may be idle, None for ever. `planned`: a booking names it. `used`:
    pods other than DaemonSets' are there; `held`: one of them, or the node, is not to be disturbed.
    """

    since: datetime | None
    closed: datetime | None
    stay: int | None
    planned: bool = False
    used: bool = False
    held: bool = False


def next_move(node: Idle, now: datetime, settle: float) -> Move:
    """What to do with the node now."""
    wanted = node.planned or node.held or node.since is None or node.stay is None
    if node.closed is not None:
        return Move.OPEN if wanted else _while_closed(node, (now - node.closed).total_seconds(), settle)
    if wanted or node.since is None or node.stay is None:
        return Move.STAY
    return Move.CLOSE if (now - node.since).total_seconds() >= node.stay else Move.STAY


def _while_closed(node: Idle, seconds: float, settle: float) -> Move:
    if seconds < settle + 1:
        return Move.STAY
    if not node.used:
        return Move.END
    return Move.RENEW if seconds >= LONGEST_DRAIN else Move.DRAIN


class ScaleInLoop:
    """Looks at all idle nodes every few seconds."""

    def __init__(self, state: State, client: Client, now: Callable[[], datetime], pace: Pace) -> None:
        self._state, self._client, self._now, self._pace = state, client, now, pace
        metrics.gauge("corral_quarantined_nodes", "Launched nodes found bad that no booking holds", self._quarantined)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(PERIOD)

    async def turn(self) -> None:
        """One look at all nodes. What fails is tried again the next time."""
        due: defaultdict[str, list[core.Node]] = defaultdict(list)
        for node in list(filter(self._candidate, self._state.nodes.values())):
            with _tried_again(node=node.metadata.name):
                if await self._one(node):
                    due[_pool(node)].append(node)
        for pool, nodes in due.items():
            with _tried_again(pool=pool):
                await self._end(pool, nodes)

    def _candidate(self, node: core.Node) -> bool:
        """Launched for a pool that is there, and idle or closed. What is left of a pool that is gone is the reaper's."""
        idle = marks.IDLE_SINCE in node.metadata.annotations or marks.SCALE_IN in node.metadata.annotations
        return idle and marks.launched(node) and self._state.pool(_pool(node)) is not None

    async def _one(self, node: core.Node) -> bool:
        """Does what its move is now; whether that is to end it."""
        move = self._move(node, self._state.pods_on(node.metadata.name))
        match move:
            case Move.CLOSE:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, self._now()))
            case Move.OPEN:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, None))
            case Move.RENEW:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, None, idle=self._now()))
            case Move.DRAIN if await self._still(node, move):
                staying = await empty(self._client, node.metadata.name, home=self._state.home)
                _log.debug("emptying an idle node", node=node.metadata.name, held_by_budgets=staying)
        return move is Move.END

    def _move(self, node: core.Node, pods: Sequence[core.Pod]) -> Move:
        return next_move(self._idle(node, pods), self._now(), self._state.settings.settle_seconds)

    def _booked(self, node: core.Node) -> bool:
        return planned(self._state, node.metadata.name) or bool(marks.bookings_on(node.metadata.labels))

    def _idle(self, node: core.Node, pods: Sequence[core.Pod]) -> Idle:
        labels, annotations = node.metadata.labels, node.metadata.annotations
        strangers = hung.strangers(self._state, pods, self._now(), node)
        return Idle(
            since=_instant(annotations.get(marks.IDLE_SINCE)),
            closed=_instant(annotations.get(marks.SCALE_IN)),
            stay=idle_seconds(self._state, _pool(node), labels.get(SOURCE_LABEL, "")),
            planned=self._booked(node),
            used=bool(strangers),
            held=disruption.kept(node) or not all(map(disruption.movable, strangers)),
        )

    async def _still(self, node: core.Node, move: Move) -> bool:
        """Stores may lag: the node and its pods are read live before anything is done that can't be undone. A node that is gone
        needs nothing.
        """
        try:
            found = await live.node(self._client, node.metadata.name)
        except NotFound:
            return False
        return self._move(found, await live.pods_on(self._client, node.metadata.name)) is move

    async def _end(self, pool: str, nodes: Sequence[core.Node]) -> None:
        """Their machines are found by providerID among those with our tag, and ended in one call, right after the last looks: no
        more than may go now.
        """
        cloud, allowed = self._state.clouds.get(pool), min(AT_ONCE, self._pace.left(self._now()))
        if cloud is None or allowed <= 0:
            return
        listed = await cloud.instances({TAG_INSTALLATION: self._state.installation})
        running = {each.provider_id: each.id for each in listed if each.state in RUNNING}
        ids: list[str] = []
        for node in nodes:
            with _tried_again(node=node.metadata.name):
                there = running.get(node.spec.provider_id)
                if there and len(ids) < allowed and await self._still(node, Move.END) and self._pace.take(self._now()):
                    ids.append(there)
        if ids:
            _log.info("ending idle machines", pool=pool, ids=ids)
            await cloud.terminate(ids)

    def _quarantined(self) -> metrics.Series:
        found = Counter(_pool(node) for node in self._state.nodes.values() if self._bad(node) and not self._booked(node))
        return [(found[pool.metadata.name], {"pool": pool.metadata.name}) for pool in self._state.pools.values()]

    def _bad(self, node: core.Node) -> bool:
        """Quarantined, or sick: no plan takes an idle node that is."""
        pool = self._state.pool(_pool(node))
        return QUARANTINED_LABEL in node.metadata.labels or (pool is not None and bool(ailment(node, pool)))


def _pool(node: core.Node) -> str:
    return node.metadata.labels.get(POOL_LABEL, "")


def planned(state: State, node: str) -> bool:
    """Whether a live booking takes the node of this name."""
    return any(each.status.phase not in ENDED for each in state.bookings.by(BOOKINGS_BY_NODE, node))


@contextmanager
def _tried_again(**what: str) -> Iterator[None]:
    """A ValueError is an object that can't be read: it must not end the process."""
    try:
        yield
    except (ApiError, TransportError, CloudError, ValueError) as error:
        _log.warning("scale-in failed; it is tried again", error=str(error), **what)


def _instant(text: str | None) -> datetime | None:
    """None for what isn't an instant: the annotation is open to others, and no time must mean no end."""
    try:
        return instant(text) if text else None
    except ValueError:
        return None
