"""The cached objects of one kind: immutable values by (namespace, name), with indexes and change handlers.

All of it happens on the event loop, so readers see one consistent state between two awaits and nothing is locked.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from runtime.logging import get_logger

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""


class Meta(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Object(Protocol):
    @property
    def metadata(self) -> Meta: ...


T = TypeVar("T", bound=Object)
_log = get_logger("store")


def key_of(obj: Object) -> Key:
    return obj.metadata.namespace, obj.metadata.name


class _Index(Generic[T]):
    def __init__(self, keys: Callable[[T], Iterable[Hashable]]) -> None:
        self._keys = keys
        self._entries: dict[Hashable, dict[Key, T]] = {}  # index value -> the objects that bear it

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        before = set(self._keys(old)) if old is not None else set()
        after = set(self._keys(new)) if new is not None else set()
        for value in before - after:
            entry = self._entries.get(value, {})
            entry.pop(key, None)
            if not entry:
                self._entries.pop(value, None)
        for value in after:
            assert new is not None
            self._entries.setdefault(value, {})[key] = new

    def values(self, value: Hashable) -> list[T]:
        return list(self._entries.get(value, {}).values())


class Store(Generic[T]):
    """Filled by a Reflector alone. `synced` is set once the first complete list is in and its handlers have run."""

    def __init__(self) -> None:
        self._items: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[Callable[[T | None, T | None], None]] = []
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Key) -> T | None:
        return self._items.get(key)

    def values(self) -> Iterable[T]:
        """A stable copy of the values: it may be iterated across awaits."""
        return tuple(self._items.values())

    def add_index(self, name: str, keys: Callable[[T], Iterable[Hashable]]) -> None:
        """Indexes present and future objects by the values that `keys` gives for each. Raises ValueError on a name in use."""
        if name in self._indexes:
            raise ValueError(f"index {name!r} exists already")
        index = self._indexes[name] = _Index(keys)
        for key, item in self._items.items():
            index.move(key, None, item)

    def by(self, index: str, value: Hashable) -> list[T]:
        """The objects that bear `value` in that index. Raises KeyError on an unknown index."""
        return self._indexes[index].values(value)

    def on_change(self, handler: Callable[[T | None, T | None], None]) -> None:
        """Calls `handler(old, new)` after each change; None is absent. A handler that raises is logged, the rest go on."""
        self._handlers.append(handler)

    def put(self, key: Key, new: T | None) -> None:
        """Takes one change over; None removes."""
        old = self._items.pop(key, None) if new is None else self._items.get(key)
        if new is not None:
            self._items[key] = new
        if old is None and new is None:
            return
        for index in self._indexes.values():
            self._guarded(key, index.move, key, old, new)
        for handler in self._handlers:
            self._guarded(key, handler, old, new)

    def replace(self, fresh: Mapping[Key, T]) -> None:
        """Takes a complete list over: what it lacks was deleted, what has a new version was changed."""
        for key in self._items.keys() - fresh.keys():
            self.put(key, None)
        for key, item in fresh.items():
            old = self._items.get(key)
            if old is None or old.metadata.resource_version != item.metadata.resource_version:
                self.put(key, item)
        self.synced.set()

    def _guarded(self, key: Key, call: Callable[..., None], *args: object) -> None:
        try:
            call(*args)
        except Exception:
            _log.exception("an object could not be handled; other objects go on", namespace=key[0], name=key[1])
