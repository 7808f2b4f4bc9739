"""Giving back, the pure part: which machines stay as idle nodes, which are ended, and when nothing is left.

After a success machines pass to their pool or go, as their source's `scaleIn` says. After a failure all that costs extra goes;
prepaid machines that are sound stay if their source lets them. Adopted nodes are only unmarked.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from kube.ours import BookedInstance, BookingStatus, Launch
from kube.times import stamp
from provisioner.buying.launches import NOTED
from provisioner.clouds.base import ErrorKind, InstanceState
from provisioner.steps import View

LEFT = ("Gone", "Transferred")


def stays(view: View, each: BookedInstance) -> bool:
    """Whether the machine remains a node of its pool when the booking ends. It must have a node: what never joined is ended.

    A bad prepaid machine stays too, quarantined, if its source lets none go: it waits for an operator.
    """
    node = view.node_of(each)
    if node is None:
        return False
    if each.state == "Bad" or node.quarantined:
        return view.prepaid(each.purchase) and each.purchase in view.seen.forever
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
    """Nodes that still bear keys of the booking and won't be ended: those it took, and those of machines that stay. A booking
    that takes one over changes the marks itself.
    """
    ending = {node.name for each in view.status.instances if each.state == "Terminating" and (node := view.node_of(each))}
    return tuple(
        sorted(node.name for node in view.seen.nodes.values() if node.touched and node.name not in ending | view.seen.claimed)
    )


def to_terminate(view: View) -> tuple[str, ...]:
    """Machines that are to go and that the cloud does not end yet; never one with pods, of the booking or of strangers."""
    return tuple(each.id for each in view.status.instances if each.state == "Terminating" and not _spared(view, each))


def _spared(view: View, each: BookedInstance) -> bool:
    found = (view.seen.instances or {}).get(each.id)
    node = view.node_of(each)
    ending = found is not None and found.state in (InstanceState.STOPPING, InstanceState.TERMINATED)
    return ending or (node is not None and (node.busy or view.seen.consumers.get(node.name, 0) > 0))


def given_up(view: View) -> BookingStatus:
    """The status in which pending calls that can't have an effect any more are settled: the machines they brought are known."""
    launches = tuple(_given_up(view, each) for each in view.status.launches)
    return view.status if launches == view.status.launches else replace(view.status, launches=launches)


def _given_up(view: View, launch: Launch) -> Launch:
    """The call may have been repeated up to the moment the phase began, under a gang that is provisioned after it was noted."""
    later = NOTED if view.status.phase == "Provisioned" else 0
    since = (view.status.phase_since, view.status.first_pod_at)
    waited = min(view.age(launch.at) - later, *(view.age(each) for each in since if each))
    if launch.state != "Pending" or waited < view.terms.lost_call:
        return launch
    return replace(launch, state="Failed", reason=ErrorKind.UNKNOWN.value, message="no answer, and not all of its machines came")


def undone(view: View) -> bool:
    """Whether something is still held: machines not gone, or calls that may yet bring some."""
    machines = any(each.state not in LEFT for each in view.status.instances)
    return machines or any(launch.state == "Pending" for launch in view.status.launches)


def _with(view: View, instances: Iterable[BookedInstance]) -> BookingStatus:
    changed = tuple(instances)
    return view.status if changed == view.status.instances else replace(view.status, instances=changed)
