"""Is a machine what was promised? One verdict for a node, and what all that is seen makes of the booking's list of machines.

A node counts when it is Ready in the planned place, has no health condition against it, runs the pool's required DaemonSets, and
has all devices of its shape and room for the planned pods. Ready alone says little: devices appear minutes later
(kubernetes/kubernetes#54959). They appear all at once, so a part of them is a fault, and none of them is not one yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from capacity.model import Resources
from capacity.quantity import show
from kube.ours import BookedInstance, BookingStatus, Launch
from kube.times import length, stamp
from provisioner.buying.launches import new_instance
from provisioner.clouds.base import Instance, InstanceState
from provisioner.repairing.repair import why_bad
from provisioner.state import TAG_PURCHASE
from provisioner.steps import ENDED, LIVE, SeenNode, Verdict, View

RUNNING = (InstanceState.PENDING, InstanceState.RUNNING)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the plan promised of a node. `devices` are amounts of extended resources, None while the shape is not known.

    `room` is the sum that the planned pods ask for. `taints` (key, effect) are the shape's own, None where any will do: the plan
    for a node that was there before rests on the taints it had.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Resources | None = field(default_factory=dict)
    daemon_sets: tuple[str, ...] = ()
    room: Resources = field(default_factory=dict)
    taints: frozenset[tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a node is. `taken` sums the pods that don't belong to the booking. `daemon_sets`: namespace/name, ready there.

    `taints` (key, effect) are those that keep pods off, the booked taint apart. `ailment` says what its health conditions or its
    device plugins find.
    """

    ready: bool
    labels: Mapping[str, str]
    allocatable: Resources
    taken: Resources = field(default_factory=dict)
    daemon_sets: frozenset[str] = frozenset()
    unschedulable: bool = False
    taints: frozenset[tuple[str, str]] = frozenset()
    ailment: str = ""


def verdict(expected: Expected, facts: Facts) -> tuple[Verdict, str]:
    """The verdict and its words, the gravest first."""
    wrong = [f"{key} is {facts.labels[key]}, not {want}" for key, want in _differing(expected, facts) if key in facts.labels]
    if wrong:
        return Verdict.WRONG, "; ".join(wrong)
    if facts.ailment:
        return Verdict.SICK, facts.ailment
    waiting = _still_waiting(expected, facts)
    if waiting:
        return Verdict.WAITING, waiting
    short = _short_of(expected, facts)
    return (Verdict.SHORT, short) if short else (Verdict.SOUND, "")


def holds(room: Resources, facts: Facts) -> bool:
    """Whether pods that ask for `room` together fit next to what runs there already."""
    return all(facts.allocatable.get(name, 0) - facts.taken.get(name, 0) >= amount for name, amount in room.items())


def bare(expected: Expected, facts: Facts) -> bool:
    """Whether it offers none of some device that its shape has and that the planned pods need."""
    needed = (name for name, wanted in (expected.devices or {}).items() if wanted and expected.room.get(name))
    return any(not facts.allocatable.get(name) for name in needed)


def _differing(expected: Expected, facts: Facts) -> list[tuple[str, str]]:
    return [(key, want) for key, want in sorted(expected.labels.items()) if facts.labels.get(key) != want]


def _still_waiting(expected: Expected, facts: Facts) -> str:
    if not facts.ready:
        return "not Ready"
    if facts.unschedulable:
        return "cordoned"
    if foreign := _foreign(expected, facts):
        return f"still has taint {', '.join(foreign)}"
    absent = [key for key, _ in _differing(expected, facts)]
    if absent:
        return f"has no label {', '.join(absent)} yet"
    lacking = sorted(set(expected.daemon_sets) - facts.daemon_sets)
    if lacking:
        return f"no ready pod of DaemonSet {', '.join(lacking)} yet"
    if expected.devices is None:
        return "its shape is not known yet"
    none = [
        f"0 of {wanted} {name}" for name, wanted in sorted(expected.devices.items()) if wanted and not facts.allocatable.get(name)
    ]
    return f"{', '.join(none)} yet" if none else ""


def _foreign(expected: Expected, facts: Facts) -> list[str]:
    """Taints that the shape does not have: startup taints mostly, which somebody takes off; until then no pod is bound there."""
    foreign = facts.taints - expected.taints if expected.taints is not None else frozenset[tuple[str, str]]()
    return [f"{key}:{effect}" for key, effect in sorted(foreign)]


def _short_of(expected: Expected, facts: Facts) -> str:
    for name, wanted in sorted((expected.devices or {}).items()):
        there = facts.allocatable.get(name, 0)
        if there < wanted:
            return f"{there} of {wanted} {name}"
    for name, wanted in sorted(expected.room.items()):
        free = facts.allocatable.get(name, 0) - facts.taken.get(name, 0)
        if free < wanted:
            return f"{show(name, max(0, free))} of the planned {show(name, wanted)} {name} is free"
    return ""


