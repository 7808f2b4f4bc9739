"""What a step changes on a node, by what the node is now: the step rests on a store, which may lag, and names are used again."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from kube import core, ours
from provisioner.buying import launches
from provisioner.nodes import marks
from provisioner.steps import LIVE, Mark, Quarantine, Reopen, Unmark

Change = Callable[[core.Node], Mapping[str, Any]]


def of(step: Mark | Unmark | Quarantine | Reopen, booking: ours.Booking, now: Callable[[], datetime]) -> Change:
    """The patch of a node; empty where it isn't the step's node any more."""
    match step:
        case Mark():
            return partial(_marked, booking)
        case Unmark():
            return lambda node: marks.unmark_patch(node, {*marks.names(booking), *_former(booking, node)}, now())
        case Quarantine():
            return partial(_quarantined, booking, step)
        case Reopen():
            return marks.reopen_patch


def _labels_for(booking: ours.Booking, node: core.Node) -> dict[str, str]:
    """The labels for a node that the booking took, or that one of its machines became."""
    spec, taken = booking.spec, _taken(booking, node)
    if taken is not None:
        return marks.labels(booking.metadata.name, launches.keys(spec, taken.pods))
    machine = next(each for each in booking.status.instances if each.provider_id == node.spec.provider_id)
    pods = next(each.pods for each in spec.purchases if each.name == machine.purchase)
    return marks.labels(booking.metadata.name, launches.keys(spec, pods))


def _marked(booking: ours.Booking, node: core.Node) -> Mapping[str, Any]:
    """Nothing where the store that the step rests on lagged: when that is up to date the booking gives the node up."""
    return {} if _anothers(booking, node) else marks.mark_patch(node, _labels_for(booking, node), _former(booking, node))


def _anothers(booking: ours.Booking, node: core.Node) -> bool:
    """Whether a node with the name of one of the booking's is none of its machines, and is not the one that was planned or is
    another booking's by now.
    """
    if any(each.provider_id == node.spec.provider_id for each in booking.status.instances if each.state in LIVE):
        return False
    planned = _taken(booking, node)
    if planned is None or planned.provider_id not in ("", node.spec.provider_id):
        return True
    return bool(marks.bookings_on(node.metadata.labels) - marks.names(booking) - _former(booking, node))


def _quarantined(booking: ours.Booking, step: Quarantine, node: core.Node) -> Mapping[str, Any]:
    """Nothing where the node is neither a machine of the booking's nor marked for it: names are used again."""
    machine = any(each.provider_id == node.spec.provider_id for each in booking.status.instances)
    if not machine and booking.metadata.name not in marks.bookings_on(node.metadata.labels):
        return {}
    return marks.quarantine_patch(node, silent=node.metadata.name in step.silent)


def _former(booking: ours.Booking, node: core.Node) -> set[str]:
    """The booking whose keys a node bears that this one takes over."""
    taken = _taken(booking, node)
    return {taken.taken_over} - {""} if taken else set()


def _taken(booking: ours.Booking, node: core.Node) -> ours.BookedNode | None:
    """The node of that name in the plan."""
    return next((each for each in booking.spec.nodes if each.name == node.metadata.name), None)
