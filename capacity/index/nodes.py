"""The nodes of a snapshot without a copy: a fleet's own list, with what has changed in it since and bookings laid over it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, overload

from capacity.model import Node


class Nodes(Sequence[Node]):
    """Never changes, and is equal to every sequence of the same nodes. It reads from a list that belongs to a fleet, which calls
    `keep` before it changes the list.
    """

    __slots__ = ("__weakref__", "_base", "_items", "_over", "_size")

    def __init__(self, items: Sequence[Node], over: Mapping[int, Node] | None = None, base: "Nodes | None" = None) -> None:
        self._items = items
        self._over = dict(over or {})
        self._base = base  # whose items these are
        self._size = len(items if base is None else base)

    def keep(self, place: int, node: Node) -> None:
        """From now on, the list has another node than this in a place, or none."""
        if place < self._size:
            self._over.setdefault(place, node)

    def changed(self, over: Mapping[int, Node]) -> "Nodes":
        """The same with other nodes in some places."""
        return Nodes((), over, self) if self._base is None else Nodes((), {**self._over, **over}, self._base)

    def at(self, places: Sequence[int]) -> list[Node]:
        items = self._plain()
        return list(map(self._node if items is None else items.__getitem__, places))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Node]:
        items = self._plain()
        return map(self._node, range(self._size)) if items is None else islice(items, self._size)

    @overload
    def __getitem__(self, place: int) -> Node: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Node, ...]: ...
    def __getitem__(self, place: int | slice) -> Node | tuple[Node, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        return self._node(range(self._size)[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__: Any = None

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _node(self, place: int) -> Node:
        found = self._over.get(place)
        if found is None:
            found = self._items[place] if self._base is None else self._base._node(place)  # noqa: SLF001  # its own kind
        return found

    def _plain(self) -> Sequence[Node] | None:
        """The list, where nothing is laid over it."""
        base = self if self._base is None else self._base
        return None if self._over or base._over else base._items  # noqa: SLF001  # its own kind


def at(nodes: Sequence[Node], places: Sequence[int]) -> list[Node]:
    """The nodes in these places."""
    return nodes.at(places) if isinstance(nodes, Nodes) else list(map(nodes.__getitem__, places))
