"""The rules of giving back, as those in `provisioner.rules`: one look at one view, one step. Pure."""

from provisioner.ending import drains, release
from provisioner.repairing import absences, losses, transfer
from provisioner.rules import into, write
from provisioner.steps import Drop, Owner, Reason, Step, Unmark, View, Wait


def forsake(view: View) -> Step | None:
    """The capacity was revoked before the pods were let go, and the request for it is gone: the workload asks anew."""
    revoked = view.status.reason == Reason.REVOKED and view.seen.request is False
    return into(view, "Releasing") if revoked and view.seen.owner is Owner.WAITING and not view.consumers else None


def ask_anew(view: View) -> Step | None:
    """Nothing took the place of a lost node in time before the pods were let go: the workload asks anew, at the cost of a try."""
    why = absences.beyond_repair(view) if view.awaited and view.status.reason != Reason.REVOKED else ""
    return into(view, "Releasing", Reason.BOOKING_EXPIRED, why) if why else None


def warn_late(view: View) -> Step | None:
    """Say that giving back takes longer than the policy allows, and what is left."""
    late = view.age(view.status.phase_since) >= view.spec.release_seconds
    return write(view, losses.overdue(view)) if late else None


def hold_for_pods(view: View) -> Step | None:
    """Never take anything from under consumer pods. Those on nodes that are about to end are asked to leave in time."""
    return (drains.due(view) or Wait(view.terms.watch)) if view.consumers else None


def hold_for_kueue(view: View) -> Step | None:
    """What expired is given back when Kueue has taken the quota away: until it has seen that, it may let the pods go, and then
    it ignores the expiry.
    """
    begun = any(each.state in ("Terminating", "Transferred") for each in view.status.instances)
    if view.status.reason != Reason.BOOKING_EXPIRED or view.seen.bare or begun:
        return None
    late = view.age(view.status.phase_since) >= view.terms.lost_call
    going = view.seen.owner is Owner.DONE or (view.seen.owner is Owner.WAITING and late)
    return None if going else Wait(view.terms.poll)


def pass_on(view: View) -> Step | None:
    """Machines that the next gang's booking takes over are written off, marks and all."""
    return write(view, transfer.passed_on(view))


def offer(view: View) -> Step | None:
    """If gangs wait, give the planner a moment to pass what is left on to one of them."""
    left = view.terms.offer - view.age(view.status.phase_since)
    return Wait(left) if left > 0 and transfer.may_pass(view) else None


def sort_out(view: View) -> Step | None:
    """Decide which machines stay and which go, and write it down before anything happens."""
    return write(view, release.sorted_out(view))


def unmark(view: View) -> Step | None:
    """Take the marks off nodes that stay."""
    nodes = release.to_unmark(view)
    return Unmark(nodes) if nodes else None


def hand_over(view: View) -> Step | None:
    """Machines that stay are their pool's again."""
    return write(view, release.handed_over(view))


def settle_calls(view: View) -> Step | None:
    """Calls without an answer keep the booking open until they can't have an effect any more."""
    return None if view.seen.instances is None else write(view, release.given_up(view))


def poll(view: View) -> Step | None:
    """Look again until nothing is left."""
    return Wait(view.terms.poll) if release.undone(view) or release.to_unmark(view) else None


def released(view: View) -> Step | None:
    """Every machine is gone or handed over."""
    return into(view, "Released")


def failed(view: View) -> Step | None:
    """Rolled back: nothing that costs extra is left."""
    return into(view, "Failed")


def drop(view: View) -> Step | None:
    """Ended long enough ago to have been read."""
    left = view.terms.retention - view.age(view.status.phase_since)
    return Drop() if view.deleted or left <= 0 else Wait(left)
