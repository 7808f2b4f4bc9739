"""What a plan's outcome means for the request, in words that change only when the numbers do."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from capacity.model import ZONE, Gang, Outcome, Plan, Reason, Shortfall, Snapshot, Undecidable
from capacity.quantity import dollars
from kube.times import due, length
from provisioner.asking.parameters import Terms, poolless
from provisioner.planning.room import Room
from provisioner.telling.progress import Failed, ToPlan, Waiting

MOST_NOTES = 3
MOST_NODES = 1500
"""Nodes of one booking: its object must stay under 512 KiB, and a machine takes about 330 bytes of its status."""


@dataclass(frozen=True, slots=True)
class Book:
    """To be booked now."""

    plan: Plan


Next = Book | Waiting | Failed


def bound(gang: Gang, terms: Terms, snapshot: Snapshot) -> Gang:
    """The gang under crossZone Forbid: pod sets without a required level share one zone, where zones are known at all; groups of
    theirs part them no more.
    """
    zoned = any(ZONE in node.labels for node in snapshot.nodes) or any(ZONE in offering.domain for offering in snapshot.offerings)
    if not terms.one_zone or not zoned or terms.preferences.required_topology:
        return gang  # what the policy requires holds for all that name no level of their own
    together = (ps if ps.required_topology else replace(ps, required_topology=ZONE, topology_group="") for ps in gang.pod_sets)
    return replace(gang, pod_sets=tuple(together))


def by_policy(outcome: Outcome, gang: Gang, asked: Gang) -> Outcome:
    """The outcome of `asked`, which `bound` made of `gang`: a zone that the gang doesn't ask for is told as the policy's."""
    if not isinstance(outcome, Shortfall) or gang == asked or any(one.required_topology == ZONE for one in gang.pod_sets):
        return outcome
    less = {f"without {ZONE} as a required level": "with crossZone.policy Allow in the policy"}
    return replace(
        outcome,
        message=outcome.message.replace(
            f" pods in one {ZONE};", f" pods in one {ZONE} (the policy's crossZone.policy is Forbid);"
        ),
        relaxations=tuple(replace(one, text=less.get(one.text, one.text)) for one in outcome.relaxations),
    )


def unheard(outcome: Shortfall, pools: Collection[str]) -> Shortfall:
    """The shortfall as it is told while the clouds of these pools, which may have what is missing, were never heard."""
    if not pools:
        return outcome
    text = f"{outcome.message}; the cloud of pool {', '.join(sorted(pools))} wasn't heard yet"
    return replace(outcome, message=text, hopeless=False, relaxations=())


def waiting(
    outcome: Shortfall, room: Room, todo: ToPlan, asked_at: datetime, now: datetime, next_look: datetime | None = None
) -> Waiting | Failed:
    """Provisioned=False while there is time, Failed for the same reason at the deadline. At `next_look` more may be known."""
    found = _until_the_deadline(outcome.reason, _told(outcome, room, todo), todo, asked_at, now)
    if next_look and isinstance(found, Waiting):
        return replace(found, wake=min(next_look, todo.deadline))
    return found


def hopeless(outcome: Shortfall, room: Room, todo: ToPlan, adopting: Iterable[str]) -> Failed:
    """It would not fit even if all were free, and that is sure. The `adopting` pools take up nodes that others bring and take
    away: what is not there now may be later, so the workload should not be given up for it, as far as its check can tell.
    """
    text, names = _told(outcome, room, todo), ", ".join(sorted(adopting))
    if not names:
        return Failed(outcome.reason.value, text)
    return Failed(outcome.reason.value, f"{text}; others may bring nodes to pool {names}", uncounted=True)


def _told(outcome: Shortfall, room: Room, todo: ToPlan) -> str:
    text = "; ".join((outcome.message, *_notes(outcome, room), *_hints(outcome)))
    return f"{text}; the attempt before failed: {todo.error}" if todo.error else text


def _until_the_deadline(reason: Reason, text: str, todo: ToPlan, asked_at: datetime, now: datetime) -> Waiting | Failed:
    if now >= todo.deadline:
        return Failed(reason.value, f"waited {length(int((now - asked_at).total_seconds()))}: {text}")
    return Waiting(reason.value, f"{text}; gives up at {due(todo.deadline, now)}", wake=todo.deadline)


def _notes(outcome: Shortfall, room: Room) -> Iterable[str]:
    """Why places that would suit can't be had at the moment."""
    subjects = {finding.subject for finding in outcome.findings}
    shut = [o for o in room.snapshot.offerings if o.unavailable and o.name in subjects]
    yield from (f"{offering.name}: {offering.unavailable}" for offering in shut[:MOST_NOTES])


