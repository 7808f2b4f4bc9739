"""The rules of the lifecycle: each looks at one view and gives the one step that it asks for, or None. Pure.

Their order and the phases in which they apply are in `provisioner.lifecycle`.
"""

from datetime import timedelta

from msgspec.structs import replace

from kube.ours import BookingStatus, Launch
from kube.times import due, instant, length, stamp
from provisioner.buying import launches
from provisioner.clouds.base import ErrorKind
from provisioner.ending import drains, release
from provisioner.nodes import verify
from provisioner.repairing import absences, losses, repair
from provisioner.steps import (
    Buy,
    CheckUp,
    Mark,
    Owner,
    Quarantine,
    Reason,
    Reopen,
    Step,
    Terminate,
    Verdict,
    View,
    Wait,
    Write,
)


def into(view: View, phase: str, reason: str = "", message: str = "") -> Write:
    """The step into another phase; what began it is kept unless there is a new reason."""
    status = replace(view.status, phase=phase, phase_since=stamp(view.now))
    if reason:
        status = replace(status, reason=reason, message=message[:1024])
    return Write(status)


def write(view: View, status: BookingStatus) -> Write | None:
    return None if status == view.status else Write(status)


# --- giving up before Provisioned ------------------------------------------------------------------------------------------


def cancel(view: View) -> Step | None:
    """Nobody wants it any more: the booking or its request was deleted, or its workload finished or lost its quota."""
    if view.deleted:
        return into(view, "Failing", Reason.CANCELLED, "the Booking was deleted")
    if view.seen.owner is Owner.DONE:
        return into(view, "Failing", Reason.CANCELLED, view.seen.words)
    if view.seen.request is False:
        return into(view, "Failing", Reason.CANCELLED, "its ProvisioningRequest was deleted")
    return None


def lose_node(view: View) -> Step | None:
    """A free node of the plan is gone, sick, another booking's, or (after the second look) too full: plan again."""
    for planned in view.spec.nodes:
        node = view.seen.nodes.get(planned.name)
        if planned.name in view.seen.gone or (node and planned.provider_id and node.provider_id != planned.provider_id):
            return into(view, "Failing", Reason.NODE_TAKEN, f"node {planned.name} is gone")
        if node and node.verdict is Verdict.SICK:
            return into(view, "Failing", Reason.NODE_TAKEN, f"node {node.name} is unhealthy: {node.words}")
        if node and node.others:
            return into(view, "Failing", Reason.NODE_TAKEN, f"node {node.name} belongs to booking {', '.join(node.others)}")
        if node and not node.holds and settled(view):
            return into(view, "Failing", Reason.NODE_TAKEN, f"node {node.name} was filled before it was marked: {node.words}")
    return None


def time_out(view: View) -> Step | None:
    """The provision deadline has come, or the one by which the cloud must have answered all calls."""
    if view.status.phase == "Launching" and view.age(view.status.phase_since) >= view.spec.launch_seconds:
        words = f"not all calls were answered within {length(view.spec.launch_seconds)}"
        return into(view, "Failing", Reason.LAUNCH_TIMED_OUT, f"{words}{losses.last_words(view)}")
    if view.now < instant(view.spec.provision_deadline):
        return None
    return into(view, "Failing", Reason.TIMED_OUT, f"{losses.progress(view)} at the deadline{losses.last_words(view)}")


def fall_short(view: View) -> Step | None:
    """A first purchase was refused or delivered less than asked: what it needs can't be had there now."""
    failed = next((each for each in view.status.launches if each.state == "Failed"), None)
    if failed is None:
        return None
    bought = view.purchase(failed.purchase)
    place = f"{failed.count} of {bought.shape} in {bought.zone}" if bought else failed.purchase
    return into(view, "Failing", failed.reason or ErrorKind.CAPACITY, f"{place}: {failed.message}")


def shut_out(view: View) -> Step | None:
    """Something is still to be bought from a pool that was paused or deleted meanwhile: give it back and plan again."""
    answered = {each.purchase for each in view.status.launches if each.state != "Pending"}
    shut = next((why for name, why in sorted(view.seen.closed.items()) if name not in answered), None)
    return into(view, "Failing", Reason.POOL_CLOSED, shut) if shut else None


