"""Priority, then age, then UID."""

import pytest

from provisioner.planning.ordering import turn
from tests.provisioner.make import request

EIGHT, NINE, TEN = (f"2026-09-01T{hour}:00:00Z" for hour in ("08", "09", "10"))


def test_the_order_of_turns() -> None:
    old = request("old", created=EIGHT)
    young = request("young", created=NINE)
    twin = request("a-twin", created=NINE)
    entries = [(young, 0), (twin, 0), (old, 0), (request("high", created="2026-09-01T09:30:00Z"), 100), (old, -5)]
    ordered = sorted(entries, key=lambda entry: turn(*entry))
    assert [(each.metadata.name, priority) for each, priority in ordered] == [
        ("high", 100),
        ("old", 0),
        ("a-twin", 0),
        ("young", 0),
        ("old", -5),
    ]


@pytest.mark.parametrize(
    ("waits_since", "asked", "first"),
    [
        pytest.param(EIGHT, TEN, True, id="tried again: the request is new, the Workload is not"),
        pytest.param(TEN, EIGHT, False, id="came later"),
        pytest.param(NINE, EIGHT, True, id="as old as the other: by the request"),
    ],
)
def test_a_workload_keeps_its_place_from_attempt_to_attempt(waits_since: str, asked: str, *, first: bool) -> None:
    other = turn(request("other", created=NINE), 0, NINE)
    assert (turn(request("it", created=asked), 0, waits_since) < other) is first


def test_a_request_that_no_workload_stands_behind_is_as_old_as_it_is() -> None:
    assert turn(request("bare", created=EIGHT), 0, "") < turn(request("it", created=TEN), 0, NINE)
    assert turn(request("bare", created=TEN), 0, "") > turn(request("it", created=TEN), 0, NINE)
