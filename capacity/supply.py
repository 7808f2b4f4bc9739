"""What can be had for one gang, in as few kinds as matter to it: one pass over nodes and offerings, then counts.

Nodes differ in almost everything, but to a gang only in which mixes of its pods they hold, what they cost and where they are.
All that is alike in these is one cell.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from capacity.fit import barred, closed
from capacity.fleet import stock_of
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


class Ware(NamedTuple):
    """What may be bought of an offering in one place; `odd` where the gang minds the DaemonSets' pods that come with it."""

    offering: Offering
    limit: int
    shape: int
    odd: bool
    rank: int
    domains: tuple[str, ...]
    weights: tuple[int, ...]


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
    name = ("cells", keys, mixes, tuple(sorted((bounds or {}).items())))
    if name not in asked.memo:
        asked.memo[name] = _gathered(asked, keys, mixes, bounds or {})
    found: list[Cell] = asked.memo[name]
    return found


def _gathered(asked: Question, keys: tuple[str, ...], mixes: Mixes, bounds: Bounds) -> list[Cell]:
    cells: dict[Key, Cell] = {}
    judge = Judge(asked, mixes, bounds)
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
    for ware in _wares(asked, keys, ranks):
        patterns = () if ware.odd and mixes is safe_mixes else judge.offering(ware.offering, ware.shape)
        if patterns:
            key = (patterns, ware.offering.price, ware.rank, ware.domains, none, ware.weights)
            _add(cells, key).append(Member(ware.offering, ware.limit))
    return [cells[key] for key in sorted(cells)]


Key = tuple[tuple[Pattern, ...], int, int, tuple[str, ...], tuple[int, ...], tuple[int, ...]]


def _wares(asked: Question, keys: tuple[str, ...], ranks: Mapping[CapacityType, int]) -> list[Ware]:
    """All that may be bought now, whatever the mixes of pods."""
    if ("wares", keys) not in asked.memo:
        asked.memo["wares", keys] = list(_offered(asked, keys, ranks))
    found: list[Ware] = asked.memo["wares", keys]
    return found


def _offered(asked: Question, keys: tuple[str, ...], ranks: Mapping[CapacityType, int]) -> Iterator[Ware]:
    snapshot, minds = asked.snapshot, asked.neighbours.minds
    shapes = stock_of(snapshot).fleet.catalogues.of(snapshot.offerings, snapshot.topology_keys).shapes
    for offering, shape in zip(snapshot.offerings, shapes, strict=True):
        if not closed(offering, asked.gang, snapshot.now, asked.preferences):
            odd, rank = bool(offering.shape.pods) and minds(offering.shape.pods), ranks[offering.capacity_type] + 1
            weights = tuple([budget.weight.get(offering.name, 0) for budget in snapshot.budgets])
            for domains, limit in _places(offering, keys, snapshot.topology_keys):
                yield Ware(offering, limit, shape, odd, rank, domains, weights)


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
