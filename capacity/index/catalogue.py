"""The offerings of a snapshot by columns, and what a gang may buy of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from capacity.common.cover import Kind
from capacity.index.columns import MOST, Codes, Mask, Vector, label
from capacity.model import HOSTNAME, CapacityType, Offering, Shape

Sort = tuple[object, ...]  # shape and domains

_PLENTY = 1 << 31
_TYPES = {kind: place for place, kind in enumerate(CapacityType)}


class Shapes:
    """Numbers for shapes: equal ones get the same, also those of an earlier snapshot."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Shape, int]] = {}
        self._count = 0

    def number(self, pool: str, shape: Shape) -> int:
        known = self._known.get((pool, shape.name))
        if known is not None and (known[0] is shape or known[0] == shape):
            return known[1]
        self._count += 1
        self._known[pool, shape.name] = shape, self._count
        return self._count


class Catalogue:
    """Offerings, one entry each in every column: `limit` is how many nodes can be had, `starts` and `ends` are -MOST and MOST
    where there is no such instant. `apart` are the anti-affinity terms of the pods that come with new nodes.
    """

    def __init__(self, offerings: tuple[Offering, ...], topology_keys: tuple[str, ...], shapes: Shapes) -> None:
        self.offerings = offerings
        self.topology_keys = topology_keys
        self.shapes = [shapes.number(one.pool, one.shape) for one in offerings]
        self.limit = _vector([min(one.available, _PLENTY) for one in offerings])
        self.price = _vector([one.price for one in offerings])
        self.starts = _vector([-MOST if one.starts is None else one.starts for one in offerings])
        self.ends = _vector([MOST if one.ends is None else one.ends for one in offerings])
        self.types = _vector([_TYPES[one.capacity_type] for one in offerings])
        self.apart = tuple(dict.fromkeys(term for one in offerings for pod in one.shape.pods for term in pod.apart))
        self._places: dict[str, Vector] = {}
        self._sorts: dict[tuple[str, ...], tuple[Mapping[Sort, Offering], Vector]] = {}

    def open(self, now: int, end: int, ranks: Mapping[CapacityType, int]) -> Mask:
        """Which of them sell now, to this policy, something that lasts until `end`: as fit.closed tells one by one."""
        may = np.array([kind in ranks for kind in _TYPES], np.bool_)
        return may[self.types] & (self.limit > 0) & (self.starts <= now) & (self.ends >= end)

    def places(self, key: str, known: Codes) -> Vector:
        """The code of each offering's value of a topology key, or of joint ones."""
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = _vector([known.code(label(partial(_label, one), key)) for one in self.offerings])
        return found

    def sorts(self, keys: tuple[str, ...]) -> tuple[Mapping[Sort, Offering], Vector]:
        """One offering of each sort, alike in shape and in their values of some keys, and the place of each one's sort there."""
        if keys not in self._sorts:
            each: list[Sort] = [
                (shape, *[one.domain.get(key) for key in keys]) for one, shape in zip(self.offerings, self.shapes, strict=True)
            ]
            first = dict(zip(each, self.offerings, strict=True))
            place = {sort: number for number, sort in enumerate(first)}
            self._sorts[keys] = first, _vector([place[sort] for sort in each])
        return self._sorts[keys]


@dataclass(frozen=True, slots=True)
class Sale:
    """The offerings from which a gang may buy, by place in the catalogue (`rows`): slots of a node (1 or more), price, rank, and
    how many nodes there are.
    """

    catalogue: Catalogue
    rows: Vector
    slots: Vector
    price: Vector
    rank: Vector
    limit: Vector

    def part(self, chosen: Mask) -> "Sale":
        return Sale(
            self.catalogue, self.rows[chosen], self.slots[chosen], self.price[chosen], self.rank[chosen], self.limit[chosen]
        )

    def limits(self, demand: int) -> Mapping[Kind, int]:
        """Of each size as many as cover the demand alone, the cheapest first: no better answer has others."""
        found: dict[Kind, int] = {}
        for slots in np.bincount(self.slots).nonzero()[0].tolist():
            alike = (self.slots == slots).nonzero()[0]
            wanted = -(-demand // slots)
            order = alike[np.lexsort((self.rank[alike], self.price[alike]))]
            before = self.limit[order].cumsum() - self.limit[order]
            for row in order[before < wanted].tolist():
                kind = Kind(slots, int(self.price[row]), int(self.rank[row]))
                found[kind] = found.get(kind, 0) + int(self.limit[row])
        return found

    def of(self, kind: Kind) -> Sequence[Offering]:
        alike = (self.slots == kind.slots) & (self.price == kind.price) & (self.rank == kind.rank)
        return [self.catalogue.offerings[row] for row in self.rows[alike].tolist()]


def sale(catalogue: Catalogue, slots: Vector, open_: Mask, ranks: Mapping[CapacityType, int]) -> Sale:
    """What of a catalogue holds at least one pod and is open; what must be bought goes after what is there (the odd ranks)."""
    rows = (open_ & (slots > 0)).nonzero()[0]
    rank = _vector([ranks.get(kind, 0) + 1 for kind in _TYPES])
    return Sale(catalogue, rows, slots[rows], catalogue.price[rows], rank[catalogue.types[rows]], catalogue.limit[rows])


@dataclass(slots=True)
class Catalogues:
    """The latest catalogues, for as long as their offerings are asked for again."""

    shapes: Shapes = field(default_factory=Shapes)
    _latest: list[Catalogue] = field(default_factory=list)

    def of(self, offerings: tuple[Offering, ...], topology_keys: tuple[str, ...]) -> Catalogue:
        for known in self._latest:
            if known.offerings is offerings and known.topology_keys == topology_keys:
                return known
        made = Catalogue(offerings, topology_keys, self.shapes)
        self._latest = [made, *self._latest[:3]]
        return made

    def forget(self) -> None:
        """What has codes of a fleet goes; shapes keep their numbers."""
        self._latest.clear()


def _vector(values: Sequence[int]) -> Vector:
    return np.array(values, np.int64)


def _label(offering: Offering, key: str) -> str | None:
    if key == HOSTNAME:
        return None
    return offering.domain.get(key, offering.shape.labels.get(key))
