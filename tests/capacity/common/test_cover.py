"""How many nodes of each kind: against plain enumeration, and against the general solver where that is quick."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.common import cover as module
from capacity.common.cover import Kind, TooHardError, cover

KINDS = st.builds(Kind, st.integers(1, 6), st.sampled_from([0, 0, 3, 5, 7, 10]), st.integers(0, 3))
LIMITS = st.dictionaries(KINDS, st.integers(1, 3), min_size=1, max_size=5)


def enumerated(limits: Mapping[Kind, int], demand: int) -> tuple[int, int, int, int] | None:
    kinds = list(limits)
    costs = []
    for counts in product(*(range(limits[kind] + 1) for kind in kinds)):
        taken = list(zip(kinds, counts, strict=True))
        slots = sum(kind.slots * count for kind, count in taken)
        if slots >= demand:
            costs.append((sum(k.price * c for k, c in taken), sum(k.rank * c for k, c in taken), slots, sum(counts)))
    return min(costs, default=None)


@given(LIMITS, st.integers(1, 20))
@settings(max_examples=1500, deadline=None)
def test_the_best_of_all(limits: Mapping[Kind, int], demand: int) -> None:
    found = cover(limits, demand)
    assert (found and found.cost) == enumerated(limits, demand)
    if found:
        assert all(0 < count <= limits[kind] for kind, count in found.counts.items())
        assert sum(kind.slots * count for kind, count in found.counts.items()) == found.cost[2]


@pytest.mark.parametrize(
    ("limits", "demand", "cost"),
    [
        pytest.param({Kind(1, 2, 0): 9, Kind(8, 10, 0): 9}, 9, (12, 0, 9, 2), id="one of each is cheapest"),
        pytest.param({Kind(5, 0, 0): 2, Kind(3, 0, 0): 2}, 6, (0, 0, 6, 2), id="two small ones rather than a slot too many"),
        pytest.param({Kind(5, 0, 4): 2, Kind(3, 0, 4): 2}, 6, (0, 8, 6, 2), id="a swap meets both bounds"),
        pytest.param({Kind(4, 0, 0): 1, Kind(4, 9, 1): 3}, 8, (9, 1, 8, 2), id="what is there, then what is bought"),
        pytest.param({Kind(8, 100, 0): 600, Kind(1, 13, 0): 5000}, 4096, (51_200, 0, 4096, 512), id="large"),
    ],
)
def test_by_hand(limits: Mapping[Kind, int], demand: int, cost: tuple[int, int, int, int]) -> None:
    found = cover(limits, demand)
    assert found is not None
    assert found.cost == cost


def test_too_few() -> None:
    assert cover({Kind(4, 0, 0): 2}, 9) is None


def test_numbers_that_are_too_large_are_not_guessed() -> None:
    limits = {Kind(3, module.MOST // 8 + 1, 0): 4, Kind(2, module.MOST // 8, 1): 4}
    with pytest.raises(TooHardError):
        cover(limits, 7)
