"""The memory of the simulated cloud: tables of records that know which rows changed since they were last saved."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)


class Table(Generic[Row]):
    """Rows by key, in the order in which they came. `changed` holds, in order too, the keys whose rows were put or dropped."""

    def __init__(self, name: str, row: type[Row]) -> None:
        self.name = name
        self.changed: dict[str, None] = {}
        self._type = row
        self._rows: dict[str, Row] = {}

    def get(self, key: str) -> Row | None:
        return self._rows.get(key)

    def values(self) -> Iterable[Row]:
        return self._rows.values()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def put(self, key: str, row: Row) -> None:
        self._rows[key] = row
        self.changed[key] = None

    def change(self, key: str, **fields: Any) -> Row:
        """Replaces fields of a row that is there."""
        row = msgspec.structs.replace(self._rows[key], **fields)
        self.put(key, row)
        return row

    def drop(self, key: str) -> None:
        self._rows.pop(key, None)
        self.changed[key] = None

    def load(self, key: str, data: bytes) -> None:
        """Takes in a saved row."""
        self._rows[key] = msgspec.json.decode(data, type=self._type)

    def take_changes(self) -> Iterator[tuple[str, str, bytes | None]]:
        """Table, key and JSON of each changed row, None for a dropped one; they count as saved then."""
        keys, self.changed = list(self.changed), {}
        for key in keys:
            row = self._rows.get(key)
            yield self.name, key, None if row is None else msgspec.json.encode(row)