def _hints(outcome: Shortfall) -> Iterable[str]:
    if outcome.hopeless:
        yield "it would not fit even if all were free"
    if outcome.relaxations:
        yield f"would fit: {' | '.join(one.text for one in outcome.relaxations)}"


def behind(head: str, todo: ToPlan, now: datetime, asked_at: datetime, gang: Gang) -> Waiting | Failed:
    """It would fit, but a gang further ahead waits for the same capacity."""
    pods = sum(pod_set.count for pod_set in gang.pod_sets)
    text = f"{pods} of {pods} pods would fit, but {head} is first in turn and waits for the same capacity"
    return _until_the_deadline(Reason.GANG_INCOMPLETE, text, todo, asked_at, now)


def deserted(terms: Terms, todo: ToPlan, asked_at: datetime, now: datetime) -> Waiting | Failed:
    """All the pools that could serve it were deleted since it was accepted."""
    return _until_the_deadline(Reason.GANG_INCOMPLETE, poolless(terms, ()), todo, asked_at, now)


def observed(plan: Plan, pools: Iterable[str], todo: ToPlan, now: datetime) -> Waiting | Failed:
    """A plan that only pools in Observe could carry out."""
    names = ", ".join(sorted(pools))
    bought = sum(purchase.count for purchase in plan.purchases)
    text = (
        f"would use {len(plan.uses)} nodes and buy {bought} at ${dollars(plan.cost)} an hour; pool {names} is in Observe: "
        f"set its spec.mode to Active to go on"
    )
    if now >= todo.deadline:
        return Failed(Reason.GANG_INCOMPLETE.value, text)
    return Waiting(Reason.GANG_INCOMPLETE.value, f"{text}; gives up at {due(todo.deadline, now)}", wake=todo.deadline)


def broken(error: Exception, todo: ToPlan, now: datetime) -> Waiting | Failed:
    """The planner failed on this gang: a fault of ours, which must hold up no other, nor this one for ever."""
    text = f"the planner failed on it: {error!r:.200}"
    if now >= todo.deadline:
        return Failed("Undecidable", text)
    return Waiting(Reason.GANG_INCOMPLETE.value, f"{text}; gives up at {due(todo.deadline, now)}", wake=todo.deadline)


def too_large(plan: Plan) -> Failed | None:
    """A plan that no Booking can hold."""
    nodes = len(plan.uses) + sum(purchase.count for purchase in plan.purchases)
    if nodes <= MOST_NODES:
        return None
    text = f"the gang takes {nodes} nodes, a booking holds at most {MOST_NODES}: use larger machines, or split the workload"
    return Failed("InvalidArgument", text)


def undecidable(outcome: Undecidable, todo: ToPlan, asked_at: datetime, now: datetime) -> Waiting | Failed:
    """What lies in the gang itself no waiting mends; what depends on the capacity there is may be clear when that has changed."""
    text = f"it can't be told whether this gang would fit: {'; '.join(outcome.reasons)}"
    if outcome.lasting:
        return Failed("Undecidable", text)
    return _until_the_deadline(Reason.GANG_INCOMPLETE, text, todo, asked_at, now)


def pools_of(plan: Plan) -> frozenset[str]:
    return frozenset((*(use.node.pool for use in plan.uses), *(purchase.offering.pool for purchase in plan.purchases)))
