"""Which mixes of a gang's roles one host may hold, by all that the scheduler's filters look at there."""

from collections.abc import Mapping, Sequence

from capacity.fit import Host, host, needs, new_host, refusal, room, slots
from capacity.lens import Glimpse, Lens
from capacity.model import Labels, Node, Offering, PodSet
from capacity.programme.couplings import ALWAYS, Even, Pair, Sliced, Units
from capacity.programme.mixes import Mixes, largest, safe_mixes
from capacity.programme.question import Question
from capacity.programme.solver import Pattern

Bounds = Mapping[tuple[int, int], tuple[int, int]]
"""By role and place among its spreads: the least and the most pods that it is to count on a host of the role, with running
ones.
"""


class Judge:
    """Which mixes of the roles a host may hold; hosts that agree in all that the gang looks at are judged once."""

    def __init__(self, asked: Question, mixes: Mixes, bounds: Bounds) -> None:
        self._asked = asked
        self._pod_sets = asked.pod_sets
        self._mixes = mixes
        self._safe = mixes is safe_mixes
        self._bounds = bounds
        self._requests = [needs(pod_set) for pod_set in self._pod_sets]
        self._demand = _demand(self._pod_sets, self._requests)
        self._lens = Lens(self._pod_sets)
        ties = asked.couplings
        self._tied = tuple(sorted({key for keys in (*ties.lonely.values(), *ties.strangers.values()) for key in keys} - {ALWAYS}))
        self._watchful = bool(asked.neighbours.keys or self._tied or ties.barred)
        self._evens = [(rule.role, rule.spread) for rule in asked.evens()]
        self._hosts = [(rule.role, rule.spread) for rule in ties.local() if isinstance(rule, Even)]
        self._unlimited = tuple([(one.count, 0, one.count) for one in self._pod_sets])
        self._nodes: dict[Glimpse, tuple[Pattern, ...]] = {}
        self._offerings: dict[tuple[object, ...], tuple[Pattern, ...]] = {}
        self._admitted: dict[Glimpse, tuple[bool, ...]] = {}
        self._judged: dict[tuple[object, ...], tuple[Pattern, ...]] = {}

    def node(self, node: Node) -> tuple[tuple[Pattern, ...], tuple[int, ...]]:
        """As `host`, with a short cut for the many nodes that differ in nothing the gang looks at; and the running pods that
        each spread counts there.
        """
        seen = self._lens.node(node)
        if self._watchful:
            seen = (*seen, self._beside(node.labels, frozenset()))
        counts = {pair: self._asked.neighbours.counted(*pair, node) for pair in (*self._evens, *self._hosts, *self._shy())}
        if any(counts.values()):
            seen = (*seen, *counts.values())
        found = self._nodes.get(seen)
        if found is None:
            found = self._nodes[seen] = self.host(host(node), counts)
        return found, tuple([counts[pair] for pair in self._evens])

    def offering(self, one: Offering, shape: int) -> tuple[Pattern, ...]:
        """As `host`, for a node bought here; `shape` is the number of its shape: offerings of one differ by domain."""
        domain = one.domain
        told = domain.values() if self._watchful else [domain.get(key) for key in self._lens.labels]
        seen = (shape, tuple(domain), *told)
        found = self._offerings.get(seen)
        if found is None:
            found = self._offerings[seen] = self.host(new_host(one, self._asked.snapshot.topology_keys))
        return found

    def host(self, where: Host, counts: Mapping[tuple[int, int], int] | None = None) -> tuple[Pattern, ...]:
        admitted = self._admits(where)
        counted = counts or {}
        if any(counted.get(pair) for pair in self._shy()):
            admitted = tuple(
                good and not any(counted.get(p) for p in self._shy() if p[0] == i) for i, good in enumerate(admitted)
            )
        if not any(admitted):
            return ()
        free = {name: min(room(where.free, name), most) for name, most in self._demand.items()}
        limits = self._limits(where, counted)
        apart = self._asked.couplings.parted(where.labels.keys() | where.unknown, wary=self._safe)
        key = (admitted, limits, apart, *free.values())
        if key not in self._judged:
            self._judged[key] = self._patterns(admitted, limits, free, apart)
        return self._judged[key]

    def _shy(self) -> set[tuple[int, int]]:
        """Spreads by which a role had better not be put beside pods that they count: a lucky plan may do so all the same."""
        return self._asked.couplings.shy if self._safe else set()

    def _admits(self, where: Host) -> tuple[bool, ...]:
        key = (*self._lens.filters(where), self._beside(where.labels, where.unknown) if self._watchful else ())
        if key not in self._admitted:
            self._admitted[key] = tuple(not self._refused(index, pod_set, where) for index, pod_set in enumerate(self._pod_sets))
        return self._admitted[key]

    def _beside(self, labels: Labels, unknown: frozenset[str]) -> tuple[object, ...]:
        """What other pods make of a node with these labels, and which of the keys that tie pods to each other it bears."""
        refused = [self._kept_off(index, labels, unknown) for index in range(len(self._pod_sets))]
        return (*refused, *[key in labels or key in unknown for key in self._tied])

    def _kept_off(self, index: int, labels: Labels, unknown: frozenset[str]) -> bool:
        openly = not self._safe and index in self._asked.couplings.opened
        if self._asked.neighbours.refusal(index, labels, unknown, openly=openly):
            return True
        return any(labels.get(key) in full for (role, key), full in self._asked.couplings.barred.items() if role == index)

    def _refused(self, index: int, pod_set: PodSet, where: Host) -> bool:
        return bool(refusal(pod_set, where)) or self._kept_off(index, where.labels, where.unknown)

    def _limits(self, where: Host, counted: Mapping[tuple[int, int], int]) -> tuple[tuple[int, int, int], ...]:
        """For each role how many can be on this host at all by anti-affinity, and the least and most that are to count there."""
        if not self._asked.couplings.lonely and not self._bounds:
            return self._unlimited
        found = []
        for index, pod_set in enumerate(self._pod_sets):
            alone = self._asked.couplings.alone(index, where.labels.keys() | where.unknown)
            left = [
                (low - counted.get(pair, 0), high - counted.get(pair, 0))
                for pair, (low, high) in self._bounds.items()
                if pair[0] == index
            ]
            least, most = max((low for low, _ in left), default=0), min((high for _, high in left), default=pod_set.count)
            found.append((1 if alone else pod_set.count, least, max(0, most)))
        return tuple(found)

    def _patterns(
        self,
        admitted: tuple[bool, ...],
        limits: tuple[tuple[int, int, int], ...],
        free: Mapping[str, int],
        apart: frozenset[Pair],
    ) -> tuple[Pattern, ...]:
        alone = []
        for index, (requests, good) in enumerate(zip(self._requests, admitted, strict=True)):
            can, least, _ = limits[index]
            there = self._units(index, min(can, slots(requests, free)) if good else 0)
            alone.append(there if there >= least else 0)
        if not any(alone):
            return ()
        mixes = self._mixes(self._requests, tuple(alone), free, apart)
        return largest(tuple(self._counts(index, held, *limits[index][1:]) for index, held in enumerate(mix)) for mix in mixes)

    def _units(self, index: int, there: int) -> int:
        """Where a unit is to be on one host, one at most is there."""
        for rule in self._asked.couplings.local():
            if isinstance(rule, Units) and rule.role == index:
                there = rule.size if there >= rule.size else 0
        return there

    def _counts(self, index: int, held: int, least: int, most: int) -> int:
        """What counts of the pods that a role has there: by spreads over hosts, and in whole slices where one host holds them."""
        held = min(held, most) if held >= least else 0
        for rule in self._asked.couplings.local():
            if isinstance(rule, Sliced) and rule.role == index:
                held = 0 if rule.exact and self._safe and held % rule.size else held // rule.size * rule.size
        return held


def _demand(pod_sets: Sequence[PodSet], requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What the whole gang takes of each resource: more than that on one host makes no difference."""
    total: dict[str, int] = {}
    for pod_set, one in zip(pod_sets, requests, strict=True):
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount * pod_set.count
    return total
