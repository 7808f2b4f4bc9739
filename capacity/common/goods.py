"""What one gang of one pod set may use, by columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from capacity.common.cover import Kind
from capacity.index.catalogue import Sale
from capacity.index.columns import Vector
from capacity.index.fleet import Fleet


@dataclass
class Goods:
    """`slots` has an entry for each row of the fleet, 0 for nodes that are out of the question, never more than `most`; `tiers`
    the places in `worth` (price, rank), None where there is one place for all nodes.
    """

    fleet: Fleet
    demand: int
    slots: Vector
    most: int
    tiers: Vector | None
    worth: Sequence[tuple[int, int]]
    sale: Sale | None = None
    levels: dict[str, Any] = field(default_factory=dict)  # what capacity/common/levels.py has made of them already

    @property
    def width(self) -> int:
        """Cells that the nodes of one place need in a table of counts by tier and slots."""
        return (self.most + 1) * (1 if self.tiers is None else len(self.worth))

    def cells(self, rows: "Vector | None" = None) -> Vector:
        """The cell of each row, of all or of those given, in such a table."""
        slots = self.slots if rows is None else self.slots[rows]
        if self.tiers is None:
            return slots
        return (self.tiers if rows is None else self.tiers[rows]) * (self.most + 1) + slots

    def limits(self, counts: Vector, sale: Sale | None) -> Mapping[Kind, int]:
        """How many there are of each kind: nodes as counted by cell, and what is for sale as far as it can matter."""
        found: dict[Kind, int] = {}
        for cell in counts.nonzero()[0].tolist():
            tier, slots = divmod(cell, self.most + 1)
            if slots:
                kind = Kind(slots, *self.worth[tier])
                found[kind] = found.get(kind, 0) + int(counts[cell])
        return {**found, **sale.limits(self.demand)} if sale is not None else found

    @cached_property
    def some(self) -> Vector:
        """The rows of nodes that hold at least one pod."""
        found: Vector = self.slots.nonzero()[0]
        return found

    @cached_property
    def kinds(self) -> Mapping[Kind, int]:
        """How many there are of each kind in all."""
        return self.limits(np.bincount(self.cells(), minlength=1), self.sale)

    def largest(self) -> int:
        """No node holds more pods."""
        return max(1, self.most, int(self.sale.slots.max(initial=0)) if self.sale is not None else 0)

    def free(self) -> Vector | None:
        """The slots of nodes of no price and no rank, 0 for others; None when there are no such nodes."""
        gratis = [worth == (0, 0) for worth in self.worth]
        if not any(gratis):
            return None
        return self.slots if self.tiers is None else self.slots * np.array(gratis, np.int64)[self.tiers]
