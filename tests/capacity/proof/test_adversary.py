"""The worst that other pods can do, against trying everything they can do."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.proof import adversary
from capacity.proof.adversary import Shared, surely


@pytest.mark.parametrize(
    ("free", "requests", "counts", "caps", "expected"),
    [
        # threes take 3 or 6 of each 8: both on one node leave 2 there, so one five fits on the other
        pytest.param((8, 8), (5, 3), (2, 2), (1, 2), 1, id="both small ones on one node"),
        pytest.param((8, 8), (5, 3), (1, 2), (1, 2), 1, id="one is always left"),
        pytest.param((8, 8, 8), (8, 1), (3, 1), (1, 1), 2, id="one small pod takes one node"),
        pytest.param((8, 8, 8), (4, 4), (3, 3), (2, 2), 3, id="equal pods leave what they don't take"),
    ],
)
def test_by_hand(
    free: tuple[int, ...], requests: tuple[int, int], counts: tuple[int, int], caps: tuple[int, int], expected: int
) -> None:
    nodes = [Shared({"gpu": one}, {0: caps[0], 1: caps[1]}, 1) for one in free]
    assert surely(0, [{"gpu": one} for one in requests], counts, nodes) == expected


@given(
    st.integers(1, 8),
    st.integers(1, 5),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_alike_nodes_are_so_many_single_ones(free: int, count: int, requests: list[int], counts: list[int]) -> None:
    asked = [{"gpu": one} for one in requests]
    caps = {role: min(counts[role], free // size) for role, size in enumerate(requests)}
    many, single = Shared({"gpu": free}, caps, count), Shared({"gpu": free}, caps, 1)
    assert surely(0, asked, counts, [many]) == surely(0, asked, counts, [single] * count)


def test_two_pods_get_in_the_way_on_two_of_ten_thousand_nodes() -> None:
    nodes = [Shared({"gpu": 8}, {0: 1, 1: 1}, 10_000)]
    assert surely(0, [{"gpu": 8}, {"gpu": 1}], (10_000, 2), nodes) == 9_998


def outcomes(free: list[int], requests: tuple[int, ...], counts: tuple[int, ...], marks: list[tuple[bool, ...]]) -> Iterator[int]:
    """Pods of role 0 that can still be placed, over all ways in which the others can be there first."""
    others = range(1, len(counts))
    places = [list(product(*(range(counts[o] + 1) if marked[o] else (0,) for o in others))) for marked in marks]
    for taken in product(*places):
        used = [sum(n * requests[o] for n, o in zip(one, others, strict=True)) for one in taken]
        within = all(sum(one[o - 1] for one in taken) <= counts[o] for o in others)
        if within and all(a <= b for a, b in zip(used, free, strict=True)):
            yield sum((b - a) // requests[0] for a, b, marked in zip(used, free, marks, strict=True) if marked[0])


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=2, max_size=3),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_the_worst_of_all(free: list[int], requests: list[int], counts: list[int], data: st.DataObject) -> None:
    roles = len(requests)
    marks = [tuple(data.draw(st.booleans()) for _ in range(roles)) for _ in free]
    nodes = [
        Shared({"gpu": one}, {role: min(counts[role], one // requests[role]) for role in range(roles) if marked[role]}, 1)
        for one, marked in zip(free, marks, strict=True)
    ]
    found = surely(0, [{"gpu": one} for one in requests], counts[:roles], nodes)
    worst = min(outcomes(free, tuple(requests), tuple(counts[:roles]), marks))
    assert min(found, counts[0]) == min(worst, counts[0])


def test_too_much_to_follow_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adversary, "MAX_WORK", 0)
    nodes = [Shared({"gpu": 8}, {0: 1, 1: 2}, 1)] * 2
    assert surely(0, [{"gpu": 5}, {"gpu": 3}], (1, 2), nodes) == 0
