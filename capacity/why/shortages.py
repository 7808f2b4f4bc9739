"""How often the pods of one pod set go on each node of a fleet, and what they lack where none does, by columns."""

import numpy as np

from capacity.fit import is_port, lacking, needs
from capacity.index.columns import MOST, Mask, Vector
from capacity.index.fleet import Stock
from capacity.model import Constraint, PodSet
from capacity.why.lots import Told


class Shortages:
    """What of one pod set fits on each row of a fleet: `whole` and `size` as in Verdict, and by `short` which of its needs is the
    first that isn't met, with how much of it is `left`. 0: all are; from 1 on in their order, when the node is empty, and then
    once more as it is.
    """

    def __init__(self, pod_set: PodSet, stock: Stock) -> None:
        self.needs = sorted(needs(pod_set).items())
        self.whole, none, bare = self._fit(stock, "whole")
        self.size, first, free = self._fit(stock, "free")
        small = self.whole == 0
        self.short = np.where(small, none, np.where(first > 0, first + len(self.needs), 0))
        self.left = np.where(small, bare, free)

    def _fit(self, stock: Stock, kind: str) -> tuple[Vector, Vector, Vector]:
        fit, short, left = (np.full(len(stock.nodes), start, np.int64) for start in (MOST, 0, 0))
        for place, (name, amount) in reversed(list(enumerate(self.needs, 1))):
            asked, there = min(amount, MOST + 1), stock.fleet.column(kind, name)
            lacks = there < asked
            short[lacks], left[lacks] = place, there[lacks]
            fit = np.minimum(fit, there // asked)
        return np.maximum(fit, 0), short, np.maximum(left, 0)

    def keep(self, rows: Mask) -> None:
        """What is short on other rows makes no difference."""
        self.short, self.left = self.short * rows, self.left * rows

    def told(self, short: int, left: int) -> Told:
        """What is short in words; a port is one that is taken, for no empty node is short of one."""
        name, amount = self.needs[(short - 1) % len(self.needs)]
        empty = short <= len(self.needs)
        constraint = Constraint.TOO_SMALL if empty else Constraint.PORT if is_port(name) else Constraint.IN_USE
        return constraint, lacking(name, amount, left)