# --- the list of machines -------------------------------------------------------------------------------------------------


def recorded(view: View) -> BookingStatus:
    """The status with everything taken in that is seen of machines and nodes. The same status when nothing is new.

    Without an answer of the cloud nothing is concluded.
    """
    listed = view.seen.instances
    if listed is None:
        return view.status
    known = tuple(_seen_again(view, each, listed.get(each.id)) for each in view.status.instances)
    ids = {each.id for each in known}
    strays = tuple(_stray(view, found) for id_, found in sorted(listed.items()) if id_ not in ids and _counts(view, found))
    instances = known + strays
    launches = tuple(_looked_up(each, instances) for each in view.status.launches)
    if instances == view.status.instances and launches == view.status.launches:
        return view.status
    return replace(view.status, instances=instances, launches=launches)


def _counts(view: View, found: Instance) -> bool:
    """A machine nobody remembers matters while it runs; an ended one only if it answers a pending call."""
    return found.state in RUNNING or any(
        launch.token == found.token and launch.state == "Pending" for launch in view.status.launches
    )


def _stray(view: View, found: Instance) -> BookedInstance:
    """A machine of ours that the status lacks: the answer to its call was lost, or it came after the booking had given up."""
    launch = next((each for each in view.status.launches if each.token == found.token), None)
    fresh = new_instance(found, launch.purchase if launch else found.tags.get(TAG_PURCHASE, ""), launch, view.now)
    if fresh.state == "Gone" or (launch and _fresh_state(view) == "Launched"):
        return fresh
    return replace(fresh, state="Terminating", message="came too late")


def _fresh_state(view: View) -> str:
    """What a machine that turns up becomes: wanted until the booking ends."""
    return "Launched" if view.status.phase in ("Launching", "Joining", "Provisioned") else "Terminating"


def _looked_up(launch: Launch, instances: tuple[BookedInstance, ...]) -> Launch:
    found = sum(1 for each in instances if each.token == launch.token)
    return replace(launch, state="Answered") if launch.state == "Pending" and found >= launch.count else launch


def _seen_again(view: View, each: BookedInstance, found: Instance | None) -> BookedInstance:
    if each.state == "Transferred" or (each.state == "Gone" and (found is None or found.state not in RUNNING)):
        return each
    if found is None:
        return _not_listed(view, each)
    if each.state == "Gone":
        return replace(_moved(view, each, _fresh_state(view), "listed again"), launched_at=stamp(view.now), missing_since="")
    each = replace(each, missing_since="") if each.missing_since else each
    if found.state is InstanceState.TERMINATED:
        return _moved(view, each, "Gone", each.message or "the cloud ended it")
    if found.state is InstanceState.STOPPING and each.state != "Terminating":
        return _moved(view, each, "Terminating", "the cloud is ending it")
    return _judged(view, each, found)


def _not_listed(view: View, each: BookedInstance) -> BookedInstance:
    """Gone only if it stays away from the lists for a while and no node stands behind it: one odd answer concludes nothing."""
    if not each.missing_since:
        return replace(each, missing_since=stamp(view.now))
    ending = each.state == "Terminating"
    allowed = view.terms.absent_ending if ending else view.terms.absent
    missing = min(view.age(each.missing_since), view.age(each.since)) if ending else view.age(each.missing_since)
    if missing < allowed or (not ending and view.node_of(each)):
        return each
    return _moved(view, each, "Gone", each.message or f"not in the cloud's lists for {length(allowed)}")


def _judged(view: View, each: BookedInstance, found: Instance) -> BookedInstance:
    if each.state not in LIVE or view.status.phase in ("Releasing", "Failing", *ENDED):
        return each
    node = view.node_of(each)
    seen = _with_node(view, each, node)
    why = (found.wrong if not view.used else "") or why_bad(view, seen) if view.replacing else ""
    return _moved(view, seen, "Bad", why) if why else seen


def _with_node(view: View, each: BookedInstance, node: SeenNode | None) -> BookedInstance:
    if node is None:
        lost = each.state != "Launched"
        return _changed(view, each, "Joined", Verdict.WAITING, "its node is gone") if lost else each
    each = replace(each, joined_at=stamp(view.now)) if each.state == "Launched" else each
    state = "Ready" if node.verdict is Verdict.SOUND and node.marked else "Joined"
    return replace(_changed(view, each, state, node.verdict, node.words), node=node.name)


def _changed(view: View, each: BookedInstance, state: str, verdict: Verdict, words: str) -> BookedInstance:
    if (each.state, each.verdict) == (state, verdict):
        return replace(each, message=words) if each.message != words else each
    return replace(_moved(view, each, state, words), verdict=verdict.value)


def _moved(view: View, each: BookedInstance, state: str, words: str) -> BookedInstance:
    return replace(each, state=state, message=words, since=stamp(view.now))
