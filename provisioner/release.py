"""Giving back, the pure part: which machines stay as idle nodes, which are ended, and when nothing is left.

After a success machines pass to their pool or go, as their source's `scaleIn` says. After a failure all that costs extra goes;
prepaid machines that are sound stay if their source lets them. Adopted nodes are only unmarked.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from kube.ours import BookedInstance, BookingStatus
from kube.times import instant, stamp
from provisioner.clouds.base import InstanceState
from provisioner.steps import View

LEFT = ("Gone", "Transferred")


def stays(view: View, each: BookedInstance) -> bool:
    """Whether the machine remains a node of its pool when the booking ends. It must have a node: what never joined is ended.

    A bad prepaid machine stays too, quarantined: it keeps its place, so that the cloud can't hand the same one out again.
    """
    node = view.node_of(each)
    if node is None:
        return False
    if each.state == "Bad":
        return view.prepaid(each.purchase)
    if view.status.phase == "Releasing":
        return each.purchase in view.seen.keep or node.busy
    return each.state == "Ready" and view.prepaid(each.purchase) and each.purchase in view.seen.keep


def sorted_out(view: View) -> BookingStatus:
    """The status in which each machine that won't stay is on its way out. Written before anything is asked of the cloud."""
    return _with(view, (_ending(view, each) for each in view.status.instances))


def _ending(view: View, each: BookedInstance) -> BookedInstance:
    if each.state in ("Terminating", *LEFT) or stays(view, each):
        return each
    return replace(each, state="Terminating", since=stamp(view.now))


def handed_over(view: View) -> BookingStatus:
    """The status in which each machine that stays belongs to its pool again. Only for when its node bears no mark any more."""
    return _with(view, (_handed(view, each) for each in view.status.instances))


def _handed(view: View, each: BookedInstance) -> BookedInstance:
    if each.state in ("Terminating", *LEFT):
        return each
    return replace(each, state="Transferred", since=stamp(view.now))


def to_unmark(view: View) -> tuple[str, ...]:
    """Nodes that still bear keys of the booking and won't be ended: those it took, and those of machines that stay."""
    ending = {node.name for each in view.status.instances if each.state == "Terminating" and (node := view.node_of(each))}
    return tuple(sorted(node.name for node in view.seen.nodes.values() if node.touched and node.name not in ending))


def to_terminate(view: View) -> tuple[str, ...]:
    """Machines that are to go and that the cloud does not end yet; never one with consumer pods."""
    listed = view.seen.instances or {}
    return tuple(each.id for each in view.status.instances if each.state == "Terminating" and not _under_way(view, each, listed))


def _under_way(view: View, each: BookedInstance, listed: object) -> bool:
    found = (view.seen.instances or {}).get(each.id)
    node = view.node_of(each)
    ending = found is not None and found.state in (InstanceState.STOPPING, InstanceState.TERMINATED)
    return ending or (node is not None and view.seen.consumers.get(node.name, 0) > 0)


def given_up(view: View) -> BookingStatus:
    """The status in which pending calls that can't have an effect any more are settled: what they brought, if anything, is known."""
    begun = max((instant(text) for text in (view.status.phase_since,) if text), default=view.now)
    launches = []
    for launch in view.status.launches:
        since = max(begun, instant(launch.at))
        if launch.state == "Pending" and (view.now - since).total_seconds() >= view.terms.lost_call:
            launch = replace(launch, state="Failed", reason="Unknown", message="no answer, and no machine of it was seen")
        launches.append(launch)
    status = replace(view.status, launches=tuple(launches))
    return view.status if status.launches == view.status.launches else status


def undone(view: View) -> bool:
    """Whether something is still held: machines not gone, or calls that may yet bring some."""
    machines = any(each.state not in LEFT for each in view.status.instances)
    return machines or any(launch.state == "Pending" for launch in view.status.launches)


def _with(view: View, instances: Iterable[BookedInstance]) -> BookingStatus:
    changed = tuple(instances)
    return view.status if changed == view.status.instances else replace(view.status, instances=changed)
