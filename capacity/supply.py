"""What can be had for one gang, in as few kinds as matter to it: one pass over nodes and offerings, then counts.

Nodes differ in almost everything, but to a gang only in which mixes of its pods they hold, what they cost and where they are.
All that is alike in these is one cell. A mix is safe when no order of scheduling can spoil it: each pod set on the node keeps
room for as many of its pods as could ever come, min(count, what the node holds of it alone), whatever the others do there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, room, slots, together
from capacity.lens import Glimpse, Lens
from capacity.model import HOSTNAME, CapacityType, Gang, Node, Offering, PodSet, Preferences, Snapshot
from capacity.solver import Pattern

MAX_MIXES = 400

Mixes = Callable[[Sequence[Mapping[str, int]], Pattern, Mapping[str, int]], tuple[Pattern, ...]]


@dataclass(frozen=True, slots=True)
class Member:
    """A node, or up to `limit` nodes of an offering."""

    subject: Node | Offering
    limit: int = 1


@dataclass(slots=True)
class Cell:
    """Members that are alike to the gang: the patterns they may hold, price, rank, and their value of each topology key in
    play.
    """

    patterns: tuple[Pattern, ...]
    price: int
    rank: int
    domains: tuple[str | None, ...]
    members: list[Member] = field(default_factory=list)
    _limit: int = -1

    @property
    def limit(self) -> int:
        """How many nodes the members come to; asked for only when all are there."""
        if self._limit < 0:
            self._limit = sum([member.limit for member in self.members])
        return self._limit


def gather(
    gang: Gang, pod_sets: Sequence[PodSet], snapshot: Snapshot, preferences: Preferences, keys: tuple[str, ...], mixes: Mixes
) -> list[Cell]:
    """The cells of a snapshot for a gang, in an order that doesn't depend on the snapshot's. `keys` are the topology keys in
    play.
    """
    cells: dict[tuple[object, ...], Cell] = {}
    judge = Judge(pod_sets, mixes)
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)}
    for node in snapshot.nodes:
        if not barred(node, gang, snapshot.now, preferences):
            patterns = judge.node(node)
            if patterns:
                domains = tuple([_node_domain(node, key) for key in keys])
                _add(cells, patterns, node.price, _rank(ranks, node.capacity_type), domains).append(Member(node))
    for offering in snapshot.offerings:
        if not closed(offering, gang, snapshot.now, preferences):
            patterns = judge.host(new_host(offering, snapshot.topology_keys))
            for domains, limit in _places(offering, keys) if patterns else ():
                rank = _rank(ranks, offering.capacity_type) + 1
                _add(cells, patterns, offering.price, rank, domains).append(Member(offering, limit))
    return sorted(cells.values(), key=lambda cell: (cell.patterns, cell.price, cell.rank, tuple(map(str, cell.domains))))


def _rank(ranks: Mapping[CapacityType, int], kind: CapacityType | None) -> int:
    """The place in the policy's order; what is there already goes before what must be bought (the odd ranks)."""
    return 0 if kind is None else ranks[kind]


def _add(
    cells: dict[tuple[object, ...], Cell], patterns: tuple[Pattern, ...], price: int, rank: int, domains: tuple[str | None, ...]
) -> list[Member]:
    key = (patterns, price, rank, domains)
    cell = cells.get(key)
    if cell is None:
        cell = cells[key] = Cell(patterns, price, rank, domains)
    return cell.members


def _node_domain(node: Node, key: str) -> str | None:
    return node.labels.get(key, node.name if key == HOSTNAME else None)


def _places(offering: Offering, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str | None, ...], int]]:
    """Where the nodes of an offering will be. Where the host counts, one node is a domain of its own and the rest is
    elsewhere.
    """
    labels = {**offering.shape.labels, **offering.domain}
    labels.pop(HOSTNAME, None)
    if HOSTNAME not in keys:
        yield tuple(labels.get(key) for key in keys), offering.available
        return
    yield tuple(f"new:{offering.name}" if key == HOSTNAME else labels.get(key) for key in keys), 1
    if offering.available > 1:
        yield tuple(labels.get(key) for key in keys), offering.available - 1


