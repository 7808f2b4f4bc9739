"""How many nodes of each kind cover the pods of one pod set: exact, without an integer programme.

Minimises, in this order: price, ranks, slots taken, nodes. Most questions are answered by sorting or by one swap that meets both
lower bounds; the rest by dynamic programming over slots, with kinds left out that a Lagrangian bound excludes (the LP dual price
of a slot: what a node costs above it can't exceed the gap between the bound and a known answer).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from capacity.index.columns import MOST, Mask, Vector

MOST_WORK = 30_000_000
"""Steps of dynamic programming (items times slots) up to which it is tried: about 30 ms."""


class TooHardError(Exception):
    """Numbers too large for exact dynamic programming here; nothing is said about the answer."""


class Kind(NamedTuple):
    """What the gang can tell a node by: how many of its pods it holds (1 or more), price, and rank in the policy's order."""

    slots: int
    price: int
    rank: int


@dataclass(frozen=True, slots=True)
class Cover:
    """`cost` is price, ranks, slots and nodes; `counts` has no zeros."""

    cost: tuple[int, int, int, int]
    counts: Mapping[Kind, int]


def cover(limits: Mapping[Kind, int], demand: int) -> Cover | None:
    """The best way to have `demand` slots from at most `limits` nodes of each kind, None when there is none.

    Raises TooHardError.
    """
    if sum(kind.slots * limit for kind, limit in limits.items()) < demand:
        return None
    kinds = _free(limits, demand) or limits
    if len({kind.slots for kind in kinds}) == 1:
        return _cover(_by_sorting(kinds, demand))
    counts = _in_one_tier(kinds, demand) if len({kind[1:] for kind in kinds}) == 1 else None
    return _cover(counts or _by_steps(_worthwhile(kinds, demand), demand))


def _cover(counts: Mapping[Kind, int]) -> Cover:
    nodes = list(counts.items())
    cost = (
        sum(kind.price * count for kind, count in nodes),
        sum(kind.rank * count for kind, count in nodes),
        sum(kind.slots * count for kind, count in nodes),
        sum(count for _, count in nodes),
    )
    return Cover(cost, counts)


def _free(limits: Mapping[Kind, int], demand: int) -> Mapping[Kind, int]:
    """The kinds of no price and no rank, where they are enough: whatever else is added makes it worse."""
    found = {kind: limit for kind, limit in limits.items() if not kind.price and not kind.rank}
    return found if sum(kind.slots * limit for kind, limit in found.items()) >= demand else {}


