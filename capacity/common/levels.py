"""The domains of a topology level by columns, and the parts of each: the domains of a narrower level in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capacity.common.goods import Goods
from capacity.index.columns import Vector, joint


@dataclass(frozen=True, slots=True)
class Level:
    """Domains by code: `codes` has one for each row, `places` one for each offering for sale. `rooms` is how many pods a domain
    could hold, 0 for what is no domain, `free` how many on nodes of no price and no rank; `order` sorts the domains by name.
    """

    keys: tuple[str, ...]
    codes: Vector
    places: Vector
    rooms: Vector
    free: Vector
    order: Vector
    values: Sequence[str | None]

    @property
    def key(self) -> str:
        return joint(self.keys)

    def __len__(self) -> int:
        return len(self.rooms)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of domains, as far as they are known: codes as in a level (0: in no part), the domain that each is in, and how
    many pods it holds, 0 in domains that don't hold all. `fewest` tells for each domain how many parts hold all pods; each pod
    that must stay outside of them counts as one more.
    """

    codes: Vector
    places: Vector
    within: Vector
    rooms: Vector
    order: Vector
    fewest: Vector
    demand: int

    def chosen(self, code: int) -> Vector | None:
        """The parts of a domain to use: the largest, and the smallest that holds the rest; None where they don't hold all."""
        there = ((self.within == code) & (self.rooms > 0)).nonzero()[0]
        there = there[np.lexsort((self.order[there], -self.rooms[there]))]
        whole = there[: int(self.fewest[code]) - 1]
        left = self.demand - int(self.rooms[whole].sum())
        rest = there[len(whole) :]
        enough = rest[self.rooms[rest] >= left]
        if not len(enough):
            return None
        smallest = enough[self.rooms[enough] == self.rooms[enough[-1]]]
        return np.append(whole, smallest[0])


def level(goods: Goods, keys: Sequence[str]) -> Level:
    """The domains of one key, or those that values of two make together; of no key there is one domain, of code 0."""
    if not keys:
        none = np.zeros(len(goods.slots), np.int64)
        sold = np.zeros(len(goods.sale.rows) if goods.sale else 0, np.int64)
        rooms, free = _rooms(goods, none, sold, 1)
        return Level((), none, sold, rooms, free, np.zeros(1, np.int64), [None])
    levels = [_level(goods, (key,)) for key in keys]
    return levels[0] if len(levels) == 1 else _pair(goods, *levels)


def _level(goods: Goods, keys: tuple[str, ...]) -> Level:
    key = joint(keys)
    if key not in goods.levels:
        known = goods.fleet.codes(key)
        codes, places = _codes(goods, key)
        none = known.code("")
        rooms, free = _rooms(goods, codes, places, len(known))
        rooms[[0, none]] = free[[0, none]] = 0  # no label, or an empty one, is no domain
        goods.levels[key] = Level(keys, codes, places, rooms, free, known.order, known.values)
    found: Level = goods.levels[key]
    return found


def _codes(goods: Goods, key: str) -> tuple[Vector, Vector]:
    """The codes of rows and of offerings for sale."""
    known, sale = goods.fleet.codes(key), goods.sale
    codes = goods.fleet.column("label", key)
    return codes, sale.catalogue.places(key, known)[sale.rows] if sale is not None else np.zeros(0, np.int64)


def _pair(goods: Goods, one: Level, other: Level) -> Level:
    """Each value of one key with each of the other; the key with fewer values is chosen first, and its room counts, too."""
    outer, inner = sorted((one, other), key=lambda level: (int(np.count_nonzero(level.rooms)), level.keys))
    both = _level(goods, (*outer.keys, *inner.keys))
    wide = outer.rooms[_within(goods, both, outer)]
    rooms = np.where(both.rooms >= goods.demand, both.rooms + wide, 0)
    return Level(both.keys, both.codes, both.places, rooms, both.free, both.order, both.values)


def _within(goods: Goods, inner: Level, outer: Level) -> Vector:
    """The domain of a wider level that each is in that holds any pods."""
    found = np.zeros(len(inner), np.int64)
    found[inner.codes[goods.some]] = outer.codes[goods.some]
    found[inner.places] = outer.places
    return found


def _rooms(goods: Goods, codes: Vector, places: Vector, size: int) -> tuple[Vector, Vector]:
    """The slots of each domain, all and those of no price and no rank."""
    gratis, codes = goods.free(), codes[goods.some]
    free = np.zeros(size, np.int64) if gratis is None else _sums(codes, gratis[goods.some], size)
    rooms = free.copy() if gratis is goods.slots else _sums(codes, goods.slots[goods.some], size)
    if goods.sale is not None:
        rooms += _sums(places, goods.sale.slots * goods.sale.limit, size)
    return rooms, free


def _sums(codes: Vector, amounts: Vector, size: int) -> Vector:
    return np.bincount(codes, amounts, size).astype(np.int64)  # exact: far below 2**53


def parts(goods: Goods, outer: Level, below: str) -> Parts | None:
    """The parts of each domain that the domains of a level below make; None where which parts are used depends on what there
    costs what: where nodes of no price and no rank don't do, and the rest is not all alike.
    """
    fits = outer.rooms >= goods.demand
    gratis = bool((outer.free[fits] >= goods.demand).any())
    if not gratis and len(goods.kinds) > 1:
        return None
    one = _level(goods, (*outer.keys, below))
    within = _within(goods, one, outer)
    rooms = np.where(fits[within], one.free if gratis else one.rooms, 0)
    fewest = _fewest(rooms, within, goods.demand, len(outer))
    return Parts(one.codes, one.places, within, rooms, one.order, fewest, goods.demand)


def _fewest(rooms: Vector, within: Vector, demand: int, size: int) -> Vector:
    """The largest parts of each domain first, until they hold all."""
    some = rooms.nonzero()[0]
    ranked = some[np.argsort(within[some] * (int(rooms.max(initial=0)) + 1) - rooms[some])]
    held, where = rooms[ranked], within[ranked]
    before = held.cumsum() - held
    before[1:] -= np.maximum.accumulate(np.where(where[1:] > where[:-1], before[1:], 0))
    used = before < demand
    left = demand - _sums(where[used], held[used], size)
    found: Vector = np.bincount(where[used], minlength=size) + np.maximum(left, 0)
    return found
