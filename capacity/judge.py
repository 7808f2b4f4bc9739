"""Which mixes of a gang's roles one host may hold, by all that the scheduler's filters look at there."""

from collections.abc import Mapping, Sequence

from capacity.couplings import ALWAYS, Even, Pair, Sliced, Units
from capacity.fit import Host, host, needs, refusal, room, slots
from capacity.lens import Glimpse, Lens
from capacity.mixes import Mixes, safe_mixes
from capacity.model import Labels, Node, PodSet
from capacity.question import Question
from capacity.solver import Pattern

Bounds = Mapping[int, tuple[int, int]]  # role -> least and most pods on a host that it is put on


class Judge:
    """Which mixes of the roles a host may hold; hosts that agree in all that the gang looks at are judged once."""

    def __init__(self, asked: Question, mixes: Mixes, bounds: Bounds) -> None:
        self._asked = asked
        self._pod_sets = asked.pod_sets
        self._mixes = mixes
        self._bounds = bounds
        self._requests = [needs(pod_set) for pod_set in self._pod_sets]
        self._demand = _demand(self._pod_sets, self._requests)
        self._lens = Lens(self._pod_sets)
        ties = asked.couplings
        self._tied = tuple(sorted({key for keys in (*ties.lonely.values(), *ties.strangers.values()) for key in keys} - {ALWAYS}))
        self._watchful = bool(asked.neighbours.keys or self._tied or ties.barred)
        self._evens = [(rule.role, rule.spread) for rule in asked.evens()]
        self._hosts = [(rule.role, rule.spread) for rule in ties.local() if isinstance(rule, Even) and rule.elsewhere is None]
        self._nodes: dict[Glimpse, tuple[Pattern, ...]] = {}
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
        most = self._most(where, counted)
        apart = self._asked.couplings.parted(where.labels.keys() | where.unknown)
        key = (admitted, most, apart, *free.values())
        if key not in self._judged:
            self._judged[key] = self._patterns(admitted, most, free, apart)
        return self._judged[key]

    def _shy(self) -> set[tuple[int, int]]:
        return self._asked.couplings.shy

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
        if self._asked.neighbours.refusal(index, labels, unknown):
            return True
        return any(labels.get(key) in full for (role, key), full in self._asked.couplings.barred.items() if role == index)

    def _refused(self, index: int, pod_set: PodSet, where: Host) -> bool:
        return bool(refusal(pod_set, where)) or self._kept_off(index, where.labels, where.unknown)

    def _most(self, where: Host, counted: Mapping[tuple[int, int], int]) -> tuple[tuple[int, int], ...]:
        """Least and most pods of each role on this host by the rules about single hosts."""
        ties, found = self._asked.couplings, []
        for index, pod_set in enumerate(self._pod_sets):
            alone = ties.alone(index, where.labels.keys() | where.unknown)
            least, most = self._bounds.get(index, (0, pod_set.count))
            running = sum(count for (role, _), count in counted.items() if role == index and index in self._bounds)
            found.append((least - running, min(1 if alone else pod_set.count, max(0, most - running))))
        return tuple(found)

    def _patterns(
        self, admitted: tuple[bool, ...], bounds: tuple[tuple[int, int], ...], free: Mapping[str, int], apart: frozenset[Pair]
    ) -> tuple[Pattern, ...]:
        alone = []
        for index, (pod_set, requests, good) in enumerate(zip(self._pod_sets, self._requests, admitted, strict=True)):
            least, most = bounds[index]
            there = self._whole(index, min(pod_set.count, slots(requests, free)) if good else 0)
            alone.append(min(there, most) if there >= least else 0)
        mixes = self._mixes(self._requests, tuple(alone), free, apart)
        return mixes if any(alone) else ()

    def _whole(self, index: int, there: int) -> int:
        """What a host counts for where slices or units are to be on one host."""
        for rule in self._asked.couplings.local():
            if isinstance(rule, Units) and rule.role == index:
                there = rule.size if there >= rule.size else 0
            if isinstance(rule, Sliced) and rule.role == index:
                there = 0 if rule.exact and self._mixes is safe_mixes and there % rule.size else there // rule.size * rule.size
        return there


def _demand(pod_sets: Sequence[PodSet], requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What the whole gang takes of each resource: more than that on one host makes no difference."""
    total: dict[str, int] = {}
    for pod_set, one in zip(pod_sets, requests, strict=True):
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount * pod_set.count
    return total
