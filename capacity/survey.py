"""What each node and offering has for a gang, and the first thing that keeps the gang off: one pass, alike ones judged once."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, shortage, slots
from capacity.instants import clock
from capacity.lens import Lens
from capacity.loosen import FAULTS
from capacity.model import HOSTNAME, Constraint, Gang, Node, Offering, PodSet, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.topology import required_key

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What keeps the pods of one pod set off a node: the first constraint that fails, None when none does.

    `whole` of them fit on the node by room if it were empty, `size` with what runs there now.
    """

    constraint: Constraint | None
    detail: str
    whole: int
    size: int

    @property
    def pods(self) -> int:
        return 0 if self.constraint else self.size


@dataclass(slots=True)
class Lot:
    """`count` nodes, there or to be had from one offering, that are alike to the gang; `subject` is one of them.

    `verdicts` has one entry for each pod set, `why` says why no pod of any goes there, "" when one does. `where` holds the
    domain of each key in play, None where it isn't known.
    """

    subject: Node | Offering
    where: dict[str, str | None]
    verdicts: tuple[Verdict, ...]
    why: str
    count: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Survey:
    """Every node and offering, once, topology apart."""

    pod_sets: tuple[PodSet, ...]
    preferences: Preferences
    lots: tuple[Lot, ...]


