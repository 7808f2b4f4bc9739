"""What is missing from a booking, in numbers and words, and what is to be done about machines that are no use. Pure."""

import msgspec
from msgspec.structs import replace

from kube.meta import Condition
from kube.ours import BookedInstance, BookingStatus
from kube.times import stamp
from provisioner.launches import missing
from provisioner.steps import Reason, Verdict, View
from runtime.conditions import set_condition

NODE_LOST = "NodeLost"


def sound(view: View, name: str) -> bool:
    """Whether a taken node is marked and as promised."""
    node = view.seen.nodes.get(name)
    return node is not None and node.marked and node.verdict is Verdict.SOUND


def progress(view: View) -> str:
    """`7 of 8 nodes ready`."""
    ready = sum(1 for each in view.spec.nodes if sound(view, each.name))
    ready += sum(1 for each in view.status.instances if each.state == "Ready")
    return f"{ready} of {len(view.spec.nodes) + sum(each.count for each in view.spec.purchases)} nodes ready"


def last_words(view: View) -> str:
    """What stands in the way, at most three causes: the newest failed calls, then machines, then taken nodes."""
    words = [each.message for each in reversed(view.status.launches) if each.state == "Failed"][:1]
    words += [
        f"{each.node or each.id}: {each.message}" for each in view.status.instances if each.message and each.state != "Ready"
    ]
    waiting = (view.seen.nodes.get(each.name) for each in view.spec.nodes if not sound(view, each.name))
    words += [f"{node.name}: {node.words or 'not marked yet'}" for node in waiting if node]
    return "".join(f"; {each}" for each in words[:3])


def discarded(view: View) -> BookingStatus:
    """The status in which useless machines are on their way out: bad ones that cost extra or have no node, and those too many.

    A bad prepaid machine with a node stays quarantined while the booking lives: it keeps its place, so that the cloud can't hand
    the same one out again.
    """
    surplus = {each.id for purchase in view.spec.purchases for each in _surplus(view, purchase.name, -missing(view, purchase))}
    instances = tuple(_discard(view, each, each.id in surplus) for each in view.status.instances)
    return view.status if instances == view.status.instances else replace(view.status, instances=instances)


def _surplus(view: View, purchase: str, number: int) -> list[BookedInstance]:
    """The `number` machines least far on their way."""
    order = {"Launched": 0, "Joined": 1, "Ready": 2}
    return sorted(view.live(purchase), key=lambda each: (order[each.state], each.id))[: max(0, number)]


def _discard(view: View, each: BookedInstance, surplus: bool) -> BookedInstance:
    kept = view.prepaid(each.purchase) and view.node_of(each) is not None
    if surplus or (each.state == "Bad" and not kept):
        words = "more machines than were bought" if surplus else each.message
        return replace(each, state="Terminating", message=words, since=stamp(view.now))
    return each


def noted(view: View) -> BookingStatus:
    """The status with condition NodeLost as things are, and reason CapacityRevoked where the policy or the facts demand it.

    A taken node can't be replaced in place; a machine is, until the first pod, if the policy says Replace.
    """
    taken = [f"node {each.name} is gone" for each in view.spec.nodes if each.name in view.seen.gone]
    machines = [
        f"{missing(view, each)} of {each.count} {each.shape} are lost" for each in view.spec.purchases if missing(view, each) > 0
    ]
    words = "; ".join(taken + machines)
    status = _with_condition(view, words)
    beyond_repair = view.replacing and bool(taken)
    if words and (view.seen.on_node_loss == "Revoke" or beyond_repair) and status.reason != Reason.REVOKED:
        return replace(status, reason=Reason.REVOKED.value, message=words[:1024])
    return status


def _with_condition(view: View, words: str) -> BookingStatus:
    old = next((each for each in view.status.conditions if each.type == NODE_LOST), None)
    if old is None and not words:
        return view.status
    conditions = set_condition(
        [each.to_json() for each in view.status.conditions],
        NODE_LOST,
        bool(words),
        "NodeLost" if words else "Whole",
        words or "all nodes are there",
        generation=view.booking.metadata.generation,
        now=view.now,
    )
    changed = tuple(msgspec.convert(conditions, tuple[Condition, ...]))
    return view.status if changed == view.status.conditions else replace(view.status, conditions=changed)
