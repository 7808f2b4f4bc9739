"""Looks for nodes in place of lost ones: the planner on what is free now, one at a time. What it finds is written down first."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import structs

from capacity.model import Outcome, Plan, Shortfall, Undecidable
from capacity.plan import plan
from capacity.quantity import money
from kube import ours
from kube.bookings import MENDED
from kube.meta import decode
from kube.resources import BOOKINGS
from provisioner.asking.acceptance import Accepted
from provisioner.buying import limits
from provisioner.planning.grounds import Grounds
from provisioner.planning.room import Room
from provisioner.planning.snapshots import room
from provisioner.repairing import standins
from provisioner.repairing.slots import Slot, Sought
from provisioner.repairing.standins import Place
from provisioner.state import MANAGER, State
from provisioner.steps import LIVE
from provisioner.telling import tellings
from provisioner.telling.outcomes import bound
from provisioner.view import View, take
from runtime.client import Client, Resource
from runtime.errors import ServerError, TransportError
from runtime.events import Recorder
from runtime.logging import get_logger

Asked = Callable[[str], Accepted | None]
AGAIN = 30.0
"""Seconds between two looks that found nothing for all."""
LOOK = 60.0
"""Seconds after which a look asks the planner no more: well before the step that waits for it is given up (`bookings.TIMEOUT`),
for a thread can't be stopped.
"""
_LONGEST = 300
_clock = time.monotonic
_BOOKING = Resource(*BOOKINGS)
_log = get_logger("search")


def nobody(_: str) -> Accepted | None:
    return None


@dataclass(slots=True)
class Found:
    """Plans by slot, and why there is none for the others for which anything might be bought: one word, and what is told."""

    plans: list[tuple[Slot, Plan]] = field(default_factory=list)
    reason: str = ""
    unfound: str = ""


class Search:
    """`asked` gives what a request asks for, by its UID, if it is known."""

    def __init__(self, state: State, client: Client, recorder: Recorder, now: Callable[[], datetime], asked: Asked) -> None:
        self._state, self._client, self._recorder, self._now, self._asked = state, client, recorder, now, asked
        self._grounds = Grounds()
        self._next: dict[str, float] = {}
        self._unfound: dict[str, tuple[str, str]] = {}

    def sought(self, booking: str, seconds: int) -> Sought:
        """How the look for it stands; it goes on for so many seconds if no pod has come."""
        due = asyncio.get_running_loop().time() >= self._next.get(booking, 0.0)
        return Sought(due, self._unfound.get(booking, ("", ""))[1], seconds)

    def forget(self, booking: str) -> None:
        self._next.pop(booking, None)
        self._unfound.pop(booking, None)

    async def stand_in(self, booking: ours.Booking, slots: Sequence[Slot]) -> None:
        """Writes the booking's plan with all that is to be had in place of the slots. Raises ApiError and TransportError."""
        found = await self._look(booking, slots)
        async with self._state.giving:
            spec, kept = self._with(booking, found.plans)
            if not kept:
                return
            said = spec.to_json()
            body = {
                "metadata": {"resourceVersion": booking.metadata.resource_version},
                "spec": {key: said.get(key) for key in MENDED},
            }
            try:
                fresh = await self._client.patch(_BOOKING, booking.metadata.name, body, manager=MANAGER)
                self._state.remember(decode(fresh, ours.Booking))
            except (TransportError, ServerError):
                self._state.remember(structs.replace(booking, spec=spec), answered=False)
                raise
            finally:
                self._state.replaced += 1
        for slot, made in kept:
            event = tellings.stand_in(slot, made)
            await self._recorder.event(tellings.regarding(booking), event.type, event.reason, event.message)

    def _with(
        self, booking: ours.Booking, plans: Iterable[tuple[Slot, Plan]]
    ) -> tuple[ours.BookingSpec, list[tuple[Slot, Plan]]]:
        """The booking's plan with what nobody took meanwhile, and which that is. The same machines again are no change."""
        spec, kept, nodes = booking.spec, [], {node.metadata.name: node for node in self._state.nodes.values()}
        for slot, made in plans:
            rest = standins.without(spec, [slot], nodes)
            view = self._view(structs.replace(booking, spec=rest))
            used = [nodes[use.node.name] for use in made.uses if use.node.name in nodes]
            if len(used) == len(made.uses) and not any(map(view.booked_by, used)) and not limits.breached(view, made):
                labels = {name: pool.spec.node_labels for name, pool in view.pools.items()}
                ids = {node.metadata.name: node.spec.provider_id for node in used}
                new = standins.with_plan(rest, made, self._now(), ids, labels)
                if (new.nodes, new.purchases) != (spec.nodes, spec.purchases):
                    spec = new
                    kept.append((slot, made))
        return spec, kept

    def _view(self, booking: ours.Booking) -> View:
        return take(self._state, self._now(), fresh=booking, other=limits.as_ordered)

    async def _look(self, booking: ours.Booking, slots: Sequence[Slot]) -> Found:
        """Plans for as many of the slots as there are. A fault of the planner's holds up nothing else that the booking needs."""
        name, asked = booking.metadata.name, self._asked(booking.spec.request.uid)
        try:
            found = (
                await self._found(booking, asked, slots)
                if asked
                else Found(reason="unknown", unfound="its request is not known any more")
            )
        except Exception as error:
            _log.exception("nothing could be looked for in place of lost nodes", booking=name)
            found = Found(reason="fault", unfound=f"the planner failed on it: {error!r:.200}")
        finally:
            self._next[name] = asyncio.get_running_loop().time() + AGAIN
        self._note(name, found)
        return found

    def _note(self, booking: str, found: Found) -> None:
        """The first words stay as long as the reason does: the numbers of free places change with each look, and each change is
        told to everybody.
        """
        old, told = self._unfound.get(booking, ("", "")), found.unfound[:_LONGEST]
        if not told or not old[1] or old[0] != found.reason:
            self._unfound[booking] = (found.reason, told)

    async def _found(self, booking: ours.Booking, accepted: Accepted, slots: Sequence[Slot]) -> Found:
        rest = structs.replace(booking, spec=standins.without(booking.spec, slots, ()))
        view = _with_spares(self._view(rest))
        active = [pool for pool in view.pools.values() if _may_serve(pool, accepted)]
        free = room(view, active, self._grounds).without(frozenset(view.offered), "a booking that ends")
        return await asyncio.to_thread(_in_turn, rest, accepted, slots, free, self._places(rest))

    def _places(self, booking: ours.Booking) -> list[Place]:
        """Where the gang is."""
        pods = {each.name: each.pods for each in booking.spec.purchases}
        names = {each.name: each.pods for each in booking.spec.nodes}
        names |= {
            each.node: pods[each.purchase] for each in booking.status.instances if each.state in LIVE and each.purchase in pods
        }
        nodes = ((self._state.nodes.get(("", name)), there) for name, there in names.items())
        return [(node.metadata.labels, there) for node, there in nodes if node]


