"""Ends machines that have been idle long enough. What may be ended says the source: `scaleIn.policy` Never keeps all.

A node goes in two turns: it is closed first (cordoned, with a note), so that neither the planner nor the scheduler takes it any
more; after a settling time it is looked at again, live, and ended only if it is still empty and in no plan. Else it is opened.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kube import core
from kube.meta import decode
from kube.ours import ScaleIn
from kube.pools import POOL_LABEL
from kube.resources import NODES, PODS
from kube.times import instant, seconds
from provisioner import marks
from provisioner.clouds.base import CloudError, InstanceState
from provisioner.observing import is_stranger, scale_in_terms
from provisioner.pace import Pace
from provisioner.state import MANAGER, QUARANTINED_LABEL, SOURCE_LABEL, TAG_INSTALLATION, State
from provisioner.steps import ENDED
from runtime.client import Client, Resource
from runtime.errors import ApiError, Conflict, NotFound, TransportError
from runtime.logging import get_logger

PERIOD = 5.0
RUNNING = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
_NODE, _POD = Resource(*NODES), Resource(*PODS)
_log = get_logger("scalein")


class Move(StrEnum):
    STAY = "stay"
    CLOSE = "close"
    OPEN = "open"
    END = "end"


@dataclass(frozen=True, slots=True)
class Idle:
    """One idle launched node. `planned`: a booking names it. `used`: pods other than DaemonSets' are there."""

    since: datetime | None
    closed: datetime | None
    terms: ScaleIn
    planned: bool = False
    used: bool = False


def next_move(node: Idle, now: datetime, settle: float) -> Move:
    """What to do with the node now."""
    wanted = node.planned or node.used or node.since is None
    if node.closed is not None:
        settled = (now - node.closed).total_seconds() >= settle + 1
        return Move.OPEN if wanted else Move.END if settled else Move.STAY
    if wanted or node.since is None or node.terms.policy == "Never":
        return Move.STAY
    return Move.CLOSE if (now - node.since).total_seconds() >= seconds(node.terms.after) else Move.STAY


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
        move = next_move(
            self._idle(node, self._state.pods_on(node.metadata.name)), self._now(), self._state.settings.settle_seconds
        )
        if move is Move.END:
            await self._end(node)
        elif move in (Move.CLOSE, Move.OPEN):
            await self._patch(node, self._now() if move is Move.CLOSE else None)

    def _idle(self, node: core.Node, pods: Iterable[core.Pod]) -> Idle:
        labels, annotations = node.metadata.labels, node.metadata.annotations
        return Idle(
            since=_instant(annotations.get(marks.IDLE_SINCE)),
            closed=_instant(annotations.get(marks.SCALE_IN)),
            terms=scale_in_terms(self._state, labels.get(POOL_LABEL, ""), labels.get(SOURCE_LABEL, "")),
            planned=node.metadata.name in planned_nodes(self._state) or bool(marks.bookings_on(labels)),
            used=any(is_stranger(pod) for pod in pods),
        )

    async def _end(self, node: core.Node) -> None:
        """After a last live look; the machine is found by providerID among those with our tag."""
        found = decode(await self._client.get(_NODE, node.metadata.name), core.Node)
        listed = await self._client.list(_POD, field_selector=f"spec.nodeName={node.metadata.name}")
        pods = [decode(each, core.Pod) for each in listed]
        if next_move(self._idle(found, pods), self._now(), self._state.settings.settle_seconds) is not Move.END:
            return
        cloud = self._state.clouds.get(_pool(node))
        if cloud is None:
            return
        ours = await cloud.instances({TAG_INSTALLATION: self._state.installation})
        ids = [each.id for each in ours if each.provider_id == node.spec.provider_id and each.state in RUNNING]
        if not ids or not self._pace.take(self._now()):
            return
        _log.info("ending an idle machine", node=node.metadata.name, ids=ids)
        await cloud.terminate(ids)

    async def _patch(self, node: core.Node, closing: datetime | None) -> None:
        try:
            await self._client.patch(_NODE, node.metadata.name, marks.scale_in_patch(node, closing), manager=MANAGER)
        except (NotFound, Conflict) as error:
            _log.info("node not patched", node=node.metadata.name, error=str(error))


def _pool(node: core.Node) -> str:
    return node.metadata.labels.get(POOL_LABEL, "")


def planned_nodes(state: State) -> set[str]:
    """Names of the nodes that live bookings take."""
    live = (each for each in state.bookings.values() if each.status.phase not in ENDED)
    return {node.name for booking in live for node in booking.spec.nodes}


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
