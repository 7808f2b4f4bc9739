"""What can be had for one gang, in as few kinds as matter to it: one pass over nodes and offerings, then counts.

Nodes differ in almost everything, but to a gang only in which mixes of its pods they hold, what they cost and where they are.
All that is alike in these is one cell. A mix is safe when no order of scheduling can spoil it: each role on the node keeps room
for as many of its pods as the mix says, even if all other roles in the mix have as many there as could ever come.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from capacity.couplings import Couplings, Even, Pair, Sliced, Units, couple
from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, room, slots
from capacity.lens import Glimpse, Lens
from capacity.model import HOSTNAME, CapacityType, Gang, Labels, Node, Offering, PodSet, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.roles import Role, roles
from capacity.rules import ABSENT, UNKNOWN
from capacity.solver import Pattern

MAX_MIXES = 400

Mixes = Callable[[Sequence[Mapping[str, int]], Pattern, Mapping[str, int], frozenset[Pair]], tuple[Pattern, ...]]
Bounds = Mapping[int, tuple[int, int]]  # role -> least and most pods on a host that it is put on


@dataclass(frozen=True, slots=True)
class Question:
    """A gang as the roles of its pods, what ties them to each other, and what it is planned against."""

    gang: Gang
    roles: tuple[Role, ...]
    snapshot: Snapshot
    preferences: Preferences
    neighbours: Neighbours
    couplings: Couplings

    @property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """One for each role, its count that of the whole role."""
        return tuple(role.pod_set for role in self.roles)

    @property
    def demand(self) -> Pattern:
        return tuple(role.pod_set.count for role in self.roles)

    def evens(self) -> tuple[Even, ...]:
        """The spreads whose running pods are counted on the nodes that are taken."""
        return tuple(rule for rule in self.couplings.wide() if isinstance(rule, Even) and rule.elsewhere is None)


def question(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Question:
    found = roles(gang.pod_sets)
    pod_sets = tuple(role.pod_set for role in found)
    neighbours = Neighbours(snapshot, pod_sets)
    return Question(gang, found, snapshot, preferences, neighbours, couple(pod_sets, neighbours))


@dataclass(frozen=True, slots=True)
class Member:
    """A node, or up to `limit` nodes of an offering."""

    subject: Node | Offering
    limit: int = 1


@dataclass(slots=True)
class Cell:
    """Members that are alike to the gang: the patterns they may hold, price, rank, and their value of each topology key in
    play; what running pods each spread counts there, and what one takes of each shared limit.
    """

    patterns: tuple[Pattern, ...]
    price: int
    rank: int
    domains: tuple[str, ...]
    counted: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    members: list[Member] = field(default_factory=list)
    _limit: int = -1

    @property
    def limit(self) -> int:
        """How many nodes the members come to; asked for only when all are there."""
        if self._limit < 0:
            self._limit = sum([member.limit for member in self.members])
        return self._limit


def gather(asked: Question, keys: tuple[str, ...], mixes: Mixes, bounds: Bounds | None = None) -> list[Cell]:
    """The cells of a snapshot for a gang, in an order that doesn't depend on the snapshot's. `keys` are the topology keys in
    play.
    """
    cells: dict[Key, Cell] = {}
    judge = Judge(asked, mixes, bounds or {})
    snapshot, preferences = asked.snapshot, asked.preferences
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)}
    free = (0,) * len(snapshot.budgets)
    for node in snapshot.nodes:
        if not barred(node, asked.gang, snapshot.now, preferences):
            patterns, counted = judge.node(node)
            if patterns:
                domains = tuple([_node_domain(node, key) for key in keys])
                rank = _rank(ranks, node.capacity_type)
                _add(cells, (patterns, node.price, rank, domains, counted, free)).append(Member(node))
    none = (0,) * len(asked.evens())
    for offering in snapshot.offerings:
        if not closed(offering, asked.gang, snapshot.now, preferences):
            patterns = judge.host(new_host(offering, snapshot.topology_keys))
            weights = tuple([budget.weight.get(offering.name, 0) for budget in snapshot.budgets])
            for domains, limit in _places(offering, keys, snapshot.topology_keys) if patterns else ():
                rank = _rank(ranks, offering.capacity_type) + 1
                _add(cells, (patterns, offering.price, rank, domains, none, weights)).append(Member(offering, limit))
    return [cells[key] for key in sorted(cells)]


Key = tuple[tuple[Pattern, ...], int, int, tuple[str, ...], tuple[int, ...], tuple[int, ...]]


def _rank(ranks: Mapping[CapacityType, int], kind: CapacityType | None) -> int:
    """The place in the policy's order; what is there already goes before what must be bought (the odd ranks)."""
    return 0 if kind is None else ranks[kind]


