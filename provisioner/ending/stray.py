"""Marks on nodes that nobody claims any more: of bookings that are gone, or of none, and of a silence that is over."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kube import core
from kube.meta import ObjectKey
from kube.resources import BOOKINGS
from provisioner import live
from provisioner.ending.scalein import planned
from provisioner.ending.sightings import Sightings
from provisioner.nodes import hung, marks
from provisioner.nodes.health import ailment
from provisioner.state import QUARANTINED_LABEL, State
from provisioner.steps import ENDED
from provisioner.view import selecting
from runtime.client import Client
from runtime.errors import NotFound
from runtime.logging import get_logger

_log = get_logger("reaper")


def stale(node: core.Node, bookings: frozenset[str], used: bool) -> str | None:
    """The name of a gone booking whose marks the node bears, "" for marks of none, None when all is well.

    A launched node without marks and without a note that it is idle counts as well: nobody would ever end it. The taint of a
    quarantined one is no mark of a booking.
    """
    on_it = marks.bookings_on(node.metadata.labels)
    if used or on_it & bookings:
        return None
    if on_it:
        return min(on_it)
    unclaimed = marks.launched(node) and marks.IDLE_SINCE not in node.metadata.annotations
    return "" if unclaimed or (marks.tainted(node) and QUARANTINED_LABEL not in node.metadata.labels) else None


def back(state: State, node: core.Node) -> bool:
    """Whether it was quarantined for silence alone, is Ready and well again, and nobody holds it or is about to end it."""
    quarantined = QUARANTINED_LABEL in node.metadata.labels and marks.SILENT in node.metadata.annotations
    held = bool(marks.bookings_on(node.metadata.labels)) or planned(state, node.metadata.name)
    if not quarantined or not node.ready or held or marks.SCALE_IN in node.metadata.annotations:
        return False
    pools = [state.pool(name) for name in selecting(node, state.pools.values())]
    return not any(ailment(node, pool) for pool in pools or [None])


class StrayMarks:
    """Takes them off after two sightings and a grace, never from under pods. Who was silent is opened as soon as it is back."""

    def __init__(self, state: State, client: Client, now: Callable[[], datetime]) -> None:
        self._state, self._client, self._now = state, client, now
        self._sightings = Sightings()

    async def turn(self) -> None:
        """Frees nodes of the marks of bookings that are gone; launched ones become idle, adopted ones are left as they were."""
        bookings = frozenset(each.metadata.name for each in self._state.bookings.values())
        joined = _joined(self._state)
        found: dict[str, str] = {}
        for node in self._state.nodes.values():
            name = node.metadata.name
            unmarked = not marks.bookings_on(node.metadata.labels)  # what bears marks of gone ones alone its taker can't mark
            held = name in joined or (unmarked and planned(self._state, name))
            used = held or bool(hung.strangers(self._state, self._state.pods_on(name), self._now()))
            booking = stale(node, bookings, used)
            if booking is not None:
                found[name] = booking
        for name in self._sightings.ripe(found, asyncio.get_running_loop().time(), self._state.settings.reap_grace_seconds):
            await self._free(name, found[name])
        for name in [node.metadata.name for node in self._state.nodes.values() if back(self._state, node)]:
            await self._open(name)

    async def _open(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            node = await live.node(self._client, name)
            if back(self._state, node):
                _log.info("opening a node that was silent and is back", node=name)
                await live.patch_node(self._client, name, marks.restore_patch(node))

    async def _free(self, name: str, booking: str) -> None:
        if booking and await live.still_there(self._client, BOOKINGS, ObjectKey(name=booking)) is not False:
            return
        if await hung.use(self._client, self._state, name, self._now()) is hung.Use.PODS:
            return

        def freed(node: core.Node) -> Mapping[str, Any]:
            _log.warning("freeing a node of marks that nobody claims", node=name, booking=booking)
            return marks.unmark_patch(node, {booking}, self._now())

        await live.change_node(self._client, name, freed)


def _joined(state: State) -> set[str]:
    """Names of the nodes of live bookings' machines."""
    live = (each for each in state.bookings.values() if each.status.phase not in ENDED)
    return {machine.node for booking in live for machine in booking.status.instances if machine.node}
