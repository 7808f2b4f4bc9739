"""Repair, the pure part: which machines won't do, and what becomes of those that are no use.

A bad machine is kept from everybody at once and replaced in its place. One that costs extra goes. A prepaid one keeps its slot,
so that the cloud can't hand the same machine out again, as long as there is another slot for the replacement; where there is none
it is given back first, and the order is repeated once the cloud confirms that it is gone (a slot may follow minutes later).
"""

from msgspec.structs import replace

from kube.ours import BookedInstance, BookingStatus
from kube.times import length, stamp
from provisioner.buying.backoff import CAPACITY_KINDS
from provisioner.buying.launches import made_room, missing, refusals
from provisioner.steps import Verdict, View

READINESS = 1200
"""Seconds for joining where the pool is not known (its default)."""


def why_bad(view: View, each: BookedInstance) -> str:
    """Why the machine won't do, "" while it may still come round."""
    return _lost(view, each) if view.used else _unfit(view, each)


def _unfit(view: View, each: BookedInstance) -> str:
    """Before the first pod it is held to all that was planned. A health check has a time of its own, and that it can't begin is
    not the machine's fault.
    """
    if each.state == "Launched":
        return _not_joined(view, each)
    if each.verdict in (Verdict.WRONG, Verdict.SICK):
        return each.message
    if ending := _ending(view, each):
        return ending
    if each.verdict == Verdict.SHORT and view.age(each.since) >= view.terms.short_grace:
        return each.message
    return _not_ready(view, each) if each.state == "Joined" and each.verdict not in (Verdict.CHECKING, Verdict.DOUBTED) else ""


def _not_joined(view: View, each: BookedInstance) -> str:
    ours, asked = _allowed(view, each), view.spec.join_seconds
    allowed = ours if asked is None else min(ours, asked)
    return f"did not join within {length(allowed)}" if view.age(each.launched_at) >= allowed else ""


def _not_ready(view: View, each: BookedInstance) -> str:
    """Late by the pool's terms or the policy's. A node that was ready before gets time to come round."""
    allowed, since = _allowed(view, each), each.launched_at
    if view.spec.verify_seconds is not None and view.age(each.joined_at) >= view.spec.verify_seconds:
        allowed, since = view.spec.verify_seconds, each.joined_at
    late = view.age(since) >= allowed and view.age(each.since) >= min(allowed, view.terms.absent)
    return f"{each.message} after {length(allowed)}" if late else ""


def _lost(view: View, each: BookedInstance) -> str:
    """Later it is only given up when pods can't run there any more; what runs is never judged."""
    if each.state == "Launched":
        return _not_joined(view, each)
    return _ending(view, each) or _useless_for_pods(view, each)


def _useless_for_pods(view: View, each: BookedInstance) -> str:
    node = view.node_of(each)
    if each.verdict == Verdict.SICK and node and not view.seen.consumers.get(node.name):
        return each.message
    if node and node.doubted:
        return ""
    allowed = view.terms.lost if node else view.terms.absent
    useless = node is None or not node.ready or (node.bare and not view.seen.consumers.get(node.name))
    gone = each.state == "Joined" and useless and view.age(each.since) >= allowed
    return f"{each.message} for {length(allowed)}" if gone else ""


def left_alone(view: View, purchase: str) -> list[str]:
    """`n1 not Ready for 5m` for each machine that is lost where none is replaced."""
    judged = view.awaited or view.seen.on_node_loss == "Replace"
    joined = [] if judged else [each for each in view.live(purchase) if each.state == "Joined"]
    return [f"{each.node or each.id} {why}" for each in joined if (why := _useless_for_pods(view, each))]


def doubted(view: View) -> list[str]:
    """Names of the nodes of machines that would be given up if it weren't for so many others."""
    late = (each for each in view.status.instances if each.state == "Joined" and view.age(each.since) >= view.terms.lost)
    return [node.name for each in late if (node := view.node_of(each)) and node.doubted]


def _ending(view: View, each: BookedInstance) -> str:
    """What takes the machine away, once its drain has begun."""
    node = view.node_of(each)
    return node.notice.words if node and node.notice and node.notice.begun(view.now) else ""


def _allowed(view: View, each: BookedInstance) -> int:
    purchase = view.purchase(each.purchase)
    return view.seen.readiness.get(purchase.pool if purchase else "", READINESS)


# --- machines that are no use ------------------------------------------------------------------------------------------------


def discarded(view: View) -> BookingStatus:
    """The status in which useless machines are on their way out: bad ones that cost extra, have no node or stand in the way of
    their replacement, and those too many.
    """
    going: dict[str, str] = {}
    for purchase in view.spec.purchases:
        surplus = _surplus(view, purchase.name, -missing(view, purchase))
        going |= {each.id: "more machines than were bought" for each in surplus}
        going |= {each.id: each.message for each in _useless(view, purchase.name)}
    instances = tuple(_discard(view, each, going) for each in view.status.instances)
    return view.status if instances == view.status.instances else replace(view.status, instances=instances)


def _surplus(view: View, purchase: str, number: int) -> list[BookedInstance]:
    """The `number` machines least far on their way; none with pods."""
    order = {"Launched": 0, "Joined": 1, "Ready": 2}
    free = [each for each in view.live(purchase) if not _carries(view, each)]
    return sorted(free, key=lambda each: (order[each.state], each.id))[: max(0, number)]


def _useless(view: View, purchase: str) -> list[BookedInstance]:
    bad = [each for each in view.status.instances if each.purchase == purchase and each.state == "Bad"]
    kept = [each for each in bad if view.prepaid(purchase) and view.node_of(each) is not None]
    in_the_way = sorted((each for each in kept if not _carries(view, each)), key=lambda each: (each.since, each.id))
    return [each for each in bad if each not in kept] + in_the_way[: _room_needed(view, purchase)]


def _room_needed(view: View, purchase: str) -> int:
    """How many bad machines must be given back: those missing, when the last order was refused for want of room, or when one more
    would exceed a limit.

    What was given back since the refusal counts, confirmed or not.
    """
    bought = view.purchase(purchase)
    last = next(reversed(refusals(view.status, purchase)), None)
    full = last is not None and last.reason in CAPACITY_KINDS
    if not bought or not (full or view.seen.closed.get(purchase, "").startswith("LimitExceeded")):
        return 0
    going = sum(each.purchase == purchase and each.state == "Terminating" for each in view.status.instances)
    made = made_room(view.status, purchase, last.at) if last else 0
    return max(0, missing(view, bought) - going - made)


def _carries(view: View, each: BookedInstance) -> bool:
    node = view.node_of(each)
    return node is not None and view.seen.consumers.get(node.name, 0) > 0


def _discard(view: View, each: BookedInstance, going: dict[str, str]) -> BookedInstance:
    if each.id not in going:
        return each
    return replace(each, state="Terminating", message=going[each.id], since=stamp(view.now))
