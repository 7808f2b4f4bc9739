"""The reconciler of bookings: read one, look at the world, take the one step that the lifecycle names, write it down.

A booking is read from the API server each time: its status is the only memory, and a step that rests on an older one could buy
or end what was settled already. Each write carries the resourceVersion that the step rests on.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import structs

from kube import core, ours
from kube.meta import decode
from kube.resources import BOOKINGS
from provisioner import live, waking
from provisioner.buying import launches
from provisioner.clouds.base import CloudError, ErrorKind
from provisioner.ending.evictions import empty
from provisioner.ending.pace import Pace
from provisioner.lifecycle import next_step
from provisioner.nodes import changes, checkups, hung, marks
from provisioner.nodes.inspecting import NODES_BY_PROVIDER
from provisioner.observing import Observer
from provisioner.repairing.search import Asked, Search, nobody
from provisioner.repairing.slots import StandIn
from provisioner.settings import ProvisionerSettings
from provisioner.state import FINALIZER, MANAGER, State
from provisioner.steps import Buy, CheckUp, Drain, Drop, Mark, Quarantine, Reopen, Step, Terminate, Terms, Unmark, Wait, Write
from provisioner.telling import tellings
from runtime.client import Client, Resource
from runtime.controller import DONE, Controller, Result
from runtime.errors import Conflict, NotFound
from runtime.events import Recorder
from runtime.logging import get_logger
from runtime.telemetry import link

AGAIN = Result(requeue_after=0.0)
WORKERS = 8
TIMEOUT = 150.0
"""Seconds for one step: longer than a cloud's launch may take."""
_BOOKING = Resource(*BOOKINGS)
_AT_ONCE = 16
_log = get_logger("bookings")


