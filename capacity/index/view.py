"""A fleet that differs from another in some columns, or in some nodes, and reads all the rest from it without a copy."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from capacity.fragmentation import Usual
from capacity.index.columns import Codes, Mask, Vector
from capacity.index.fleet import Fleet, Stock, Tier
from capacity.index.nodes import Nodes
from capacity.model import Node
from capacity.requirements import PodTerm


class View(Fleet):
    """`nodes` has one for each row of the other fleet, which must not change while this is in use."""

    def __init__(self, fleet: Fleet, nodes: Sequence[Node]) -> None:
        super().__init__()
        self.catalogues = fleet.catalogues
        self._fleet = fleet
        self._there = nodes
        self._own: dict[Hashable, Vector] = {}

    def __len__(self) -> int:
        return len(self._there)

    def row(self, name: str) -> int:
        return self._fleet.row(name)

    def node(self, row: int) -> Node:
        return self._there[row]

    @property
    def version(self) -> int:
        return self._fleet.version

    def changed(self, version: int) -> list[int] | None:
        return self._fleet.changed(version)

    def column(self, kind: str, name: str = "") -> Vector:
        if (kind, name) not in self._own:
            self._own[kind, name] = self._made(kind, name)
        return self._own[kind, name]

    def read(self, kind: str, name: str, node: Node) -> int:
        return self._fleet.read(kind, name, node)

    def codes(self, key: str) -> Codes:
        return self._fleet.codes(key)

    def tiers(self) -> Sequence[Tier]:
        return self._fleet.tiers()

    def terms(self) -> Sequence[PodTerm]:
        return self._fleet.terms()

    def usual(self) -> Usual:
        return self._fleet.usual()

    def _made(self, kind: str, name: str) -> Vector:
        return self._fleet.column(kind, name)


class _Changed(View):
    """Some nodes are others."""

    def __init__(self, fleet: Fleet, nodes: Sequence[Node], rows: Sequence[int]) -> None:
        super().__init__(fleet, nodes)
        self._rows_changed = rows

    def _made(self, kind: str, name: str) -> Vector:
        found = self._fleet.column(kind, name).copy()
        found[self._rows_changed] = [self._fleet.read(kind, name, self._there[row]) for row in self._rows_changed]
        return found


def changed(stock: Stock, over: Mapping[int, Node]) -> Stock:
    """The stock with other nodes in some rows, alike in price, capacity type and pods' terms, or with fewer of the last."""
    nodes = (stock.nodes if isinstance(stock.nodes, Nodes) else Nodes(stock.nodes)).changed(over)
    view = _Changed(stock.fleet, nodes, list(over))
    still: Mask = stock.open.copy()
    still[list(over)] = view.column("open")[list(over)].astype(np.bool_)
    return Stock(view, view.version, nodes, still)
