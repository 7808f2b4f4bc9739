"""What is missing from a booking, or is about to be, in numbers and words. Pure."""

import msgspec
from msgspec.structs import replace

from kube.bookings import NODE_LOST, REPLACING
from kube.meta import Condition
from kube.ours import BookedPurchase, BookingStatus
from kube.times import length
from provisioner.buying.launches import missing, under_way
from provisioner.ending import drains, release
from provisioner.repairing import absences, repair
from provisioner.steps import Owner, Reason, View
from runtime.conditions import set_condition

ENDING, OVERDUE, IN_DOUBT = "NodesEnding", "ReleaseOverdue", "NodesInDoubt"
_NAMED = 3
"""Machines of a purchase of which a message says what is wrong."""


def sound(view: View, name: str) -> bool:
    """Whether a taken node is marked and as promised."""
    node = view.seen.nodes.get(name)
    return node is not None and absences.sound(node)


def progress(view: View) -> str:
    """`7 of 8 nodes ready`."""
    ready = sum(1 for each in view.spec.nodes if sound(view, each.name))
    ready += sum(1 for each in view.status.instances if each.state == "Ready")
    return f"{ready} of {_whole(view)} nodes ready"


def unchecked(view: View) -> str:
    """How many nodes wait for a health check that can't begin, and why; "" when none does."""
    held = sorted((node for node in view.seen.nodes.values() if node.hindered), key=lambda node: node.name)
    return f"; {len(held)} wait: {held[0].words}" if held else ""


def last_words(view: View) -> str:
    """What stands in the way, at most three causes: the newest failed calls, then machines, then taken nodes."""
    words = [each.message for each in reversed(view.status.launches) if each.state == "Failed"][:1]
    words += [
        f"{each.node or each.id}: {each.message}" for each in view.status.instances if each.message and each.state != "Ready"
    ]
    waiting = (view.seen.nodes.get(each.name) for each in view.spec.nodes if not sound(view, each.name))
    words += [f"{node.name}: {node.words or 'not marked yet'}" for node in waiting if node]
    return "".join(f"; {each}" for each in words[:3])


def noted(view: View) -> BookingStatus:
    """The status with the absent nodes, with conditions NodeLost and NodesEnding as things are, and reason CapacityRevoked where
    it must be said of a gang whose pods were let go: at once if the policy says Revoke, else if nothing stands in for a lost
    node before the first of them comes.
    """
    view = view.having(absences.noted(view))
    taken = absences.words(view)
    machines = _machines(view)
    if taken and view.replacing and view.seen.sought.unfound:
        taken.append(f"nothing stands in so far: {view.seen.sought.unfound}")
    lost = "; ".join(taken + machines)
    words = lost or "; ".join(_coming(view))
    again, doubt = REPLACING if view.replacing else NODE_LOST, _doubt(view)
    told, reason = "; ".join(filter(None, (words, doubt))), again if words else IN_DOUBT
    status = _with_condition(view, view.status, NODE_LOST, told, reason, "Whole", "all nodes are there")
    leaving = drains.words(view)
    status = _with_condition(view, status, ENDING, leaving, drains.reason(view), "Lasting", "no node is about to end")
    why = _revoking(view, lost, leaving)
    if why and status.reason != Reason.REVOKED:
        return replace(status, reason=Reason.REVOKED.value, message=why[:1024])
    return status


def _revoking(view: View, lost: str, leaving: str) -> str:
    """Why the capacity counts as revoked; "" if it doesn't. Nobody is deactivated for what was lost while he still waited."""
    if view.seen.on_node_loss == "Revoke" and (view.used or view.seen.owner is Owner.ADMITTED):
        return lost or (leaving if drains.begun(view) else "")
    return absences.beyond_repair(view) if view.replacing and not view.awaited else ""


def _doubt(view: View) -> str:
    """Which nodes would be lost by now if it weren't for so many others; "" if none."""
    names = sorted({*absences.doubted(view), *repair.doubted(view)})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    why = "more than one in five of a pool are not: the network is in doubt, and nothing is given up for that"
    return f"not Ready: {', '.join(names[:_NAMED])}{more}, but {why}" if names else ""


def _machines(view: View) -> list[str]:
    """Which machines are lost, and why none is bought instead."""
    lost = [(each, missing(view, each), repair.left_alone(view, each.name)) for each in view.spec.purchases]
    words = [
        f"{number + len(left)} of {each.count} {each.shape} {_fate(view)}{': ' if left else ''}{'; '.join(left[:_NAMED])}"
        for each, number, left in lost
        if number + len(left) > 0
    ]
    barred = (each for each in view.spec.purchases if _barred(view, each))
    return words + [f"nothing is bought instead: {view.seen.closed[each.name]}" for each in barred]


def _coming(view: View) -> list[str]:
    """Once a node was lost the booking isn't whole before each one that comes in its place is as promised."""
    if not any(each.type == NODE_LOST and each.status == "True" for each in view.status.conditions):
        return []
    since = view.status.provisioned_at or ""
    fresh = sum(each.state in ("Launched", "Joined") and each.launched_at > since for each in view.status.instances)
    number = fresh + len(absences.standing_in(view)) + sum(under_way(view.status, each) for each in view.spec.purchases)
    return [f"{number} of {_whole(view)} nodes are still to come in place of lost ones"] if number else []


def _whole(view: View) -> int:
    return len(view.spec.nodes) + sum(each.count for each in view.spec.purchases)


def overdue(view: View) -> BookingStatus:
    """The status with condition ReleaseOverdue: what is still held or marked long after the booking ended."""
    machines = (each.node or each.id for each in view.status.instances if each.state not in release.LEFT)
    left = sorted({*machines, *release.to_unmark(view)})
    words = f"{len(left)} machines are not given back after {length(view.spec.release_seconds)}: {', '.join(left[:5])}"
    return _with_condition(view, view.status, OVERDUE, words if left else "", OVERDUE, "GivenBack", "all is given back")


def _fate(view: View) -> str:
    return "are lost or about to end" if drains.begun(view) else "are lost"


def _barred(view: View, purchase: BookedPurchase) -> bool:
    return view.replacing and missing(view, purchase) > 0 and purchase.name in view.seen.closed


def _with_condition(
    view: View, status: BookingStatus, type_: str, words: str, reason: str, well: str, well_words: str
) -> BookingStatus:
    """One condition, True with `words` while there are any. It is not set before it is true for the first time."""
    old = next((each for each in status.conditions if each.type == type_), None)
    if old is None and not words:
        return status
    conditions = set_condition(
        [each.to_json() for each in status.conditions],
        type_,
        bool(words),
        reason if words else well,
        words or well_words,
        generation=view.booking.metadata.generation,
        now=view.now,
    )
    changed = tuple(msgspec.convert(conditions, tuple[Condition, ...]))
    return status if changed == status.conditions else replace(status, conditions=changed)
