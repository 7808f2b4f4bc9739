"""Where an accepted request stands, from its bookings and its clock. Pure.

no booking yet            plan; Failed when timeouts.queued after acceptance are over
a booking under way       Provisioned=False/CapacityProvisioning
a booking failed          plan again, elsewhere, until timeouts.provision after the first booking; then Failed
a booking Provisioned     Provisioned=True once it is whole, and from then on only BookingExpired or CapacityRevoked
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from capacity.model import Reason
from kube import ours
from kube.times import clock, due, instant, length
from provisioner.asking.parameters import Terms

UNDER_WAY = frozenset({"Marking", "Launching", "Joining", "Failing"})
PACE = timedelta(seconds=5)
SLOWEST = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Attempts:
    """What must outlive the Booking objects: the request's class details keep it. `error`: why the last one failed, in words."""

    made: int = 0
    first_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToPlan:
    """It is to be planned now. `deadline` is when waiting ends; `error` what ended the attempt before."""

    deadline: datetime
    error: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """Accepted, and not looked at further so far."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Provisioned=False. `wake` is when something changes by the clock alone."""

    reason: str
    message: str
    wake: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """`uncounted`: time alone may mend it, so it should use up none of its Workload's retries."""

    reason: str
    message: str
    uncounted: bool = False


@dataclass(frozen=True, slots=True)
class Provisioned:
    booking: ours.Booking


@dataclass(frozen=True, slots=True)
class Ended:
    """After Provisioned. `type` is BookingExpired or CapacityRevoked; `booking` None when it is gone already."""

    type: str
    message: str
    booking: ours.Booking | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to say that was not said."""


Standing = ToPlan | Waiting | Failed | Provisioned | Ended | Keep


def attempts(stored: Attempts, bookings: Sequence[ours.Booking]) -> Attempts:
    """What was stored, brought up to date by the bookings that are there."""
    made, first, error = stored.made, stored.first_at, stored.error
    for booking in sorted(bookings, key=lambda b: b.spec.attempt):
        made = max(made, booking.spec.attempt)
        created = booking.metadata.creation_timestamp
        if first is None and created:
            first = instant(created)
        if booking.status.phase in ("Failing", "Failed"):
            error = failure(booking)
    return Attempts(made, first, error)


def failure(booking: ours.Booking) -> str:
    """Why it failed, in the cloud's own words where it was the cloud."""
    reason, message = booking.status.reason, booking.status.message
    return f"{reason}: {message}" if reason and message else reason or message or "no reason given"


def standing(
    terms: Terms, accepted_at: datetime, provisioned: bool, tries: Attempts, newest: ours.Booking | None, now: datetime
) -> Standing:
    """`provisioned`: the request says Provisioned=True already. `newest`: its booking of the highest attempt, if it is there."""
    return booked(provisioned, newest, now) or _planning(terms, accepted_at, tries, newest, now)


def booked(provisioned: bool, newest: ours.Booking | None, now: datetime) -> Standing | None:
    """What the booking alone tells, whatever the terms are. None: the request waits for a plan."""
    if newest is not None and newest.status.phase in UNDER_WAY and not provisioned:
        return Waiting(Reason.CAPACITY_PROVISIONING.value, _under_way(newest, now))
    if newest is not None and newest.status.provisioned_at:
        return _held(newest, provisioned, now)
    if provisioned:
        return Ended("BookingExpired", "the booking is gone") if newest is None else Keep()
    return None


def _held(booking: ours.Booking, promised: bool, now: datetime) -> Standing:
    """What was not promised before a node was lost isn't promised until there is another."""
    status = booking.status
    if status.reason == "CapacityRevoked":
        return Ended("CapacityRevoked", status.message or "nodes of the booking are lost for good", booking)
    if status.phase == "Provisioned":
        whole = promised or booking.whole
        return Provisioned(booking) if whole else Waiting(Reason.CAPACITY_PROVISIONING.value, _under_way(booking, now))
    untold = f"{'no pod came in time: ' if status.reason == 'BookingExpired' else ''}the capacity was given back"
    return Ended("BookingExpired", f"{status.message or untold}{_back_by(booking, now)}", booking)


def _back_by(booking: ours.Booking, now: datetime) -> str:
    """Until when all is to be given back: the instant alone, for this is said once."""
    status = booking.status
    if status.phase != "Releasing" or not status.phase_since:
        return ""
    return (
        f"; it is to be given back by {clock(instant(status.phase_since) + timedelta(seconds=booking.spec.release_seconds), now)}"
    )


