"""Columns that no best answer needs, against answers with all of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.programme.dominance import thinned
from capacity.programme.solver import Column, solve

CHEAP = Column(((2, 1),), 10, 1, 3)


@pytest.mark.parametrize(
    ("other", "most", "alike", "kept"),
    [
        pytest.param(Column(((1, 1),), 11, 1, 3), 3, False, False, id="dearer and smaller"),
        pytest.param(Column(((1, 0), (0, 1)), 11, 1, 3), 3, False, False, id="each pattern smaller"),
        pytest.param(Column(((1, 1),), 11, 1, 3), 3, True, True, id="smaller is not the same"),
        pytest.param(Column(((2, 1),), 11, 1, 3), 3, True, False, id="dearer and the same"),
        pytest.param(Column(((1, 1),), 11, 1, 3), 4, False, True, id="too few of the cheaper ones"),
        pytest.param(Column(((1, 2),), 11, 1, 3), 3, False, True, id="roomier for one role"),
        pytest.param(Column(((1, 1),), 10, 1, 3), 3, False, True, id="as cheap, and takes fewer slots"),
        pytest.param(Column(((1, 1),), 10, 2, 3), 3, False, False, id="as cheap, and later in the policy's order"),
        pytest.param(Column(((1, 1),), 10, 0, 3), 3, False, True, id="as cheap, and earlier in the policy's order"),
        pytest.param(Column(((2, 1),), 11, 1, 3, penalty=5), 3, False, True, id="another penalty"),
        pytest.param(Column(((2, 1),), 11, 1, 3, where=("b",)), 3, False, True, id="another domain"),
        pytest.param(Column(((2, 1),), 11, 1, 3, counted=(1,)), 3, False, True, id="other running pods"),
        pytest.param(Column(((2, 1),), 11, 1, 3, weights=(1,)), 3, False, True, id="another share of a limit"),
    ],
)
def test_what_goes(other: Column, most: int, alike: bool, kept: bool) -> None:
    assert (other in thinned([other, CHEAP], most, alike=alike)) is kept


def test_several_columns_together_are_enough() -> None:
    few = [Column(((1, 1),), price, 1, 2) for price in (10, 11, 12)]
    assert thinned(few, 4, alike=False) == few[:2]


def test_one_that_takes_fewer_slots_stays() -> None:
    fewer, more = Column(((2, 0), (1, 0)), 10, 1, 3), Column(((2, 0), (0, 3)), 10, 1, 3)
    assert set(thinned([more, fewer], 3, alike=False)) == {more, fewer}


PATTERN = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any)
PATTERNS = st.lists(PATTERN, min_size=1, max_size=3, unique=True).map(lambda some: tuple(sorted(some, reverse=True)))
COLUMN = st.builds(Column, PATTERNS, st.integers(0, 4), st.integers(0, 2), st.integers(1, 6))


@given(st.lists(COLUMN, min_size=1, max_size=6), st.tuples(st.integers(0, 3), st.integers(1, 3)))
@settings(max_examples=150, deadline=None)
def test_the_best_answer_costs_the_same(columns: list[Column], demand: tuple[int, int]) -> None:
    every, some = solve(columns, demand), solve(thinned(columns, sum(demand), alike=False), demand)
    assert (every and every.cost) == (some and some.cost)
