"""Rows that are alike in all columns, and only these, are in one class."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capacity.index.alike import alike

ENTRIES = st.one_of(st.integers(-2, 2), st.sampled_from([0, 1 << 20, 1 << 40, 1 << 61]))


@given(st.integers(0, 3).flatmap(lambda width: st.lists(st.tuples(*[ENTRIES] * width), max_size=12)))
def test_classes(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    codes, firsts = alike(columns, len(rows))
    assert len({*zip(rows, codes.tolist(), strict=True)}) == len({*rows}) == len({*codes.tolist()}) == len(firsts)
    assert sorted({*codes.tolist()}) == list(range(len(firsts)))
    assert [codes.tolist().index(code) for code in range(len(firsts))] == firsts.tolist()


def test_codes_are_made_small_before_they_grow_too_large() -> None:
    rows = [(number, -number, 7 * number) for number in range(100_000)] * 2
    codes, firsts = alike([np.array(column, np.int64) for column in zip(*[*rows, (0, 1, 0)], strict=True)], 200_001)
    assert len(firsts) == 100_001
    assert (codes[:100_000] == codes[100_000:200_000]).all()