# --- marking free nodes ----------------------------------------------------------------------------------------------------


def mark(view: View) -> Step | None:
    """Taint and label the nodes of the booking that are not, those of its machines included; none that is another machine or
    another booking's by now.
    """
    mine = {node.name for each in view.status.instances if each.state in ("Joined", "Ready") and (node := view.node_of(each))}
    bare = sorted(name for name in mine | absences.own(view) if not view.seen.nodes[name].marked)
    return Mark(tuple(bare)) if bare else None


def take_over(view: View) -> Step | None:
    """Wait until the booking that gives a node away has let go of it: its marks stay until then."""
    return Wait(view.terms.poll) if any(node.giver for node in view.seen.nodes.values()) else None


def note_marks(view: View) -> Step | None:
    """All marks are seen on the nodes: the time to settle begins."""
    seen = all((node := view.seen.nodes.get(each.name)) and node.marked for each in view.spec.nodes)
    if view.status.marked_at or not view.spec.nodes or not seen:
        return None
    return Write(replace(view.status, marked_at=stamp(view.now)))


def settled(view: View) -> bool:
    """Marks stood long enough for bindings that were under way. One second more, for instants are kept in whole seconds."""
    return view.status.marked_at is not None and view.age(view.status.marked_at) >= view.terms.settle + 1


def settle(view: View) -> Step | None:
    """Wait until pods that the scheduler was binding while the taint came are seen."""
    if not view.spec.nodes or settled(view):
        return None
    return Wait(max(0.1, view.terms.settle + 1 - view.age(view.status.marked_at)))


def begin_buying(view: View) -> Step | None:
    """The free nodes are held and hold what they should."""
    return into(view, "Launching")


# --- buying ----------------------------------------------------------------------------------------------------------------


def record(view: View) -> Step | None:
    """Take in what the clouds list and what the nodes look like."""
    status = verify.recorded(view)
    if status.phase == "Joining":
        status = replace(status, message=f"{losses.progress(view.having(status))}{losses.unchecked(view)}")
    return write(view, status)


def repeat(view: View) -> Step | None:
    """Note that a call without an answer is repeated, once a minute at most: it keeps its booking open until it can't have an
    effect any more.
    """
    pending = launches.to_make(view)
    return write(view, launches.repeated(view, pending)) if pending and view.seen.instances is not None else None


def buy(view: View) -> Step | None:
    """Make a pending call, or repeat it with its token after its machines were looked for in vain; none to a closed pool."""
    pending = launches.to_make(view)
    if pending is None:
        return None
    return Wait(view.terms.poll) if view.seen.instances is None else Buy(pending.token)


def order(view: View) -> Step | None:
    """Write the next call down before it is made, scarce capacity first."""
    return _ordered(view, launches.first_launch(view))


def begin_joining(view: View) -> Step | None:
    """Everything is ordered and answered."""
    return into(view, "Joining")


def replace_bad(view: View) -> Step | None:
    """Write down a call for machines in place of those that went bad or away, in the same domain; not in a closed pool."""
    return _ordered(view, launches.replacement(view)) if view.replacing else None


def _ordered(view: View, launch: Launch | None) -> Step | None:
    return Write(launches.with_order(view.status, launch)) if launch else None


def quarantine(view: View) -> Step | None:
    """Keep bad and sick nodes and those to be ended out of every plan, and new pods off them; what runs there goes on."""
    bad = {node.name for each in view.status.instances if each.state in ("Bad", "Terminating") and (node := view.node_of(each))}
    sick = {node.name for node in view.seen.nodes.values() if node.verdict is Verdict.SICK and node.touched}
    silent = absences.left_silent(view)
    fresh = sorted(name for name in bad | sick | silent if not view.seen.nodes[name].quarantined)
    return Quarantine(tuple(fresh), frozenset(silent - bad - sick)) if fresh else None


def check_up(view: View) -> Step | None:
    """Begin the pool's health check on nodes that are sound otherwise."""
    names = tuple(sorted(node.name for node in view.seen.nodes.values() if node.unchecked and node.marked))
    return CheckUp(names) if names else None


