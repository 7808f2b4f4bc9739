"""What can be had for one gang, in as few kinds as matter to it: one pass over nodes and offerings, then counts.

Nodes differ in almost everything, but to a gang only in which mixes of its pods they hold, what they cost and where they are.
All that is alike in these is one cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacity.fit import barred
from capacity.model import HOSTNAME, CapacityType, Node, Offering
from capacity.programme.judge import Bounds, Judge
from capacity.programme.mixes import Mixes, safe_mixes
from capacity.programme.question import Question
from capacity.programme.rules import ABSENT
from capacity.programme.solver import Pattern
from capacity.programme.wares import goods


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
    most = 1 << sum(asked.demand).bit_length()  # rounded up, that a small reserve may change nothing
    name = ("cells", keys, mixes, tuple(sorted((bounds or {}).items())), most)
    found: list[Cell] = asked.remembered(name, lambda: _gathered(asked, keys, mixes, bounds or {}, most))
    return found


def _gathered(asked: Question, keys: tuple[str, ...], mixes: Mixes, bounds: Bounds, most: int) -> list[Cell]:
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
    for ware in goods(asked, keys, ranks, most, safe=mixes is safe_mixes):
        patterns = judge.offering(ware.offering, ware.shape)
        if patterns:
            key = (patterns, ware.offering.price, ware.rank, ware.domains, none, ware.weights)
            _add(cells, key).append(Member(ware.offering, ware.limit))
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
