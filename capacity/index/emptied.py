"""A snapshot as it would be if nobody used or held anything: a view on the columns there are, without a copy of each node."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeVar, overload

import numpy as np

from capacity.index.columns import Vector
from capacity.index.fleet import Stock, stock_of
from capacity.index.standing import standing
from capacity.index.view import View
from capacity.model import Budget, Bystander, Node, Offering, Snapshot
from capacity.requirements import PodTerm

T = TypeVar("T")
FAULTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the taints by which a node tells that it is not fit for use at the moment."""


def emptied(snapshot: Snapshot) -> Snapshot:
    """As it would be if nothing were booked, in use, cordoned, not ready, or still to start; itself where nothing can be."""
    offerings, budgets = _each(_offering, snapshot.offerings), _each(_budget, snapshot.budgets)
    bystanders = _each(_bystander, snapshot.bystanders)
    if not snapshot.nodes:
        same = (offerings, budgets, bystanders) == (snapshot.offerings, snapshot.budgets, snapshot.bystanders)
        return snapshot if same else replace(snapshot, offerings=offerings, budgets=budgets, bystanders=bystanders)
    stock = stock_of(snapshot)
    nodes = _Nodes(stock.nodes)
    view = _Emptied(stock.fleet, nodes)
    stock = Stock(view, view.version, nodes, np.ones(len(nodes), np.bool_))
    return replace(snapshot, nodes=nodes, offerings=offerings, budgets=budgets, bystanders=bystanders, stock=stock)


def _each(change: Callable[[T], T], records: tuple[T, ...]) -> tuple[T, ...]:
    """The very same records where nothing changes: what is known of them stays known."""
    changed = tuple(map(change, records))
    return records if all(map(is_, changed, records)) else changed


def _offering(offering: Offering) -> Offering:
    if offering.available >= offering.total and offering.starts is None:
        return offering
    return replace(offering, available=max(offering.total, offering.available), starts=None)


def _budget(budget: Budget) -> Budget:
    return budget if budget.left == budget.whole else replace(budget, left=budget.whole)


def _bystander(bystander: Bystander) -> Bystander:
    return replace(bystander, pods=()) if bystander.pods else bystander


def _node(node: Node) -> Node:
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(FAULTS))
    return replace(node, requested={}, pods=(), booked_by=None, ready=True, unschedulable=False, taints=taints)


class _Nodes(Sequence[Node]):
    """Each node is made when it is first looked at."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._made: dict[int, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, place: int) -> Node: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Node, ...]: ...
    def __getitem__(self, place: int | slice) -> Node | tuple[Node, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = _node(self._nodes[place])
        return found


class _Emptied(View):
    """Its columns are made of those that tell how large nodes are; the others are the same."""

    def terms(self) -> Sequence[PodTerm]:
        return ()

    def _made(self, kind: str, name: str) -> Vector:
        match kind:
            case "open":
                return np.ones(len(self), np.int64)
            case "free":
                return self._fleet.column("whole", name)
            case "taints":
                return self._recoded(kind, lambda node: node.taints)
            case "standing":
                return self._recoded(kind, standing)
            case _:
                return super()._made(kind, name)

    def _recoded(self, kind: str, read: Callable[[Node], Hashable]) -> Vector:
        """Codes of what `read` makes of the emptied nodes: it is asked once for each code that the nodes have as they are."""
        codes = self._fleet.column(kind)
        seen = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
        seen[codes] = np.arange(len(codes))
        known: dict[Hashable, int] = {}
        table = [0 if row < 0 else known.setdefault(read(self._there[row]), len(known)) for row in seen.tolist()]
        return np.array(table, np.int64)[codes]
