"""The nodes of a snapshot without a copy: a fleet's own list for as long as it does not change, and bookings laid over it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from capacity.model import Node


class Nodes(Sequence[Node]):
    """Never changes, and is equal to every sequence of the same nodes. It reads from a list that belongs to a fleet until that
    calls `part`, as it must before it changes the list.
    """

    __slots__ = ("__weakref__", "_base", "_items", "_over")

    def __init__(self, items: Sequence[Node], over: Mapping[int, Node] | None = None, base: "Nodes | None" = None) -> None:
        self._items = items
        self._over = over or {}
        self._base = base  # whose items these are

    def part(self) -> None:
        """Takes a copy of the items."""
        self._items = tuple(self._items)

    def changed(self, over: Mapping[int, Node]) -> "Nodes":
        """The same with other nodes in some places."""
        return Nodes((), {**self._over, **over}, self._base or self)

    def at(self, places: Sequence[int]) -> list[Node]:
        found = list(map(self._list().__getitem__, places))
        return [self._over.get(place, node) for place, node in zip(places, found, strict=True)] if self._over else found

    def __len__(self) -> int:
        return len(self._list())

    def __iter__(self) -> Iterator[Node]:
        items = self._list()
        return iter(items) if not self._over else (self._over.get(place, node) for place, node in enumerate(items))

    @overload
    def __getitem__(self, place: int) -> Node: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Node, ...]: ...
    def __getitem__(self, place: int | slice) -> Node | tuple[Node, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        items = self._list()
        return self._over.get(place % len(items), items[place]) if self._over else items[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__: Any = None

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _list(self) -> Sequence[Node]:
        return self._items if self._base is None else self._base._items  # noqa: SLF001  # its own kind


def at(nodes: Sequence[Node], places: Sequence[int]) -> list[Node]:
    """The nodes in these places."""
    return nodes.at(places) if isinstance(nodes, Nodes) else list(map(nodes.__getitem__, places))