def discard(view: View) -> Step | None:
    """End what is no use: bad machines that cost extra, never joined or hold the replacement's place, and those too many."""
    return write(view, repair.discarded(view)) if view.replacing else None


def terminate(view: View) -> Step | None:
    """Ask the clouds to end what is to go."""
    ids = release.to_terminate(view)
    return Terminate(ids) if ids and view.seen.instances is not None else None


def begin_drain(view: View) -> Step | None:
    """Ask the pods of nodes that are about to end to leave, before a call to the cloud that may take longer than is left."""
    return drains.first(view)


def drain(view: View) -> Step | None:
    """Close nodes that are about to end and ask their pods to leave, and strangers off machines that are to go."""
    return drains.due(view)


def reopen(view: View) -> Step | None:
    """Open nodes again whose end was called off."""
    names = drains.called_off(view)
    return Reopen(names) if names and view.seen.instances is not None else None


# --- being provisioned -----------------------------------------------------------------------------------------------------


def prove(view: View) -> Step | None:
    """Every pod set has all of its nodes, each one verified."""
    taken = all(losses.sound(view, node.name) for node in view.spec.nodes)
    ready = {each.name: sum(1 for one in view.live(each.name) if one.state == "Ready") for each in view.spec.purchases}
    known = view.seen.instances is not None or not view.spec.purchases
    if not taken or not known or any(ready[each.name] < each.count for each in view.spec.purchases):
        return None
    status = into(view, "Provisioned").status
    first = due(view.now + timedelta(seconds=view.spec.booking_seconds), view.now)
    words = f"{losses.progress(view)}; the first pod is awaited until {first}"
    return Write(replace(status, provisioned_at=stamp(view.now), message=words))


def first_pod(view: View) -> Step | None:
    """The gang has come: the booking time no longer counts."""
    if view.status.first_pod_at or not view.consumers:
        return None
    return Write(replace(view.status, first_pod_at=stamp(view.now), idle_since=None))


def watch_idle(view: View) -> Step | None:
    """Behind a bare request nobody says when it is over: note since when it has no pods."""
    if not view.seen.bare or not view.status.first_pod_at or bool(view.consumers) is (view.status.idle_since is None):
        return None
    return Write(replace(view.status, idle_since=None if view.consumers else stamp(view.now)))


def finish(view: View) -> Step | None:
    """The workload is certainly over and no consumer pod is left. Either alone is not enough."""
    if view.consumers or view.seen.owner is not Owner.DONE:
        return None
    return into(view, "Releasing", Reason.OWNER_DONE, view.seen.words)


def withdraw(view: View) -> Step | None:
    """Somebody deleted the Booking itself and no consumer pod is there."""
    return into(view, "Releasing", Reason.CANCELLED, "the Booking was deleted") if view.deleted and not view.consumers else None


def expire(view: View) -> Step | None:
    """No pod came within the booking time, and none is on its way."""
    began = view.status.idle_since or view.status.provisioned_at
    waited = view.status.first_pod_at is None or view.status.idle_since is not None
    if view.consumers or view.seen.owner is not Owner.WAITING or not waited or view.age(began) < view.spec.booking_seconds:
        return None
    return into(view, "Releasing", Reason.BOOKING_EXPIRED, f"no pod came within {length(view.spec.booking_seconds)}")


def note_losses(view: View) -> Step | None:
    """Say which nodes were lost after all was there or are about to end, and whether the capacity counts as revoked."""
    return write(view, losses.noted(view))


def wait_for_nodes(view: View) -> Step | None:
    """Until a node changes, a machine's time is up or the deadline comes."""
    deadline = instant(view.spec.provision_deadline) - view.now
    return Wait(min(view.terms.poll, max(0.1, deadline / timedelta(seconds=1))))


def keep_watch(view: View) -> Step | None:
    """Until something changes, a drain begins or the booking time is up; for nodes that are absent it looks more often."""
    began = view.status.idle_since or view.status.provisioned_at
    left = view.spec.booking_seconds - view.age(began)
    usual = min(view.terms.retry if view.status.absent else view.terms.watch, drains.wait(view))
    return Wait(min(usual, left) if left > 0 else usual)