def _in_turn(rest: ours.Booking, accepted: Accepted, slots: Sequence[Slot], free: Room, there: list[Place]) -> Found:
    if any(each.placed_by_kueue for each in accepted.gang.pod_sets):
        return Found(reason="pinned", unfound="Kueue pins its pods to hosts")
    found, cost, until = Found(), money(standins.counted(rest.spec).cost_per_hour), _clock() + LOOK
    for slot in slots:
        if _clock() >= until:
            found.reason, found.unfound = "time is over", found.unfound or "the planner needs longer than a look may take"
            break
        outcome = _planned(rest, accepted, slot, free, there, cost)
        if isinstance(outcome, Plan):
            free, cost = free.book(outcome, rest.metadata.name), cost + outcome.cost
            there = [*there, *_places_of(outcome)]
            found.plans.append((slot, outcome))
        elif slot.bought:
            found.reason, found.unfound = _told(outcome)
    return found


def _told(outcome: Shortfall | Undecidable) -> tuple[str, str]:
    if isinstance(outcome, Undecidable):
        return "undecidable", "; ".join(outcome.reasons)
    return "LimitExceeded" if "LimitExceeded" in outcome.message else outcome.reason, outcome.message


def _planned(rest: ours.Booking, accepted: Accepted, slot: Slot, free: Room, there: Sequence[Place], cost: int) -> Outcome:
    """`cost`: micro-dollars an hour of the gang's other nodes."""
    if why := standins.parted(accepted.gang, slot.pods):
        return Undecidable((why,))
    wishes, snapshot = accepted.terms.preferences, free.snapshot
    whole = bound(accepted.gang, accepted.terms, snapshot)
    gang = standins.gang_of(whole, slot.pods, wishes.required_topology, there, rest.spec.domains)
    if wishes.price_ceiling is not None:
        wishes = replace(wishes, price_ceiling=max(0, wishes.price_ceiling - cost))
    idle = plan(gang, replace(snapshot, offerings=()), wishes)
    return idle if isinstance(idle, Plan) or not slot.bought else plan(gang, snapshot, wishes)


def _places_of(found: Plan) -> Iterable[Place]:
    yield from ((use.node.labels, use.pods) for use in found.uses)
    yield from (({**each.offering.shape.labels, **each.offering.domain}, each.pods) for each in found.purchases)


def _may_serve(pool: ours.CapacityPool, accepted: Accepted) -> bool:
    return pool.spec.mode == "Active" and (not accepted.terms.pools or pool.metadata.name in accepted.terms.pools)


def _with_spares(view: View) -> View:
    """Spare machines are for this."""
    return replace(view, pools={name: _spareless(pool) for name, pool in view.pools.items()})


def _spareless(pool: ours.CapacityPool) -> ours.CapacityPool:
    sources = tuple(structs.replace(each, spare_nodes=0) for each in pool.spec.sources)
    return structs.replace(pool, spec=structs.replace(pool.spec, sources=sources))
