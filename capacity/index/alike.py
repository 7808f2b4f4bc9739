"""Which rows of several columns are alike in all of them."""

from collections.abc import Iterable

import numpy as np

from capacity.index.columns import MOST, Vector

_WIDE = 1 << 16


def alike(columns: Iterable[Vector], rows: int) -> tuple[Vector, Vector]:
    """For each of `rows` rows the number of its class, from 0 without a gap, and for each class its first row.

    Entries of one column must not be further apart than 2**62.
    """
    codes, size = np.zeros(rows, np.int64), 1
    for column in columns if rows else ():
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        part, span = (column - low, high - low + 1) if high - low < _WIDE else _narrow(column)
        if size * span > MOST:
            codes, size = _narrow(codes)
        codes, size = codes * span + part, size * span
    codes, size = _narrow(codes) if size > _WIDE else _dense(codes, size)
    firsts = np.zeros(size, np.int64)
    firsts[codes[::-1]] = np.arange(rows - 1, -1, -1)
    return codes, firsts


def _narrow(codes: Vector) -> tuple[Vector, int]:
    values, found = np.unique(codes, return_inverse=True)
    return found, len(values)


def _dense(codes: Vector, size: int) -> tuple[Vector, int]:
    """As `_narrow`, without sorting, for codes from 0 below `size`."""
    there = np.bincount(codes, minlength=size) > 0
    return (there.cumsum() - 1)[codes], int(there.sum())
