"""What luck could save at most, and when it is not looked for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import plan as planning
from capacity.model import Gang, Plan, Preferences, Snapshot
from capacity.plan import plan
from capacity.programme.luck import lucky
from capacity.programme.question import Question, question
from capacity.programme.search import least
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

AMOUNTS = st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 9))


@given(st.lists(AMOUNTS, min_size=1, max_size=4), st.tuples(st.integers(1, 4), st.integers(1, 4)), st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_luck_costs_no_less_than_the_least(some: list[tuple[int, int, int]], counts: tuple[int, int], size: int) -> None:
    offers = [offering(f"o{number}", available, price, gpu=gpu) for number, (available, gpu, price) in enumerate(some)]
    asked = question(gang(pods("worker", counts[0], gpu=size), pods("driver", counts[1], gpu=1)), snapshot(*offers), ANY)
    best = lucky(asked)
    assert best is None or least(asked) <= best.cost


PAIR = gang(pods("worker", 2, gpu=7), pods("driver", 2, gpu=1))
FIVE = gang(pods("worker", 2, gpu=1), pods("driver", 5, gpu=2))  # the drivers take 10 of 8 GPUs a node


@pytest.mark.parametrize(
    ("some", "there", "preferences", "expected"),
    [
        pytest.param(PAIR, snapshot(offering("o", 4, 10)), ANY, 20, id="two whole nodes for the workers"),
        pytest.param(PAIR, snapshot(offering("o", 4, 10), offering("p", 1, 4)), ANY, 14, id="the cheapest first"),
        pytest.param(PAIR, snapshot(offering("o", 4, 10), node("n")), ANY, 10, id="what is there is free"),
        pytest.param(FIVE, snapshot(offering("o", 4, 10)), ANY, 13, id="in parts of nodes"),
        pytest.param(
            gang(*(pods(name, 1, required_topology=RACK) for name in ("worker", "driver"))),
            snapshot(offering("o", 4, 10, domain={RACK: "r"})),
            ANY,
            0,
            id="nothing is told of levels",
        ),
        pytest.param(PAIR, snapshot(offering("o", 4, 10)), Preferences(cross_zone_cost=5), 0, id="nor of zones at a price"),
    ],
)
def test_the_least_by_hand(some: Gang, there: Snapshot, preferences: Preferences, expected: int) -> None:
    assert least(question(some, there, preferences)) == expected


def test_luck_is_not_looked_for_where_it_can_save_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def sought(_asked: Question) -> Plan | None:
        raise AssertionError("looked for luck")

    monkeypatch.setattr(planning, "lucky", sought)
    found = plan(gang(pods("worker", 2, gpu=8), pods("driver", 1, gpu=0, cpu=1000)), snapshot(offering("o", 4, 10)), ANY)
    assert isinstance(found, Plan)
    assert (found.cost, found.gap) == (20, 0)
