"""Warm machines from one gang to the next, the pure part: new Booking first, then the old one lets go, then the marks.

A booking that is Releasing offers its nodes to the planner, for a moment before it decides what becomes of them if gangs wait.
The next gang's Booking names such a node and whom it is taken over from (`takenOver`). The old booking sees that and writes the
machine off as Transferred, with its marks still on it; only then does the new one change the marks, in one patch. Either
booking may die at each step: whoever is left finds the node with marks of a booking that has let go of it, and frees it. The
status of the old one decides: a machine that it has written down as ending is never passed on, one that it has passed on it
never ends.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec.structs import replace

from kube.ours import BookedInstance, BookedNode, Booking, BookingStatus
from kube.times import stamp
from provisioner.steps import View

GIVES = "Releasing"
_HELD_BY = frozenset({"Marking", "Launching", "Joining", "Provisioned"})


class Grip(Enum):
    """How a node's former booking stands to it."""

    LOOSE = "has let go of it, or is gone"
    FIRM = "has yet to let go of it"
    REFUSED = "does not give it away"


def offered(bookings: Iterable[Booking]) -> Mapping[str, str]:
    """Node name or providerID -> the booking that gives it away: it is over, and what becomes of the node isn't decided."""
    return {key: booking.metadata.name for booking in bookings if booking.status.phase == GIVES for key in _keys(booking)}


def _keys(booking: Booking) -> Iterable[str]:
    for node in booking.spec.nodes:
        yield from filter(None, (node.name, node.provider_id))
    for machine in booking.status.instances:
        if machine.state == "Ready":
            yield from filter(None, (machine.node, machine.provider_id))


def grip(giver: Booking | None, node: BookedNode) -> Grip:
    """Of the booking that `node` is taken over from, None if it is gone: it goes only when it has let go of everything."""
    if giver is None or giver.status.phase == "Released":
        return Grip.LOOSE
    if giver.status.phase != GIVES:
        return Grip.REFUSED
    machine = next((each for each in giver.status.instances if node.provider_id and each.provider_id == node.provider_id), None)
    if machine is None or machine.state == "Transferred":
        return Grip.LOOSE
    return Grip.FIRM if machine.state == "Ready" else Grip.REFUSED


def claimed(name: str, takers: Iterable[Booking]) -> frozenset[str]:
    """Names of the nodes that live bookings take over from the one of this name."""
    live = (each for each in takers if each.status.phase in _HELD_BY)
    return frozenset(node.name for each in live for node in each.spec.nodes if node.taken_over == name)


def passed_on(view: View) -> BookingStatus:
    """The status in which the machines that another booking takes over are no longer this one's."""
    instances = tuple(_passed(view, each) for each in view.status.instances)
    return view.status if instances == view.status.instances else replace(view.status, instances=instances)


def _passed(view: View, each: BookedInstance) -> BookedInstance:
    node = view.node_of(each)
    if each.state != "Ready" or node is None or node.name not in view.seen.claimed:
        return each
    return replace(each, state="Transferred", since=stamp(view.now))


def may_pass(view: View) -> bool:
    """Whether it has something left that a gang which waits might take over."""
    return view.seen.wanted and bool({*_keys(view.booking)})