def _by_sorting(limits: Mapping[Kind, int], demand: int) -> Mapping[Kind, int]:
    """Nodes of one size: the demand fixes how many, so the best are the cheapest."""
    counts: dict[Kind, int] = {}
    for kind in sorted(limits):
        taken = min(limits[kind], -(-demand // kind.slots))
        if taken > 0:
            counts[kind] = taken
            demand -= taken * kind.slots
    return counts


def _in_one_tier(limits: Mapping[Kind, int], demand: int) -> Mapping[Kind, int] | None:
    """Where nodes differ in size alone: no fewer nodes than the largest ones come to, and no slot too many; None when one swap
    does not meet both.
    """
    counts: dict[Kind, int] = {}
    left = demand
    for kind in sorted(limits, reverse=True):
        counts[kind] = min(limits[kind], -(-left // kind.slots)) if left > 0 else 0
        left -= counts[kind] * kind.slots
    for kind, count in sorted(counts.items()) if left else ():
        smaller = kind._replace(slots=kind.slots + left)
        if count and limits.get(smaller, 0) > counts.get(smaller, 0):
            counts[kind] -= 1
            counts[smaller] += 1
            left = 0
            break
    return None if left else {kind: count for kind, count in counts.items() if count}


def _worthwhile(limits: Mapping[Kind, int], demand: int) -> Mapping[Kind, int]:
    """The kinds without those that no best answer has: more than enough cheaper ones of their size, or above the dual price."""
    kinds = dict(_useful(limits, demand))
    at = _critical(kinds, demand)
    above = {kind: kind.price * at.slots - at.price * kind.slots for kind in kinds}  # reduced costs, times at.slots
    bound = at.price * demand + sum(min(0, cost) * kinds[kind] for kind, cost in above.items())
    most = _rounded(kinds, demand) * at.slots
    return {kind: limit for kind, limit in kinds.items() if bound + max(0, above[kind]) <= most}


def _useful(limits: Mapping[Kind, int], demand: int) -> Iterator[tuple[Kind, int]]:
    """Of each size as many as cover the demand alone, the cheapest first."""
    wanted: dict[int, int] = {}
    for kind in sorted(limits):
        left = wanted.setdefault(kind.slots, -(-demand // kind.slots))
        taken = min(left, limits[kind])
        wanted[kind.slots] -= taken
        if taken:
            yield kind, taken


def _by_value(limits: Mapping[Kind, int]) -> list[Kind]:
    return sorted(limits, key=lambda kind: (kind.price / kind.slots, kind))


def _critical(limits: Mapping[Kind, int], demand: int) -> Kind:
    """The kind at which the demand is met when slots are bought cheapest first: its price a slot is the dual price."""
    for kind in _by_value(limits):
        demand -= kind.slots * limits[kind]
        if demand <= 0:
            return kind
    raise AssertionError("too few slots")  # the caller has counted them


def _rounded(limits: Mapping[Kind, int], demand: int) -> int:
    """The price of an answer: the cheapest slots first, the last node perhaps not full."""
    price = 0
    for kind in _by_value(limits):
        taken = min(limits[kind], -(-demand // kind.slots)) if demand > 0 else 0
        price += taken * kind.price
        demand -= taken * kind.slots
    return price


# --- dynamic programming --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Item:
    """`count` nodes of a kind, taken together or not at all; `better` tells for which sums of slots taking them was better."""

    kind: Kind
    count: int
    better: Mask


@dataclass(slots=True)
class _Table:
    """For each exact sum of slots the least price, and of the answers of that price the least ranks and nodes, as one number in
    which nodes stay below `base`.
    """

    prices: Vector
    rest: Vector
    base: int

    def step(self, kind: Kind, count: int) -> _Item:
        size = kind.slots * count
        better = np.zeros(len(self.prices), np.bool_)
        if size < len(self.prices):
            prices = self.prices[:-size] + kind.price * count
            rest = self.rest[:-size] + (kind.rank * self.base + 1) * count
            better[size:] = (prices < self.prices[size:]) | ((prices == self.prices[size:]) & (rest < self.rest[size:]))
            self.prices[size:] = np.where(better[size:], prices, self.prices[size:])
            self.rest[size:] = np.where(better[size:], rest, self.rest[size:])
        return _Item(kind, count, better)

    def best(self, demand: int) -> int:
        """The sum from `demand` on with the least price and ranks, the smallest of them."""
        prices, ranks = self.prices[demand:], self.rest[demand:] // self.base
        cheapest = (prices == prices.min()).nonzero()[0]
        return demand + int(cheapest[ranks[cheapest].argmin()])


def _by_steps(limits: Mapping[Kind, int], demand: int) -> Mapping[Kind, int]:
    """All exact sums of slots, up to one node too many: with more, some node could be left out."""
    most = demand + max(kind.slots for kind in limits)
    batches = [(kind, count) for kind in sorted(limits) for count in _batches(limits[kind], most // kind.slots)]
    heaviest = max(max(kind.price, kind.rank * most + 1) for kind in limits)
    if len(batches) * most > MOST_WORK or heaviest * most >= MOST // 2:
        raise TooHardError
    table = _Table(np.full(most, MOST, np.int64), np.zeros(most, np.int64), most)
    table.prices[0] = 0
    items = [table.step(kind, count) for kind, count in batches]
    end = table.best(demand)
    counts: dict[Kind, int] = {}
    for item in reversed(items):
        if item.better[end]:
            counts[item.kind] = counts.get(item.kind, 0) + item.count
            end -= item.count * item.kind.slots
    return counts


def _batches(limit: int, useful: int) -> Iterator[int]:
    """Powers of two and a rest, whose sums are all numbers up to the limit."""
    left, size = min(limit, useful), 1
    while left > 0:
        yield min(size, left)
        left -= size
        size *= 2
