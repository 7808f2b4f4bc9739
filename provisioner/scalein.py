"""Ends machines that have been idle long enough. How long that is says the source; prepaid ones stay unless it says otherwise.

A node goes in turns: it is closed first (cordoned, with a note), so that neither the planner nor the scheduler takes it any more;
pods that come back elsewhere are asked to leave, by the eviction API; once it is empty it is looked at again, live, and ended. A
pod that must not be disturbed, or one that can't be moved, keeps its node; a node that is wanted meanwhile is opened again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kube import core
from kube.pools import POOL_LABEL
from kube.times import instant
from provisioner import disruption, live, marks
from provisioner.clouds.base import CloudError, InstanceState
from provisioner.disruption import is_stranger
from provisioner.evictions import empty
from provisioner.observing import idle_seconds
from provisioner.pace import Pace
from provisioner.state import BOOKINGS_BY_NODE, QUARANTINED_LABEL, SOURCE_LABEL, TAG_INSTALLATION, State
from provisioner.steps import ENDED
from runtime.client import Client
from runtime.errors import ApiError, TransportError
from runtime.logging import get_logger

PERIOD = 5.0
LONGEST_DRAIN = 600.0
"""Seconds after which a node whose pods a PodDisruptionBudget holds is opened again; its idle time begins anew."""
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

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(PERIOD)

    async def turn(self) -> None:
        """One look at all nodes. What fails is tried again the next time; a cloud that fails is left alone until then.

        A ValueError is an object that can't be read: it must not end the process.
        """
        failing: set[str] = set()
        for node in list(filter(_candidate, self._state.nodes.values())):
            pool = _pool(node)
            if pool in failing:
                continue
            try:
                await self._one(node)
            except (ApiError, TransportError, CloudError, ValueError) as error:
                _log.warning("scale-in failed; it is tried again", node=node.metadata.name, error=str(error))
                if isinstance(error, CloudError):
                    failing.add(pool)

    async def _one(self, node: core.Node) -> None:
        match self._move(node, self._state.pods_on(node.metadata.name)):
            case Move.CLOSE:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, self._now()))
            case Move.OPEN:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, None))
            case Move.RENEW:
                await live.patch_node(self._client, node.metadata.name, marks.scale_in_patch(node, None, idle=self._now()))
            case Move.DRAIN | Move.END as move:
                await self._after_a_last_look(node, move)

    def _move(self, node: core.Node, pods: Sequence[core.Pod]) -> Move:
        return next_move(self._idle(node, pods), self._now(), self._state.settings.settle_seconds)

    def _idle(self, node: core.Node, pods: Sequence[core.Pod]) -> Idle:
        labels, annotations = node.metadata.labels, node.metadata.annotations
        strangers = [pod for pod in pods if is_stranger(pod, home=self._state.home)]
        return Idle(
            since=_instant(annotations.get(marks.IDLE_SINCE)),
            closed=_instant(annotations.get(marks.SCALE_IN)),
            stay=idle_seconds(self._state, _pool(node), labels.get(SOURCE_LABEL, "")),
            planned=planned(self._state, node.metadata.name) or bool(marks.bookings_on(labels)),
            used=bool(strangers),
            held=disruption.kept(node) or not all(map(disruption.movable, strangers)),
        )

    async def _after_a_last_look(self, node: core.Node, move: Move) -> None:
        """Stores may lag: the node and its pods are read live before anything is done that can't be undone."""
        found = await live.node(self._client, node.metadata.name)
        if self._move(found, await live.pods_on(self._client, node.metadata.name)) is not move:
            return
        if move is Move.DRAIN:
            staying = await empty(self._client, node.metadata.name, home=self._state.home)
            _log.debug("emptying an idle node", node=node.metadata.name, held_by_budgets=staying)
        else:
            await self._end(found)

    async def _end(self, node: core.Node) -> None:
        """The machine is found by providerID among those with our tag."""
        cloud = self._state.clouds.get(_pool(node))
        if cloud is None:
            return
        ours = await cloud.instances({TAG_INSTALLATION: self._state.installation})
        ids = [each.id for each in ours if each.provider_id == node.spec.provider_id and each.state in RUNNING]
        if not ids or not self._pace.take(self._now()):
            return
        _log.info("ending an idle machine", node=node.metadata.name, ids=ids)
        await cloud.terminate(ids)


def _pool(node: core.Node) -> str:
    return node.metadata.labels.get(POOL_LABEL, "")


def planned(state: State, node: str) -> bool:
    """Whether a live booking takes the node of this name."""
    return any(each.status.phase not in ENDED for each in state.bookings.by(BOOKINGS_BY_NODE, node))


def _candidate(node: core.Node) -> bool:
    """Launched, and idle or closed. Quarantined nodes wait for an operator."""
    idle = marks.IDLE_SINCE in node.metadata.annotations or marks.SCALE_IN in node.metadata.annotations
    return marks.launched(node) and idle and QUARANTINED_LABEL not in node.metadata.labels


def _instant(text: str | None) -> datetime | None:
    """None for what isn't an instant: the annotation is open to others, and no time must mean no end."""
    try:
        return instant(text) if text else None
    except ValueError:
        return None
