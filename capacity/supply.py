"""What can be had for one gang, in as few kinds as matter to it: one pass over nodes and offerings, then counts.

Nodes differ in almost everything, but to a gang only in which mixes of its pods they hold, what they cost and where they are.
All that is alike in these is one cell.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from capacity.fit import barred, closed, new_host
from capacity.judge import Bounds, Judge
from capacity.mixes import Mixes, safe_mixes
from capacity.model import HOSTNAME, CapacityType, Node, Offering
from capacity.question import Question
from capacity.rules import ABSENT, UNKNOWN
from capacity.solver import Pattern


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
        odd = offering.shape.pods and mixes is safe_mixes and asked.neighbours.minds(offering.shape.pods)
        if not odd and not closed(offering, asked.gang, snapshot.now, preferences):
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