class Judge:
    """Which mixes of the pod sets a host may hold; hosts that agree in all that the gang looks at are judged once."""

    def __init__(self, pod_sets: Sequence[PodSet], mixes: Mixes) -> None:
        self._pod_sets = pod_sets
        self._mixes = mixes
        self._requests = [needs(pod_set) for pod_set in pod_sets]
        self._demand = _demand(pod_sets, self._requests)
        self._lens = Lens(pod_sets)
        self._nodes: dict[Glimpse, tuple[Pattern, ...]] = {}
        self._admitted: dict[Glimpse, tuple[bool, ...]] = {}
        self._judged: dict[tuple[object, ...], tuple[Pattern, ...]] = {}

    def node(self, node: Node) -> tuple[Pattern, ...]:
        """As `host`, with a short cut for the many nodes that differ in nothing the gang looks at."""
        seen = self._lens.node(node)
        found = self._nodes.get(seen)
        if found is None:
            found = self._nodes[seen] = self.host(host(node))
        return found

    def host(self, where: Host) -> tuple[Pattern, ...]:
        admitted = self._admits(where)
        if not any(admitted):
            return ()
        free = {name: min(room(where.free, name), most) for name, most in self._demand.items()}
        key = (admitted, *free.values())
        if key not in self._judged:
            self._judged[key] = self._patterns(admitted, free)
        return self._judged[key]

    def _admits(self, where: Host) -> tuple[bool, ...]:
        key = self._lens.filters(where)
        if key not in self._admitted:
            self._admitted[key] = tuple(not refusal(pod_set, where) for pod_set in self._pod_sets)
        return self._admitted[key]

    def _patterns(self, admitted: tuple[bool, ...], free: Mapping[str, int]) -> tuple[Pattern, ...]:
        alone = tuple(
            min(pod_set.count, slots(requests, free)) if good else 0
            for pod_set, requests, good in zip(self._pod_sets, self._requests, admitted, strict=True)
        )
        return self._mixes(self._requests, alone, free) if any(alone) else ()


def safe_mixes(requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int]) -> tuple[Pattern, ...]:
    """The largest sets of pod sets that never compete on a host: all that each could ever bring fits at once."""
    present = [index for index, most in enumerate(alone) if most]
    found: list[Pattern] = []
    for size in range(len(present), 0, -1):
        for chosen in combinations(present, size):
            pattern = tuple(most if index in chosen else 0 for index, most in enumerate(alone))
            if not any(covers(other, pattern) for other in found) and together(requests, pattern, free):
                found.append(pattern)
    return tuple(sorted(found, reverse=True))


def lucky_mixes(requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int]) -> tuple[Pattern, ...]:
    """All largest mixes that fit at once, reached only if pods come in the right order. Where there are too many to list, one
    that promises more than fits: good enough to prove that nothing fits, and not used for more.
    """
    found: list[Pattern] = []
    for pattern in _fillings(requests, alone, free, ()):
        found.append(pattern)
        if len(found) > MAX_MIXES:
            return (alone,)
    return tuple(sorted((p for p in found if not any(p != q and covers(q, p) for q in found)), reverse=True))


def covers(wide: Pattern, narrow: Pattern) -> bool:
    return all(a >= b for a, b in zip(wide, narrow, strict=True))


def _fillings(requests: Sequence[Mapping[str, int]], alone: Pattern, free: Mapping[str, int], head: Pattern) -> Iterator[Pattern]:
    """Mixes in which the last pod set fills what the others left."""
    index = len(head)
    most = min(alone[index], slots(requests[index], free)) if alone[index] else 0
    if index == len(alone) - 1:
        yield (*head, most)
        return
    for count in range(most, -1, -1):
        left = {name: amount - requests[index].get(name, 0) * count for name, amount in free.items()}
        yield from _fillings(requests, alone, left, (*head, count))


def _demand(pod_sets: Sequence[PodSet], requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What the whole gang takes of each resource: more than that on one host makes no difference."""
    total: dict[str, int] = {}
    for pod_set, one in zip(pod_sets, requests, strict=True):
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount * pod_set.count
    return total
