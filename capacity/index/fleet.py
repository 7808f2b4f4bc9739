"""The nodes of a snapshot by columns, kept up node by node, and what a snapshot carries of it.

A column is made when a plan first asks for it, and brought up to date when one asks again: a change of one node costs the same
however many nodes and columns there are, and what changes again and again before the next plan is read once.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from capacity.fit import host, is_port, room
from capacity.fragmentation import Size, Usual, sizes, spare, usual
from capacity.index.catalogue import Catalogues
from capacity.index.columns import MOST, Codes, Column, Mask, Order, Vector, label
from capacity.index.nodes import Nodes, at
from capacity.index.standing import Standing, standing
from capacity.model import Bystander, CapacityType, Node, Snapshot
from capacity.requirements import PodTerm, Taint

T = TypeVar("T")
Tier = tuple[int, CapacityType | None]
_CHANGES = 4096
_STALE = 1024


class Fleet:
    """Nodes, each with a row in every column. Rows have no meaning: the last node moves to the row of one that is taken out.

    Between taking a `stock` and the end of the planning on it, the owner must neither `put` nor `remove`: the columns are not
    copied. A stock whose fleet has changed all the same is not used, its snapshot's nodes are read afresh (see `stock_of`).
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes = list(nodes)
        self._rows = {node.name: row for row, node in enumerate(self._nodes)}
        self._given: Sequence[Node] | None = nodes if isinstance(nodes, tuple | Nodes) else None
        self._shown: list[ReferenceType[Nodes]] = []  # the last one may be of the nodes as they are now
        self._shown_at = -1
        self._columns: dict[tuple[str, str], Column] = {}
        self._codes: dict[str, Codes] = {}
        self._taints: dict[tuple[Taint, ...], int] = {}
        self._tiers: dict[Tier, int] = {}
        self._standings: dict[Standing, int] = {}
        self._names: Order | None = None
        self._terms = Counter(term for node in self._nodes if node.pods for term in _terms(node))
        self._sizes: Counter[Size] | None = None
        self._usual: Usual = ()
        self._now_usual: Usual = ()
        self._usual_at = -1
        self._changed: list[int] = []
        self._forgotten = 0
        self.catalogues = Catalogues()
        self.memo: dict[Hashable, Any] = {}  # what planning keeps from one plan to the next
        self.beside: tuple[tuple[Bystander, ...], tuple[PodTerm, ...]] | None = None  # bystanders, and the terms of their pods

    def __len__(self) -> int:
        return len(self._nodes)

    def row(self, name: str) -> int:
        """Raises KeyError for a name that no node has."""
        return self._rows[name]

    def node(self, row: int) -> Node:
        return self._nodes[row]

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._forgotten + len(self._changed)

    def changed(self, version: int) -> list[int] | None:
        """The rows that changed since a version, None when that is too long ago to tell."""
        return self._changed[version - self._forgotten :] if version >= self._forgotten else None

    # --- what the owner does --------------------------------------------------------------------------------------------------

    def put(self, node: Node) -> None:
        """Adds a node, or replaces the one of its name."""
        row = self._rows.get(node.name)
        if row is not None and self._nodes[row] is node:
            return
        if row is None:
            row = self._rows[node.name] = len(self._nodes)
            self._nodes.append(node)
            if self._names is not None and not self._names.add(node.name):
                self._columns["name", ""].version = -1
        else:
            self._forget(self._nodes[row])
        if node.pods:
            self._terms.update(_terms(node))
            if self._sizes is not None:
                self._sizes.update(sizes(node))
        self._set(row, node)

    def remove(self, name: str) -> None:
        """Takes a node out; nothing happens if there is none of that name."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._forget(self._nodes[row])
        if self._names is not None:
            self._names.discard(name)
        self._keep(len(self._nodes) - 1)
        last = self._nodes[-1]
        if last.name != name:
            self._rows[last.name] = row
            self._set(row, last)
        self._nodes.pop()
        self._note(len(self._nodes))

    def stock(self) -> "Stock":
        """The fleet as it is now, for a snapshot with the same `nodes`."""
        self._forget_codes()
        nodes = self._show() if self._given is None else self._given
        return Stock(self, self.version, nodes, self.column("open").astype(np.bool_))

    def _forget_codes(self) -> None:
        """Once most stand for what is gone, names of old nodes and bookings for instance; not while a plan compares them."""
        most = max(len(self._taints), len(self._standings), *map(len, self._codes.values()))
        if most > 2 * len(self._nodes) + _STALE:
            for codes in (self._taints, self._standings, self._codes):
                codes.clear()
            kinds = ("taints", "standing", "label")
            self._columns = {name: one for name, one in self._columns.items() if name[0] not in kinds}
            self.catalogues.forget()

    def _show(self) -> Nodes:
        """The nodes as they are now, shared by all stocks until the fleet changes."""
        shown = self._shown[-1]() if self._shown and self._shown_at == self.version else None
        if shown is None:
            shown = Nodes(self._nodes)
            self._shown = [*(one for one in self._shown if one() is not None), ref(shown)]
            self._shown_at = self.version
        return shown

    def _keep(self, row: int) -> None:
        """Whoever still looks at the nodes as they were keeps them so: a change costs the same for each who does."""
        seen = [(one, nodes) for one in self._shown if (nodes := one()) is not None]
        self._shown = [one for one, _ in seen]
        for _, nodes in seen:
            nodes.keep(row, self._nodes[row])

    def _forget(self, node: Node) -> None:
        if node.pods:
            _take(self._terms, _terms(node))
            if self._sizes is not None:
                _take(self._sizes, sizes(node))

    def _set(self, row: int, node: Node) -> None:
        if self._shown:
            self._keep(row)
        self._nodes[row] = node
        self._note(row)

    def _note(self, row: int) -> None:
        self._given = None
        self._changed.append(row)
        if len(self._changed) > max(_CHANGES, len(self._nodes)):
            self._forgotten += len(self._changed)
            self._changed.clear()

    # --- what plans read ------------------------------------------------------------------------------------------------------

    def column(self, kind: str, name: str = "") -> Vector:
        """One of `open` (0 or 1), `ends` (MOST: never), `taints`, `standing`, `tier` (codes), `name` and `spare` (the lower, the
        sooner a node is taken), or `free` or `whole` of a resource or port, or `label` of a key or of joint keys (a code). One
        entry a row.
        """
        if kind == "spare" and self._usual != (now := self.usual()):
            self._usual = now
            self._columns.pop((kind, name), None)
        found = self._columns.get((kind, name))
        if found is None:
            found = self._columns[kind, name] = Column(self._reader(kind, name), -1)
        if found.version != self.version:
            self._bring_up(found)
        return found.data[: len(self._nodes)]

    def _bring_up(self, column: Column) -> None:
        rows = self.changed(column.version)
        if rows is None:
            column.fill(self._nodes)
        for row in dict.fromkeys(rows or ()):
            if row < len(self._nodes):
                column.set(row, self._nodes[row])
        column.version = self.version

    def read(self, kind: str, name: str, node: Node) -> int:
        """What `column` would have for a node."""
        self.column(kind, name)
        return self._columns[kind, name].of(node)

    def codes(self, key: str) -> Codes:
        """What the codes of a label column stand for."""
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = Codes()
        return found

    def tiers(self) -> Sequence[Tier]:
        """Price and capacity type of each code in the `tier` column."""
        self.column("tier")
        return tuple(self._tiers)

    def terms(self) -> Sequence[PodTerm]:
        """The required anti-affinity terms of all pods on the nodes, each once."""
        return list(self._terms)

    def usual(self) -> Usual:
        """The usual sizes of pods on the nodes."""
        if self._sizes is None:
            self._sizes = Counter(size for node in self._nodes if node.pods for size in sizes(node))
        if self._usual_at != self.version:
            self._usual_at, self._now_usual = self.version, usual(self._sizes)
        return self._now_usual

    def _reader(self, kind: str, name: str) -> Callable[[Node], int]:
        if kind == "free":
            return _port_reader(name) if is_port(name) else _free_reader(name)
        if kind == "label":
            code = self.codes(name).code
            return lambda node: code(label(node.labels.get, name))
        if kind == "name":
            self._names = Order(self._rows)
            return lambda node: self._names.number(node.name) if self._names is not None else 0
        readers: dict[str, Callable[[Node], int]] = {
            "open": lambda node: node.booked_by is None and node.ready and not node.unschedulable,
            "ends": lambda node: MOST if node.ends is None else node.ends,
            "taints": lambda node: self._taints.setdefault(node.taints, len(self._taints)),
            "tier": lambda node: self._tiers.setdefault((node.price, node.capacity_type), len(self._tiers)),
            "spare": lambda node: spare(self._usual, node),
            "standing": lambda node: self._standings.setdefault(standing(node), len(self._standings)),
            "whole": lambda node: min(MOST, room(node.allocatable, name)),
        }
        return readers[kind]


@dataclass(frozen=True, slots=True)
class Stock:
    """A fleet at one instant. `open` tells for each row whether the node may be booked: nodes booked since, in the same pass, are
    closed in `open` and replaced in `nodes` alone.
    """

    fleet: Fleet
    version: int
    nodes: Sequence[Node]
    open: Mask

    def holds(self, nodes: Sequence[Node]) -> bool:
        """Whether it still tells the truth about these nodes."""
        return self.nodes is nodes and self.version == self.fleet.version

    def closed(self, names: Iterable[str], booking: str) -> "Stock":
        """The stock once `booking` holds these nodes whole."""
        rows, still = [self.fleet.row(name) for name in names], self.open.copy()
        still[rows] = False
        booked = {row: replace(node, booked_by=booking) for row, node in zip(rows, at(self.nodes, rows), strict=True)}
        known = self.nodes if isinstance(self.nodes, Nodes) else Nodes(self.nodes)
        return Stock(self.fleet, self.version, known.changed(booked), still)


def stock_of(snapshot: Snapshot) -> Stock:
    """The snapshot's own stock where it is of these very nodes, else a new one."""
    known = snapshot.stock
    return known if known is not None and known.holds(snapshot.nodes) else Fleet(snapshot.nodes).stock()


def stocked(snapshot: Snapshot) -> Snapshot:
    """The snapshot with a stock that holds, for whoever plans on it more than once."""
    stock = stock_of(snapshot)
    return snapshot if stock is snapshot.stock else replace(snapshot, stock=stock)


def _free_reader(name: str) -> Callable[[Node], int]:
    def free(node: Node) -> int:
        found = node.allocatable.get(name, 0) - node.requested.get(name, 0)
        return found if -MOST <= found <= MOST else max(-MOST, min(MOST, found))

    return free


def _port_reader(name: str) -> Callable[[Node], int]:
    return lambda node: room(host(node).free, name)


def _terms(node: Node) -> Iterable[PodTerm]:
    return [term for pod in node.pods for term in pod.apart]


def _take(counts: Counter[T], gone: Iterable[T]) -> None:
    """Nothing is kept of what there is no more of."""
    for one in gone:
        counts[one] -= 1
        if not counts[one]:
            del counts[one]
