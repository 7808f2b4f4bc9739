"""Columns of integers, one entry a node, with codes for text that sort as the text does.

All arrays are int64. A column grows by doubling, so adding a node costs the same however many there are.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from capacity.model import Node

Vector = NDArray[np.int64]
Mask = NDArray[np.bool_]

GAP = 1 << 32
MOST = 1 << 62
"""Amounts are cut off here on both sides: none that is real comes near."""
_JOINT = "\0"
"""Sorts before all that a label may hold, so joint values sort as the tuples of their parts."""


def joint(keys: Sequence[str]) -> str:
    """One name for several label keys together; a single key is its own."""
    return _JOINT.join(keys)


def label(get: Callable[[str], str | None], key: str) -> str | None:
    """The value of a key, or the joint value of joint keys: None where one of these is absent or empty."""
    if _JOINT not in key:
        return get(key)
    values = [value for one in key.split(_JOINT) if (value := get(one))]
    return _JOINT.join(values) if len(values) == key.count(_JOINT) + 1 else None


def apart(key: str, value: str | None) -> dict[str, str]:
    """The value of each of the keys that are joint in a key."""
    return dict(zip(key.split(_JOINT), str(value).split(_JOINT), strict=True)) if key else {}


class Order:
    """Numbers that sort as texts do, also once more texts have come: each new one gets a number between its neighbours'.

    Where there is no number left between two, all texts are numbered afresh, once in 32 additions at the most.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._sorted = sorted(set(texts))
        self._number: dict[str, int] = {}
        self._renumber()

    def add(self, text: str) -> bool:
        """Whether the numbers of the texts that were there before are still the same."""
        if text in self._number:
            return True
        place = bisect_left(self._sorted, text)
        below = self._number[self._sorted[place - 1]] if place else None
        above = self._number[self._sorted[place]] if place < len(self._sorted) else None
        self._sorted.insert(place, text)
        number = _between(below, above)
        if number in (below, above):
            self._renumber()
            return False
        self._number[text] = number
        return True

    def discard(self, text: str) -> None:
        if self._number.pop(text, None) is not None:
            del self._sorted[bisect_left(self._sorted, text)]

    def number(self, text: str) -> int:
        return self._number[text]

    def _renumber(self) -> None:
        self._number = {text: place * GAP for place, text in enumerate(self._sorted)}


def _between(below: int | None, above: int | None) -> int:
    if below is None:
        return 0 if above is None else above - GAP
    return below + GAP if above is None else (below + above) // 2


class Codes:
    """Small numbers for the values of one label, in order of arrival: 0 is for nodes without the label."""

    def __init__(self) -> None:
        self.values: list[str | None] = [None]
        self._code: dict[str | None, int] = {None: 0}
        self._order = Order()
        self._sorted: Vector | None = None

    def code(self, value: str | None) -> int:
        found = self._code.get(value)
        if found is None:
            found = self._code[value] = len(self.values)
            self.values.append(value)
            self._order.add(str(value))
            self._sorted = None
        return found

    @property
    def order(self) -> Vector:
        """For each code a number that sorts as the values do, no value first."""
        if self._sorted is None:
            known = [self._order.number(str(value)) for value in self.values[1:]]
            self._sorted = np.array([min(known, default=0) - 1, *known], np.int64)
        return self._sorted

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class Column:
    """What `of` makes of each node, in `data[: number of nodes]`, as of a fleet's `version`."""

    of: Callable[[Node], int]
    version: int
    data: Vector = field(default_factory=lambda: np.zeros(0, np.int64))

    def fill(self, nodes: Sequence[Node]) -> None:
        self.data = np.fromiter(map(self.of, nodes), np.int64, len(nodes))

    def set(self, row: int, node: Node) -> None:
        if row >= len(self.data):
            self.data = np.concatenate([self.data, np.zeros(max(16, row), np.int64)])
        self.data[row] = self.of(node)
