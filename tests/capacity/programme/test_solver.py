"""The integer programme against plain enumeration, and what happens when it can't tell."""

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import plan as planning
from capacity.model import Undecidable
from capacity.programme import milp
from capacity.programme.milp import SearchLimitError
from capacity.programme.solver import Column, Limits, floor, solve
from tests.capacity.make import ANY, gang, node, pods, snapshot

PATTERNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=1, max_size=2, unique=True)
COLUMNS = st.lists(
    st.builds(Column, PATTERNS.map(tuple), st.integers(0, 4), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=3
)


def cheapest(columns: list[Column], demand: tuple[int, int], ceiling: int | None) -> tuple[int, ...] | None:
    """The least (price, ranks, slots, nodes) over every way to take nodes and give each a pattern."""
    pairs = [(column, pattern) for column in columns for pattern in column.patterns]
    found: list[tuple[int, ...]] = []
    for counts in product(*(range(column.limit + 1) for column, _ in pairs)):
        taken = [(column, pattern, count) for (column, pattern), count in zip(pairs, counts, strict=True)]
        within = all(sum(n for c, _, n in taken if c is column) <= column.limit for column in columns)
        covered = all(sum(p[s] * n for _, p, n in taken) >= demand[s] for s in (0, 1))
        price = sum(c.price * n for c, _, n in taken)
        if within and covered and (ceiling is None or price <= ceiling):
            slots = sum(n * sum(max(p[s] for p in c.patterns) for s in (0, 1)) for c, _, n in taken)
            found.append((price, sum(c.rank * n for c, _, n in taken), slots, sum(counts)))
    return min(found, default=None)


@given(COLUMNS, st.tuples(st.integers(1, 5), st.integers(0, 5)), st.none() | st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_best_of_all(columns: list[Column], demand: tuple[int, int], ceiling: int | None) -> None:
    found = solve(columns, demand, Limits(ceiling))
    best = cheapest(columns, demand, ceiling)
    assert (found.cost if found else None) == best
    if found:
        price, rank = floor(columns, demand)
        assert (price, rank) <= found.cost[:2]
        assert rank <= found.cost[1]


def test_floor_counts_parts_of_nodes() -> None:
    assert floor([Column(((8,),), 10, 1, 9), Column(((1,),), 2, 0, 9)], (9,)) == (12, 0)
    assert floor([Column(((8,),), 10, 1, 9)], (9,)) == (12, 2)


def test_large_prices_stay_exact() -> None:
    """One micro-dollar decides among sums of ten billion."""
    columns = [Column(((1, 0), (0, 1)), 98_320_001, 0, 64), Column(((1, 0), (0, 2)), 98_320_000, 1, 63)]
    found = solve(columns, (64, 64))
    assert found is not None
    assert found.cost[0] == 63 * 98_320_000 + 33 * 98_320_001


def test_an_answer_that_does_not_hold_in_integers_does_not_count() -> None:
    with pytest.raises(SearchLimitError, match="integers"):
        milp._checked([2], [1], [])


def test_a_search_that_is_cut_off_is_undecidable(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(*_: object) -> None:
        raise SearchLimitError("no answer within 3 branches")

    monkeypatch.setattr(planning, "find", cut_off)
    outcome = planning.plan(gang(pods("w", 1), pods("v", 1)), snapshot(node("n")), ANY)
    assert outcome == Undecidable(("the search was cut off: no answer within 3 branches",))


def test_a_shared_limit_holds_over_all_columns() -> None:
    """A node of the cheap kind takes 3 of the limit, of the dear one 1: x + y = 4 and 3x + y <= 6 leave x = 1 and y = 3."""
    columns = [Column(((1,),), 5, 0, 9, weights=(1,)), Column(((1,),), 2, 0, 9, weights=(3,))]
    found = solve(columns, (4,), Limits(budgets=(6,)))
    assert found is not None
    assert found.cost[0] == 2 + 3 * 5
    assert solve(columns, (7,), Limits(budgets=(6,))) is None


def test_a_penalty_decides_but_is_no_price() -> None:
    columns = [Column(((1,),), 3, 0, 9), Column(((1,),), 2, 0, 9, penalty=2)]
    found = solve(columns, (2,), Limits(ceiling=4))
    assert found is not None
    assert found.counts == ((1, 0, 2),)
    assert solve(columns, (2,)) != found


def test_when_it_is_cut_off_the_best_so_far_comes_with_its_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found costs at most its gap more than the true optimum, and one branch doesn't settle every case."""
    gaps = 0
    for seed in range(16):
        dice = random.Random(seed)
        columns = [
            Column((tuple(dice.randint(1, 9) for _ in range(3)),), dice.randint(100, 160), 0, dice.randint(2, 6))
            for _ in range(14)
        ]
        monkeypatch.setitem(milp._OPTIONS, "mip_max_nodes", 20_000)
        best = solve(columns, (83, 77, 91))
        monkeypatch.setitem(milp._OPTIONS, "mip_max_nodes", 1)
        rough = solve(columns, (83, 77, 91))
        assert best is not None
        assert best.gap == 0
        assert rough is not None
        assert rough.cost[0] - rough.gap <= best.cost[0] <= rough.cost[0]
        gaps += rough.gap > 0
    assert gaps