def survey(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Survey:
    pod_sets = tuple(pod_set for pod_set in gang.pod_sets if pod_set.count > 0)
    look = _Look(replace(gang, pod_sets=pod_sets), snapshot, preferences)
    return Survey(pod_sets, preferences, (*look.nodes(), *look.offerings()))


class _Look:
    """Judges each kind of node once."""

    def __init__(self, gang: Gang, snapshot: Snapshot, preferences: Preferences) -> None:
        self._gang, self._snapshot, self._preferences = gang, snapshot, preferences
        self._lens = Lens(gang.pod_sets)
        self._neighbours = Neighbours(snapshot, gang.pod_sets)
        self._resources = sorted({name for pod_set in gang.pod_sets for name in needs(pod_set)})
        self._levels = [required_key(pod_set, preferences) for pod_set in gang.pod_sets]
        self._keys = tuple(sorted(_keys(gang, preferences)))

    def nodes(self) -> list[Lot]:
        lots: dict[tuple[object, ...], Lot] = {}
        for node in self._snapshot.nodes:
            key = self._key(node)
            lot = lots.get(key)
            if lot is None:
                lot = lots[key] = self._node(node)
            lot.count += 1
            lot.names.append(node.name)
        return list(lots.values())

    def offerings(self) -> Iterator[Lot]:
        for offering in self._snapshot.offerings:
            where, labels = new_host(offering, self._snapshot.topology_keys), {**offering.shape.labels, **offering.domain}
            places = {key: f"a node of {offering.name}" if key == HOSTNAME else labels.get(key) for key in self._keys}
            verdicts = tuple(self._verdict(index, where, where, places) for index in range(len(self._gang.pod_sets)))
            for constraint, detail, count in self._parts(offering):
                told = _shut(verdicts, constraint, detail) if constraint else verdicts
                yield Lot(offering, places, told, detail if constraint else self._why(verdicts), count, [offering.name])

    def _key(self, node: Node) -> tuple[object, ...]:
        """All that a lot's nodes have in common."""
        whole, labels = node.allocatable, node.labels
        return (
            self._lens.node(node),
            *[whole.get(name, 0) for name in self._resources],
            *[labels.get(key) or (key == HOSTNAME and node.name) for key in self._keys],
            *[labels.get(key) for key in self._neighbours.keys],
            (
                node.pool,
                node.reservation,
                node.capacity_type,
                node.booked_by,
                node.ready,
                node.unschedulable,
                node.ends,
                busy(node),
            ),
        )

    def _node(self, node: Node) -> Lot:
        places = {key: node.labels.get(key, node.name if key == HOSTNAME else None) for key in self._keys}
        empty, now = host(replace(node, requested={}, pods=())), host(node)
        verdicts = tuple(self._verdict(index, empty, now, places) for index in range(len(self._gang.pod_sets)))
        bar = barred(node, self._gang, self._snapshot.now, self._preferences)
        if not bar:
            return Lot(node, places, verdicts, self._why(verdicts))
        return Lot(node, places, _shut(verdicts, _kind(bar), self._timely(node, bar)), self._timely(node, bar))

    def _why(self, verdicts: tuple[Verdict, ...]) -> str:
        if any(one.pods for one in verdicts):
            return ""
        several = len(verdicts) > 1
        told = zip(self._gang.pod_sets, verdicts, strict=True)
        return "; ".join(f"{pod_set.name}: {one.detail}" if several else one.detail for pod_set, one in told)

    def _verdict(self, index: int, empty: Host, now: Host, places: dict[str, str | None]) -> Verdict:
        pod_set, level = self._gang.pod_sets[index], self._levels[index]
        whole, size = slots(needs(pod_set), empty.free), slots(needs(pod_set), now.free)
        constraint: Constraint | None = None
        if why := refusal(pod_set, now):
            constraint = _kind(why)
        elif level and places[level] is None:
            constraint, why = Constraint.TOPOLOGY, f"{level} is not known here"
        elif not whole:
            constraint, why = Constraint.TOO_SMALL, shortage(pod_set, empty)
        elif why := shortage(pod_set, now):
            constraint = Constraint.PORT if _kind(why) is Constraint.PORT else Constraint.IN_USE
        elif why := self._neighbours.refusal(index, now.labels, now.unknown):
            constraint = Constraint.RUNNING_PODS
        return Verdict(constraint, why, whole, size)

    def _parts(self, offering: Offering) -> Iterator[tuple[Constraint | None, str, int]]:
        """The nodes of an offering by what keeps them from any gang; each limit as if nothing else took of it."""
        bar = closed(offering, self._gang, self._snapshot.now, self._preferences)
        left = max(offering.total, offering.available)
        if bar and _kind(bar) is not Constraint.NOT_AVAILABLE:
            yield _kind(bar), self._timely(offering, bar), left
            return
        for constraint, detail, kept in self._caps(offering):
            if kept < left:
                yield constraint, detail, left - kept
                left = kept
        if left:
            yield None, "", left

    def _caps(self, offering: Offering) -> Iterator[tuple[Constraint, str, int]]:
        """How many nodes each limit leaves."""
        yield Constraint.NOT_AVAILABLE, offering.unavailable or "in use, booked or kept spare", max(0, offering.available)
        for budget in self._snapshot.budgets:
            weight = budget.weight.get(offering.name, 0)
            if weight:
                yield Constraint.LIMIT, f"LimitExceeded: {budget.text}", max(0, budget.left) // weight
        ceiling = self._preferences.price_ceiling
        if ceiling is not None and offering.price:
            yield Constraint.PRICE_CEILING, "beyond the price ceiling", ceiling // offering.price

    def _timely(self, subject: Node | Offering, bar: str) -> str:
        """The same in words that don't change from second to second."""
        now = self._snapshot.now
        match _kind(bar):
            case Constraint.ENDS_TOO_SOON if subject.ends is not None:
                known = "before the gang would" if self._gang.run_duration is not None else "and the gang's run time is unknown"
                return f"ends at {clock(subject.ends, now)}, {known}"
            case Constraint.NOT_STARTED if isinstance(subject, Offering) and subject.starts is not None:
                return f"starts at {clock(subject.starts, now)}"
            case _:
                return bar


def _keys(gang: Gang, preferences: Preferences) -> Iterator[str]:
    """Topology keys by which nodes have to be told apart: levels, and rules between pods, those about hosts left out."""
    for pod_set in gang.pod_sets:
        if level := required_key(pod_set, preferences):
            yield level
        named = [rule.topology_key for rule in (*pod_set.apart, *pod_set.near)] + [rule.topology_key for rule in pod_set.spreads]
        named += [rule.topology_key for rule in (pod_set.slices, pod_set.exclusive) if rule]
        yield from (key for key in named if key != HOSTNAME)


def _shut(verdicts: tuple[Verdict, ...], constraint: Constraint, detail: str) -> tuple[Verdict, ...]:
    return tuple(replace(one, constraint=constraint, detail=detail) for one in verdicts)


def _kind(phrase: str) -> Constraint:
    """The constraint that a phrase of fit.py tells of."""
    return next((kind for start, kind in _KINDS if phrase.startswith(start)), Constraint.NOT_AVAILABLE)


def busy(node: Node) -> bool:
    """Whether pods hold devices of it."""
    return any(amount and "/" in name for name, amount in node.requested.items())
