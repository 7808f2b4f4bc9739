"""How a gang looks at a place: what of it makes a difference, what keeps pods off whatever the room, and how that is told."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capacity.fit import Host, refusal
from capacity.index.emptied import FAULTS
from capacity.index.fleet import stock_of
from capacity.instants import clock
from capacity.lens import Lens
from capacity.model import HOSTNAME, Constraint, Gang, Node, Offering, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.topology import required_key
from capacity.why.lots import Told, Where

_KINDS = (
    ("booked", Constraint.BOOKED),
    ("not ready", Constraint.NOT_READY),
    ("cordoned", Constraint.CORDONED),
    ("the policy", Constraint.CAPACITY_ORDER),
    ("starts", Constraint.NOT_STARTED),
    ("ends", Constraint.ENDS_TOO_SOON),
    *((f"taint {prefix}", Constraint.NOT_READY) for prefix in FAULTS),
    ("taint", Constraint.TAINT),
    ("node selector", Constraint.NODE_SELECTOR),
    ("node affinity", Constraint.NODE_AFFINITY),
    ("a volume", Constraint.VOLUME),
    ("host port", Constraint.PORT),
)


class Look:
    """A gang without empty pod sets, and what it is held against. `keys` are the topology keys by which nodes are told apart,
    `labels` all label keys that make a difference; `named`: so does the name.
    """

    def __init__(self, gang: Gang, snapshot: Snapshot, preferences: Preferences) -> None:
        self.gang, self.snapshot, self.preferences = gang, snapshot, preferences
        self.stock = stock_of(snapshot)
        self.neighbours = self._neighbours()
        self.keys = tuple(sorted(set(_keys(gang, preferences))))
        lens = Lens(gang.pod_sets)
        self.named = lens.named
        self.labels = tuple(sorted({*lens.labels, *self.keys, *self.neighbours.keys}))

    def kept_off(self, index: int, where: Host, places: Where) -> Told:
        """By the filters that don't look at room, or for want of the level's label."""
        pod_set = self.gang.pod_sets[index]
        level = required_key(pod_set, self.preferences)
        if why := refusal(pod_set, where):
            return constraint(why), why
        if level and places[level] is None:
            return Constraint.TOPOLOGY, f"{level} is not known here"
        return None, ""

    def why(self, told: Sequence[str]) -> str:
        """What keeps all pod sets off, from what is told of each."""
        if len(told) == 1:
            return told[0]
        return "; ".join(f"{pod_set.name}: {detail}" for pod_set, detail in zip(self.gang.pod_sets, told, strict=True))

    def timely(self, subject: Node | Offering, bar: str) -> str:
        """The same in words that don't change from second to second."""
        now = self.snapshot.now
        match constraint(bar):
            case Constraint.ENDS_TOO_SOON if subject.ends is not None:
                known = "before the gang would" if self.gang.run_duration is not None else "and the gang's run time is unknown"
                return f"ends at {clock(subject.ends, now)}, {known}"
            case Constraint.NOT_STARTED if isinstance(subject, Offering) and subject.starts is not None:
                return f"starts at {clock(subject.starts, now)}"
            case _:
                return bar

    def _neighbours(self) -> Neighbours:
        """Running pods are looked at one by one only where a rule of theirs, or one of the pod sets, is about the others."""
        pod_sets, snapshot = self.gang.pod_sets, self.snapshot
        beside = (term for one in snapshot.bystanders for pod in one.pods for term in pod.apart)
        terms = dict.fromkeys((*self.stock.fleet.terms(), *beside))
        ruled = any(one.near or one.apart or one.exclusive for one in pod_sets)
        if ruled or any(term.selects(one.namespace, one.labels) for term in terms for one in pod_sets):
            return Neighbours(snapshot, pod_sets)
        return Neighbours(replace(snapshot, nodes=(), bystanders=()), pod_sets)


def _keys(gang: Gang, preferences: Preferences) -> Iterator[str]:
    """Topology keys by which nodes have to be told apart: levels, and rules between pods, those about hosts left out."""
    for pod_set in gang.pod_sets:
        if level := required_key(pod_set, preferences):
            yield level
        named = [rule.topology_key for rule in (*pod_set.apart, *pod_set.near)] + [rule.topology_key for rule in pod_set.spreads]
        named += [rule.topology_key for rule in (pod_set.slices, pod_set.exclusive) if rule]
        yield from (key for key in named if key != HOSTNAME)


def constraint(phrase: str) -> Constraint:
    """The constraint that a phrase of fit.py tells of."""
    return next((kind for start, kind in _KINDS if phrase.startswith(start)), Constraint.NOT_AVAILABLE)