class BookingReconciler:
    """Keys are names of bookings. `pace` bounds the ends of machines that pods were left behind on, not those of a release."""

    def __init__(
        self,
        state: State,
        client: Client,
        recorder: Recorder,
        now: Callable[[], datetime],
        pace: Pace | None = None,
        asked: Asked = nobody,
    ) -> None:
        self._state, self._client, self._recorder, self._now = state, client, recorder, now
        self._pace = pace or Pace(state.settings.terminations_per_minute)
        self._search = Search(state, client, recorder, now, asked)
        self.observer = Observer(state, client, now, self._search.sought)
        self._terms = terms(state.settings)

    async def reconcile(self, name: str) -> Result:
        """One step. Raises ApiError and TransportError: the next try begins with a fresh look."""
        try:
            booking = decode(await self._client.get(_BOOKING, name), ours.Booking)
        except NotFound as error:
            if f'"{name}"' not in error.message:
                raise  # a server that doesn't serve bookings says nothing of this one
            self.observer.forget(name)
            self._search.forget(name)
            return DONE
        link(booking.spec.traceparent)
        decision = next_step(booking, await self.observer.observe(booking), self._now(), self._terms)
        if not isinstance(decision.step, Wait):
            _log.info("step", booking=name, phase=booking.status.phase, rule=decision.rule)
        try:
            return await self._take(booking, decision.rule, decision.step)
        except Conflict:
            return AGAIN

    async def _take(self, booking: ours.Booking, rule: str, step: Step) -> Result:
        match step:
            case Wait(seconds):
                return Result(requeue_after=seconds)
            case Write(status) if rule == "replace-bad":
                return await self._order_again(booking, status, rule)
            case Write(status):
                await self._write(booking, status)
            case StandIn(slots):
                await self._search.stand_in(booking, slots)
            case Mark(names) | Unmark(names) | Quarantine(names) | Reopen(names):
                await self._on_nodes(names, changes.of(step, booking, self._now))
            case Buy(token):
                return await self._buy(booking, token, rule)
            case Terminate(ids):
                return await self._terminate(booking, ids, rule)
            case CheckUp() | Drain():
                return await self._with_pods(booking, step, rule)
            case Drop():
                await self._drop(booking)
                return DONE
        crash_point(rule)
        return AGAIN

    async def _write(self, booking: ours.Booking, status: ours.BookingStatus) -> None:
        """A PUT of the status subresource: the server takes nothing else from the body."""
        meta = {"name": booking.metadata.name, "resourceVersion": booking.metadata.resource_version}
        made = await self._client.replace(_BOOKING, {"metadata": meta, "status": status.to_json()}, subresource="status")
        fresh = structs.replace(booking.metadata, resource_version=made["metadata"]["resourceVersion"])
        self._state.remember(structs.replace(booking, metadata=fresh, status=status))
        tellings.export(booking, status, self._now())
        for event in tellings.events(booking, status):
            await self._recorder.event(tellings.regarding(booking), event.type, event.reason, event.message)

    async def _order_again(self, booking: ours.Booking, status: ours.BookingStatus, rule: str) -> Result:
        """Judged again at this moment: another booking, or a new gang, may have taken what the limits left."""
        async with self._state.giving:
            if self.observer.barred(booking, status.launches[-1].purchase):
                return Result(requeue_after=1.0)
            await self._write(booking, status)
            self._state.replaced += 1
        crash_point(rule)
        return AGAIN

    async def _on_nodes(self, names: Iterable[str], patch: Callable[[core.Node], Mapping[str, Any]]) -> None:
        """Patches nodes as they are now, some at a time. A node that went away needs nothing; one that changed is tried again."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with gate:
                await live.change_node(self._client, name, patch)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))

    async def _buy(self, booking: ours.Booking, token: str, rule: str) -> Result:
        launch = next(each for each in booking.status.launches if each.token == token)
        bought = next(each for each in booking.spec.purchases if each.name == launch.purchase)
        key = (bought.pool, bought.source, bought.shape, bought.zone, bought.reservation_id or None)
        cloud = self._state.clouds.get(bought.pool)
        if cloud is None:
            return Result(requeue_after=float(self._terms.poll))
        try:
            found = await cloud.launch(launches.order(booking, launch, self._state.cluster))
            status = launches.answered(booking.status, launch, found, self._now())
        except CloudError as error:
            _log.warning(
                "launch failed", booking=booking.metadata.name, purchase=bought.name, kind=error.kind, error=error.message
            )
            if error.kind in launches.REPEATABLE:
                return Result(requeue_after=float(self._terms.poll))
            status = launches.refused(booking.status, launch, error, self._now())
        finally:
            self.observer.forget(booking.metadata.name)
        crash_point(rule)
        outcome = next(each for each in status.launches if each.token == token)
        if outcome.state == "Failed":
            self._state.backoffs.record(*key, ErrorKind(outcome.reason), outcome.message, self._now())
        else:
            self._state.backoffs.clear(*key)
        await self._write(booking, status)
        return AGAIN

    async def _terminate(self, booking: ours.Booking, ids: tuple[str, ...], rule: str) -> Result:
        """After a last live look for pods: stores may lag, and what runs is sacred, a stranger's pod as well."""
        free = [each for each in booking.status.instances if each.id in ids and not await self._in_use(each)]
        by_pool: dict[str, list[str]] = {}
        for each in free:
            bought = next((one for one in booking.spec.purchases if one.name == each.purchase), booking.spec.purchases[0])
            by_pool.setdefault(bought.pool, []).append(each.id)
        asked = [await self._end(pool, wanted) for pool, wanted in sorted(by_pool.items())]
        self.observer.forget(booking.metadata.name)
        crash_point(rule)
        return Result(requeue_after=1.0 if len(free) == len(ids) and all(asked) else float(self._terms.poll))

    async def _with_pods(self, booking: ours.Booking, step: CheckUp | Drain, rule: str) -> Result:
        """What is done by pods or to them takes a while to be seen."""
        if isinstance(step, CheckUp):
            names = _pools(booking, step.nodes)
            await checkups.begin(self._client, self._state, booking.metadata.name, names, self._now())
        else:
            await self._drain(booking, step.nodes, step.everyone)
        crash_point(rule)
        return Result(requeue_after=1.0 if isinstance(step, CheckUp) else float(self._terms.poll))

    async def _drain(self, booking: ours.Booking, names: tuple[str, ...], everyone: bool) -> None:
        """Closes the nodes first, so that who leaves one doesn't come back to it or to the next."""
        await self._on_nodes(names, marks.drain_patch)
        spared = frozenset[str]() if everyone else marks.names(booking)
        for name in names:
            held = await empty(self._client, name, spared, home=self._state.home)
            if held:
                _log.info("pods stay on a node that is drained", node=name, booking=booking.metadata.name, pods=held)

    async def _in_use(self, machine: ours.BookedInstance) -> bool:
        """Its node may have joined after the booking had given up on it."""
        names = {machine.node, *(each.metadata.name for each in self._state.nodes.by(NODES_BY_PROVIDER, machine.provider_id))}
        found = {await hung.use(self._client, self._state, name, self._now()) for name in sorted(filter(None, names))}
        return hung.Use.PODS in found or (hung.Use.LEFT_BEHIND in found and not self._pace.take(self._now()))

    async def _end(self, pool: str, ids: list[str]) -> bool:
        """Whether the cloud took it."""
        cloud = self._state.clouds.get(pool)
        if cloud is None:
            _log.warning("no cloud is known to end machines in; it is tried again", pool=pool, ids=ids)
            return False
        try:
            await cloud.terminate(ids)
        except CloudError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                _log.warning("termination failed; it is tried again", pool=pool, ids=ids, kind=error.kind, error=error.message)
                return False
        return True

    async def _drop(self, booking: ours.Booking) -> None:
        """The object goes first, held by the finalizer, then the finalizer: a crash between leaves it to the next turn."""
        name, uid = booking.metadata.name, booking.metadata.uid
        if booking.metadata.deletion_timestamp is None:
            await self._client.delete(_BOOKING, name, uid=uid)
        rest = [each for each in booking.metadata.finalizers if each != FINALIZER]
        with contextlib.suppress(NotFound):
            await self._client.patch(_BOOKING, name, {"metadata": {"uid": uid, "finalizers": rest}}, manager=MANAGER)
        self.observer.forget(name)


def terms(settings: ProvisionerSettings) -> Terms:
    return Terms(settle=round(settings.settle_seconds), retention=round(settings.retention_seconds))


def crash_point(rule: str) -> None:
    """Fault injection for end-to-end tests: with CORRAL_CRASH_AT=<rule> in the environment the process dies here, after the
    step's action and before anything is written about it. Inert unless that is set."""
    if os.environ.get("CORRAL_CRASH_AT") == rule:
        os._exit(137)


def _pools(booking: ours.Booking, names: Iterable[str]) -> list[tuple[str, str]]:
    """The nodes with their pools."""
    taken = {each.name: each.pool for each in booking.spec.nodes}
    bought = {each.name: each.pool for each in booking.spec.purchases}
    found = taken | {each.node: bought[each.purchase] for each in booking.status.instances if each.purchase in bought}
    return [(name, found[name]) for name in names if name in found]


# --- what wakes it ---------------------------------------------------------------------------------------------------------


def controller(reconciler: BookingReconciler, state: State) -> Controller[str]:
    """The controller, woken by changes of bookings and of all that they rest on."""
    new: Controller[str] = Controller("bookings", reconciler.reconcile, workers=WORKERS, timeout=TIMEOUT)
    waking.wake_bookings(state, new)
    return new