def _add(cells: dict[Key, Cell], key: Key) -> list[Member]:
    cell = cells.get(key)
    if cell is None:
        cell = cells[key] = Cell(*key)
    return cell.members


def _node_domain(node: Node, key: str) -> str:
    return node.labels.get(key, node.name if key == HOSTNAME else ABSENT)


def _places(offering: Offering, keys: tuple[str, ...], topology_keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where the nodes of an offering will be. Where the host counts, one node is a domain of its own and the rest is
    elsewhere.
    """
    labels = {**offering.shape.labels, **offering.domain}
    labels.pop(HOSTNAME, None)
    known = {key: labels.get(key, UNKNOWN if key in topology_keys else ABSENT) for key in keys}
    if HOSTNAME not in keys:
        yield tuple(known.values()), offering.available
        return
    yield tuple((known | {HOSTNAME: f"new:{offering.name}"}).values()), 1
    if offering.available > 1:
        yield tuple((known | {HOSTNAME: ABSENT}).values()), offering.available - 1


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
        self._looked_at = tuple(
            sorted(
                {*asked.neighbours.keys, *(key for keys in ties.lonely.values() for key in keys), *(k for _, k in ties.barred)}
            )
        )
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


def safe_mixes(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], apart: frozenset[Pair]
) -> tuple[Pattern, ...]:
    """For each set of roles that may share the host what each of them is sure of there; those that promise less than another
    are left out.
    """
    present = [index for index, most in enumerate(alone) if most]
    found: list[Pattern] = []
    for size in range(len(present), 0, -1):
        for chosen in combinations(present, size):
            if apart.isdisjoint(combinations(chosen, 2)):
                pattern = _sure(requests, alone, free, chosen)
                if pattern and not any(covers(other, pattern) for other in found):
                    found.append(pattern)
    return tuple(sorted(found, reverse=True))


def _sure(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], chosen: Sequence[int]
) -> Pattern | None:
    """What each role keeps when all others have as many pods there as they ever can; None when one of them is sure of none."""
    whole = [0] * len(alone)
    for index in chosen:
        left = {
            name: free[name] - sum(requests[other].get(name, 0) * alone[other] for other in chosen if other != index)
            for name in requests[index]
        }
        whole[index] = min(alone[index], slots(requests[index], left))
        if not whole[index]:
            return None
    return tuple(whole)


def lucky_mixes(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], apart: frozenset[Pair]
) -> tuple[Pattern, ...]:
    """All largest mixes that fit at once, reached only if pods come in the right order. Where there are too many to list, one
    that promises more than fits: good enough to prove that nothing fits, and not used for more.
    """
    found: list[Pattern] = []
    for pattern in _fillings(requests, alone, free, (), apart):
        found.append(pattern)
        if len(found) > MAX_MIXES:
            return (alone,)
    return tuple(sorted((p for p in set(found) if any(p) and not any(p != q and covers(q, p) for q in found)), reverse=True))


def covers(wide: Pattern, narrow: Pattern) -> bool:
    return all(a >= b for a, b in zip(wide, narrow, strict=True))


def _fillings(
    requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], head: Pattern, apart: frozenset[Pair]
) -> Iterator[Pattern]:
    """Mixes in which the last role fills what the others left."""
    index = len(head)
    met = any(count and (other, index) in apart for other, count in enumerate(head))
    most = min(alone[index], slots(requests[index], free)) if alone[index] and not met else 0
    if index == len(alone) - 1:
        yield (*head, most)
        return
    for count in range(most, -1, -1):
        left = {name: amount - requests[index].get(name, 0) * count for name, amount in free.items()}
        yield from _fillings(requests, alone, left, (*head, count), apart)


def _demand(pod_sets: Sequence[PodSet], requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What the whole gang takes of each resource: more than that on one host makes no difference."""
    total: dict[str, int] = {}
    for pod_set, one in zip(pod_sets, requests, strict=True):
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount * pod_set.count
    return total
