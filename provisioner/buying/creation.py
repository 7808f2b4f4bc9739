"""Creates Bookings, once each, and remembers them until the store shows them."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import structs
from opentelemetry.trace import Span

from capacity.model import Labels, Plan
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import decode
from kube.resources import BOOKINGS
from kube.times import stamp
from provisioner.asking.acceptance import Accepted
from provisioner.buying import limits
from provisioner.buying.drafts import booking_name, create_body, draft
from provisioner.planning.cases import Case
from provisioner.repairing.transfer import offered
from provisioner.state import UNSEEN, State
from provisioner.view import take
from runtime.client import Resource
from runtime.errors import AlreadyExists, ApiError, NotFound, ServerError, TransportError
from runtime.logging import get_logger
from runtime.telemetry import TRACEPARENT, context_from, tracer

BOOKING = Resource(*BOOKINGS)
CERTAIN = 600.0
"""Seconds for which a booking that the API server confirmed counts though the store does not show it, however long that lags. One
whose create got no answer counts for UNSEEN: by then it has failed.
"""
_log = get_logger("planner")


class Writer(Protocol):
    """The part of the client that a pass needs."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]: ...
    async def create(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]: ...
    async def apply(
        self, resource: Resource, body: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]: ...
    async def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, manager: str = "") -> dict[str, Any]: ...


class Creator:
    def __init__(self, client: Writer, state: State) -> None:
        self._client, self._state, self._replaced = client, state, 0
        self._created: dict[str, tuple[ours.Booking, float]] = {}  # name -> booking, loop time until which to believe in it
        state.unseen = self.unseen

    def unseen(self) -> Mapping[str, ours.Booking]:
        """Bookings by name that were created but that the store does not show yet."""
        now = asyncio.get_running_loop().time()
        for name, (_, until) in list(self._created.items()):
            if until <= now or self._state.bookings.get(("", name)) is not None:
                del self._created[name]
        return {name: booking for name, (booking, _) in self._created.items()}

    def with_unseen(self, request_uid: str, known: Sequence[ours.Booking]) -> Sequence[ours.Booking]:
        more = [booking for booking in self.unseen().values() if booking.spec.request.uid == request_uid]
        return [*known, *more]

    def begin(self) -> None:
        """Call when the view is taken on which plans rest."""
        self._replaced = self._state.replaced

    async def create(self, case: Case, plan: Plan, now: datetime) -> ours.Booking | None:
        """The booking of the request's next attempt. None: one of that name was there already, with a plan of its own.

        A create without an answer counts as done: its name is certain, and a pass that plans again for it later meets it. None
        also while the attempt before may be there though the store lacks it: unseen isn't over; and where too little of a limit
        is left, or a node is somebody's, since nodes were replaced after `begin`. Raises ApiError when the API server refuses it.
        """
        assert case.accepted is not None
        if await self._before(case):
            return None
        async with self._state.giving:
            return None if self._breached(plan, now) else await self._create(case, case.accepted, plan, now)

    def _breached(self, plan: Plan, now: datetime) -> bool:
        if self._replaced == self._state.replaced:
            return False
        view, used = take(self._state, now), (self._state.nodes.get(("", use.node.name)) for use in plan.uses)
        return any(node and view.booked_by(node) for node in used) or bool(limits.breached(view, plan))

    async def _create(self, case: Case, accepted: Accepted, plan: Plan, now: datetime) -> ours.Booking | None:
        booking = draft(
            case.request,
            accepted,
            plan,
            case.tries,
            now,
            installation=self._state.installation,
            provider_id=self._provider_id,
            giver=lambda node: offered(self._state.bookings.values()).get(node, ""),
            node_labels=self._node_labels,
        )
        name, patience = booking.metadata.name, CERTAIN
        with traced("book", case.request) as span:
            span.set_attributes({"corral.booking": name, "corral.attempt": booking.spec.attempt})
            try:
                made, fresh = decode(await self._client.create(BOOKING, create_body(booking)), ours.Booking), True
            except AlreadyExists:
                made, fresh = decode(await self._client.get(BOOKING, name), ours.Booking), False
            except (TransportError, ServerError) as error:
                _log.warning("creating a booking got no certain answer; it is taken as made", booking=name, error=str(error))
                meta = structs.replace(booking.metadata, creation_timestamp=stamp(now))
                made, fresh, patience = structs.replace(booking, metadata=meta), True, UNSEEN
        self._created[name] = (made, asyncio.get_running_loop().time() + patience)
        return made if fresh else None

    async def _before(self, case: Case) -> bool:
        """Whether the attempt before this one may have a booking that isn't known here. A live look: it may still be buying."""
        name = booking_name(case.request, case.tries.made) if case.tries.made else ""
        if not name or name in self.unseen() or self._state.bookings.get(("", name)) is not None:
            return False
        try:
            made = decode(await self._client.get(BOOKING, name), ours.Booking)
        except NotFound as error:
            return f'"{name}"' not in error.message
        except (ApiError, TransportError):
            return True
        self._created[name] = (made, asyncio.get_running_loop().time() + UNSEEN)
        return True

    def _provider_id(self, node: str) -> str:
        found = self._state.nodes.get(("", node))
        return found.spec.provider_id if found else ""

    def _node_labels(self, name: str) -> Labels:
        pool = self._state.pool(name)
        return pool.spec.node_labels if pool else {}


@contextlib.contextmanager
def traced(name: str, request: ProvisioningRequest, began: datetime | None = None) -> Iterator[Span]:
    """A span in the trace that the request's annotation names, from `began` (else from now on)."""
    context = context_from(request.metadata.annotations.get(TRACEPARENT, ""))
    start = int(began.timestamp() * 1e9) if began else None
    with tracer().start_as_current_span(name, context=context, start_time=start) as span:
        span.set_attributes({"corral.request": f"{request.metadata.namespace}/{request.metadata.name}"})
        yield span
