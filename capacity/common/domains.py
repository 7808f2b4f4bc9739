"""The best domain for a gang of one pod set: of one topology key, or of two of which all pods need one value each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capacity.common.cover import Cover, Kind, TooHardError, cover
from capacity.common.goods import Goods
from capacity.common.levels import Level, level, parts
from capacity.index.catalogue import Sale
from capacity.index.columns import Mask, Vector, apart

_MOST_CELLS = 4_000_000
_MOST_COVERS = 300

Key = tuple[int, int, int, int, int, int]  # price, ranks, parts, room of the domains, slots, nodes: the less the better


@dataclass(frozen=True, slots=True)
class Best:
    """What to take of each kind, and from where: a value for each key, the rows there (None: all of them) and what is for
    sale there."""

    found: Cover
    domains: Mapping[str, str]
    rows: Vector | None
    sale: Sale | None


def best(goods: Goods, keys: Sequence[str], below: str | None, ceiling: int | None) -> Best | None:
    """The best answer with all pods in one domain of each key, None when there is none; `below` is the preferred level that had
    to be given up last, of which the fewest domains are best. Raises TooHardError.
    """
    if not keys and below is None:
        found = cover(goods.kinds, goods.demand)
        return Best(found, {}, None, goods.sale) if found and _within(found, ceiling) else None
    return _Domains(goods, level(goods, keys), below).best(ceiling)


def _within(found: Cover, ceiling: int | None) -> bool:
    return ceiling is None or found.cost[0] <= ceiling


class _Table:
    """How much there is of each kind in domains by code: `codes` has one for each row, `places` one for each offering."""

    def __init__(self, goods: Goods, codes: Vector, places: Vector, size: int) -> None:
        self._goods, self._codes, self._places, self._size = goods, codes, places, size
        self._counts: Vector | None = None
        self._asked = False

    def limits(self, chosen: Vector) -> Mapping[Kind, int]:
        """The kinds in these domains: counted for those asked for first alone, for more of them in all domains at once."""
        goods, width = self._goods, self._goods.width
        if not self._asked:
            self._asked = True
            return goods.limits(np.bincount(goods.cells(self.rows(chosen)), minlength=1), self.sale(chosen))
        if self._counts is None:
            if self._size * width > _MOST_CELLS:
                raise TooHardError
            counts = np.bincount(self._codes * width + goods.cells(), minlength=self._size * width)
            self._counts = counts.reshape(self._size, width)
        return goods.limits(self._counts[chosen].sum(axis=0), self.sale(chosen))

    def rows(self, chosen: Vector) -> Vector:
        found: Vector = self._among(self._codes, chosen).nonzero()[0]
        return found

    def sale(self, chosen: Vector) -> Sale | None:
        sale = self._goods.sale
        return None if sale is None else sale.part(self._among(self._places, chosen))

    def _among(self, codes: Vector, chosen: Vector) -> Mask:
        if len(chosen) == 1:
            one: Mask = codes == chosen[0]
            return one
        flags = np.zeros(self._size, np.bool_)
        flags[chosen] = True
        found: Mask = flags[codes]
        return found


class _Domains:
    """The domains of one level, those that could hold all pods, by parts, room and name."""

    def __init__(self, goods: Goods, one: Level, below: str | None) -> None:
        self._goods, self._level = goods, one
        self._parts = parts(goods, one, below) if below and below not in one.keys else None
        self._whole = _Table(goods, one.codes, one.places, len(one))
        self._narrow = _Table(goods, known.codes, known.places, len(known.rooms)) if (known := self._parts) else None

    def best(self, ceiling: int | None) -> Best | None:
        """The least key. Domains that look alike are covered once."""
        memo: dict[tuple[tuple[Kind, int], ...], Cover | None] = {}
        found: tuple[Key, int, Cover] | None = None
        for code in self._in_order():
            if found is not None and self._no_better(found[0], code):
                break
            table, chosen = self._area(code)
            limits = table.limits(chosen)
            alike = tuple(sorted(limits.items()))
            if alike not in memo:
                if len(memo) >= _MOST_COVERS:
                    raise TooHardError
                memo[alike] = cover(limits, self._goods.demand)
            covered = memo[alike]
            if covered is not None and _within(covered, ceiling):
                price, ranks, slots, nodes = covered.cost
                key = (price, ranks, self._needed(code), int(self._level.rooms[code]), slots, nodes)
                if found is None or key < found[0]:
                    found = key, code, covered
        return self._answer(found[1], found[2]) if found else None

    def _no_better(self, found: Key, code: int) -> bool:
        """Whether no domain from this one on has a lesser key."""
        least = found[:2] if found[:2] == (0, 0) else self._least_cost
        bound = (*least, self._needed(code), int(self._level.rooms[code]))
        return found[:4] < bound or found == (*bound, self._goods.demand, -(-self._goods.demand // self._goods.largest()))

    @cached_property
    def _least_cost(self) -> tuple[int, int]:
        """Price and ranks that no domain is below: those of all domains together."""
        try:
            found = cover(self._goods.kinds, self._goods.demand)
        except TooHardError:
            return 0, 0
        return found.cost[:2] if found else (0, 0)

    def _needed(self, code: int) -> int:
        return int(self._parts.fewest[code]) if self._parts else 0

    def _area(self, code: int) -> tuple[_Table, Vector]:
        """What of a domain is used: the parts that do, or all of it where these are not known."""
        chosen = self._parts.chosen(code) if self._parts else None
        if chosen is None or self._narrow is None:
            return self._whole, np.array([code], np.int64)
        return self._narrow, chosen

    def _in_order(self) -> Iterator[int]:
        """The domains that matter, the fewest parts first, then the least room, then by name; the first of them without sorting
        all.
        """
        codes = self._worth_it()
        if not len(codes):
            return
        ranked = [*([self._parts.fewest] if self._parts else []), self._level.rooms, self._level.order]
        first = codes
        for ranks in ranked:
            first = first[ranks[first] == ranks[first].min()]
        yield int(first[0])
        rest = codes[codes != first[0]]
        yield from rest[np.lexsort([ranks[rest] for ranks in reversed(ranked)])].tolist()

    def _worth_it(self) -> Vector:
        """Those that can hold all pods; where nodes of no price and no rank do in some domain, only the domains where they do."""
        fitting: Vector = (self._level.rooms >= self._goods.demand).nonzero()[0]
        enough = fitting[self._level.free[fitting] >= self._goods.demand]
        return enough if len(enough) else fitting

    def _answer(self, code: int, covered: Cover) -> Best:
        table, chosen = self._area(code)
        return Best(covered, apart(self._level.key, self._level.values[code]), table.rows(chosen), table.sale(chosen))