def _planning(terms: Terms, accepted_at: datetime, tries: Attempts, newest: ours.Booking | None, now: datetime) -> Standing:
    deadline = deadline_of(terms, accepted_at, tries)
    if tries.made and now >= deadline:
        many = f"{tries.made} attempts" if tries.made > 1 else "one attempt"
        why = tries.error or "its booking was removed"
        return Failed(Reason.GANG_INCOMPLETE.value, f"gave up after {many} in {length(terms.provision)}: {why}")
    again = _next_try(tries, newest)
    if again is not None and now < again:
        words = f"the next one begins at {again.strftime('%H:%M:%SZ')}; gives up at {due(deadline, now)}"
        return Waiting(Reason.GANG_INCOMPLETE.value, f"attempt {tries.made} failed: {tries.error}; {words}", wake=again)
    return ToPlan(deadline, tries.error)


def deadline_of(terms: Terms, accepted_at: datetime, tries: Attempts) -> datetime:
    """When waiting ends: `timeouts.provision` after the first booking, before one `timeouts.queued` after acceptance."""
    if tries.first_at is not None:
        return tries.first_at + timedelta(seconds=terms.provision)
    return accepted_at + timedelta(seconds=terms.queued)


def _next_try(tries: Attempts, failed: ours.Booking | None) -> datetime | None:
    """The second attempt comes at once, later ones after 5, 10, 20 … 60 s: a fault that backs off no offering must not spin."""
    if failed is None or tries.made < 2 or not failed.status.phase_since:
        return None
    wait: timedelta = PACE * 2 ** min(tries.made - 2, 6)
    return instant(failed.status.phase_since) + min(SLOWEST, wait)


def _under_way(booking: ours.Booking, now: datetime) -> str:
    """How far it is, in words that change only with the numbers."""
    until = f"deadline {due(instant(booking.spec.provision_deadline), now)}"
    if booking.status.phase == "Failing":
        return f"attempt {booking.spec.attempt} failed and is rolled back: {failure(booking)}{_by(booking, now)}; {until}"
    total = machines(booking.spec)
    done = sum(machine.state == "Ready" for machine in booking.status.instances)
    done += len(booking.spec.nodes) if booking.status.marked_at else 0
    return f"{min(done, total)} of {total} machines ready{_by(booking, now)}{_held_up(booking)}; {until}"


def _held_up(booking: ours.Booking) -> str:
    """What the booking says of nodes that can't be checked, behind its own count of those that are ready."""
    _, _, words = booking.status.message.partition("; ") if booking.status.phase == "Joining" else ("", "", "")
    return f"; {words}" if words else ""


def _by(booking: ours.Booking, now: datetime) -> str:
    """The deadline of the phase that it is in, if it has one of its own."""
    spec, status = booking.spec, booking.status
    limits = {"Launching": ("bought", spec.launch_seconds), "Failing": ("given back", spec.release_seconds)}
    if status.phase not in limits or not status.phase_since:
        return _machines_by(booking, now) if status.phase == "Joining" else ""
    words, allowed = limits[status.phase]
    return f", to be {words} by {due(instant(status.phase_since) + timedelta(seconds=allowed), now)}"


def _machines_by(booking: ours.Booking, now: datetime) -> str:
    """When the first of the machines that are not there yet must join or be ready. Where the policy says nothing of that, the
    provision deadline counts; the pool's `readiness.timeout` may replace a machine before.
    """
    spec, told, rest = booking.spec, "", []
    for words, state, allowed in (("join", "Launched", spec.join_seconds), ("be verified", "Joined", spec.verify_seconds)):
        since = [_began(each) for each in booking.status.instances if each.state == state]
        if not since:
            continue
        if allowed is None:
            rest.append(words)
        elif first := min(since):
            told += f", to {words} by {due(instant(first) + timedelta(seconds=allowed), now)}"
    return f"{told}, to {' and '.join(rest)} by the deadline at the latest" if rest else told


def _began(each: ours.BookedInstance) -> str:
    return each.joined_at if each.state == "Joined" else each.launched_at


def machines(spec: ours.BookingSpec) -> int:
    return len(spec.nodes) + sum(purchase.count for purchase in spec.purchases)
