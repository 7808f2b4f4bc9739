"""The best domain for a gang of one pod set: of one topology key, or of two of which all pods need one value each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capacity.catalogue import Sale
from capacity.columns import Vector
from capacity.cover import Cover, Kind, TooHardError, cover
from capacity.goods import Goods

_MOST_CELLS = 4_000_000
_MOST_COVERS = 300

Key = tuple[int, int, int, int, int]  # price, ranks, room of the domains, slots, nodes: the less the better


@dataclass(frozen=True, slots=True)
class Best:
    """What to take of each kind, and from where: a value for each key, the rows there (None: all of them) and what is for
    sale there."""

    found: Cover
    domains: Mapping[str, str]
    rows: Vector | None
    sale: Sale | None


@dataclass(frozen=True, slots=True)
class Level:
    """Domains by code: `codes` has one for each row, `places` one for each offering for sale. `rooms` is how many pods a domain
    could hold, 0 for what is no domain; `orders` sort the domains by name.
    """

    keys: tuple[str, ...]
    codes: Vector
    places: Vector
    rooms: Vector
    orders: tuple[Vector, ...]

    def __len__(self) -> int:
        return len(self.rooms)


def best(goods: Goods, keys: Sequence[str], ceiling: int | None) -> Best | None:
    """The best answer with all pods in one domain of each key, None when there is none. Raises TooHardError."""
    if not keys:
        found = cover(goods.limits(np.bincount(goods.cells(), minlength=1), goods.sale), goods.demand)
        return Best(found, {}, None, goods.sale) if found and _within(found, ceiling) else None
    levels = [_level(goods, key) for key in keys]
    return _Domains(goods, levels[0] if len(levels) == 1 else _pair(goods, *levels)).best(ceiling)


def _within(found: Cover, ceiling: int | None) -> bool:
    return ceiling is None or found.cost[0] <= ceiling


def _level(goods: Goods, key: str) -> Level:
    known = goods.fleet.codes(key)
    places = goods.sale.catalogue.places(key, known)[goods.sale.rows] if goods.sale else np.zeros(0, np.int64)
    none = known.code("")
    codes = goods.fleet.column("label", key)
    rooms = _rooms(goods, codes, places, len(known))
    rooms[[0, none]] = 0  # no label, or an empty one, is no domain
    return Level((key,), codes, places, rooms, (known.order,))


def _pair(goods: Goods, one: Level, other: Level) -> Level:
    """Each value of one key with each of the other; the key with fewer values is chosen first, and its room counts, too."""
    outer, inner = sorted((one, other), key=lambda level: (int(np.count_nonzero(level.rooms)), level.keys))
    size = len(inner)
    if len(outer) * size > _MOST_CELLS:
        raise TooHardError
    codes = outer.codes * size + inner.codes
    places = outer.places * size + inner.places
    rooms = _rooms(goods, codes, places, len(outer) * size).reshape(len(outer), size)
    wide = np.where(outer.rooms >= goods.demand, outer.rooms, 0)[:, None]
    both = np.where((rooms >= goods.demand) & (wide > 0) & (inner.rooms > 0), rooms + wide, 0).ravel()
    orders = (np.repeat(outer.orders[0], size), np.tile(inner.orders[0], len(outer)))
    return Level((*outer.keys, *inner.keys), codes, places, both, orders)


def _rooms(goods: Goods, codes: Vector, places: Vector, size: int) -> Vector:
    rooms = np.bincount(codes, goods.slots, size)
    if goods.sale is not None:
        rooms = rooms + np.bincount(places, goods.sale.slots * goods.sale.limit, size)
    return rooms.astype(np.int64)  # exact: far below 2**53


class _Domains:
    """The domains of one level, those that could hold all pods, by room and name."""

    def __init__(self, goods: Goods, level: Level) -> None:
        self._goods = goods
        self._level = level
        self._counts: Vector | None = None

    def best(self, ceiling: int | None) -> Best | None:
        """The least key. Domains that look alike are covered once."""
        memo: dict[tuple[tuple[Kind, int], ...], Cover | None] = {}
        found: tuple[Key, int, Cover] | None = None
        for code in self._in_order():
            room = int(self._level.rooms[code])
            if found is not None and (found[0][:3] < (0, 0, room) or found[0] == self._least(room)):
                break
            limits = self._limits(code, first=not memo)
            alike = tuple(sorted(limits.items()))
            if alike not in memo:
                if len(memo) >= _MOST_COVERS:
                    raise TooHardError
                memo[alike] = cover(limits, self._goods.demand)
            covered = memo[alike]
            if covered is not None and _within(covered, ceiling):
                price, ranks, slots, nodes = covered.cost
                key = (price, ranks, room, slots, nodes)
                if found is None or key < found[0]:
                    found = key, code, covered
        return self._answer(found[1], found[2]) if found else None

    def _least(self, room: int) -> Key:
        """No domain of this room, or of more, has a lesser key."""
        sale = self._goods.sale
        most = max(1, self._goods.most, int(sale.slots.max(initial=0)) if sale is not None else 0)
        return 0, 0, room, self._goods.demand, -(-self._goods.demand // most)

    def _in_order(self) -> Iterator[int]:
        """The domains that matter, the least room first, then by name; the first of them without sorting all."""
        codes = self._worth_it()
        if not len(codes):
            return
        ranked = [self._level.rooms, *self._level.orders]
        first = codes
        for ranks in ranked:
            first = first[ranks[first] == ranks[first].min()]
        yield int(first[0])
        rest = codes[codes != first[0]]
        yield from rest[np.lexsort([ranks[rest] for ranks in reversed(ranked)])].tolist()

    def _worth_it(self) -> Vector:
        """Those that can hold all pods; where nodes of no price and no rank do in some domain, only the domains where they do."""
        rooms, demand = self._level.rooms, self._goods.demand
        fitting = np.flatnonzero(rooms >= demand)
        free = self._goods.free()
        if free is None or not len(fitting):
            return fitting
        if free is self._goods.slots and self._goods.sale is None:
            return fitting
        gratis = np.bincount(self._level.codes, free, len(rooms))
        enough = fitting[gratis[fitting] >= demand]
        return enough if len(enough) else fitting

    def _limits(self, code: int, *, first: bool) -> Mapping[Kind, int]:
        """The kinds in a domain: counted for the first one alone, for more of them in all domains at once."""
        goods, level = self._goods, self._level
        if first:
            rows = np.flatnonzero(level.codes == code)
            return goods.limits(np.bincount(goods.cells(rows), minlength=1), self._sale(code))
        width = goods.width
        if self._counts is None:
            if len(level) * width > _MOST_CELLS:
                raise TooHardError
            self._counts = np.bincount(level.codes * width + goods.cells(), minlength=len(level) * width)
        return goods.limits(self._counts[code * width : (code + 1) * width], self._sale(code))

    def _sale(self, code: int) -> Sale | None:
        sale = self._goods.sale
        return None if sale is None else sale.part(self._level.places == code)

    def _answer(self, code: int, covered: Cover) -> Best:
        values = self._values(code)
        return Best(covered, values, np.flatnonzero(self._level.codes == code), self._sale(code))

    def _values(self, code: int) -> Mapping[str, str]:
        keys = self._level.keys
        known = [self._goods.fleet.codes(key).values for key in keys]
        codes = (code,) if len(keys) == 1 else divmod(code, len(known[1]))
        return {key: str(values[one]) for key, values, one in zip(keys, known, codes, strict=True)}
