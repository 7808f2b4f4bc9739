"""Conditions as Kubernetes' API conventions have them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from runtime.conditions import MESSAGE_LIMIT, find, is_true, set_condition, timestamp
from tests.conftest import WallClock

NOON, LATER = "2026-11-30T12:00:00Z", "2026-11-30T12:01:00Z"


def entry(**fields: Any) -> dict[str, Any]:
    base = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "m", "lastTransitionTime": NOON}
    return {**base, "observedGeneration": 1, **fields}


@pytest.mark.parametrize(
    ("status", "reason", "generation", "expected"),
    [
        pytest.param(True, "Accepted", 1, entry(), id="the same"),
        pytest.param("True", "Other", 2, entry(reason="Other", observedGeneration=2), id="status kept: time kept"),
        pytest.param(
            False, "No", 1, entry(status="False", reason="No", lastTransitionTime=LATER), id="status changed: time changed"
        ),
        pytest.param(
            "Unknown", "No", 1, entry(status="Unknown", reason="No", lastTransitionTime=LATER), id="unknown is a status"
        ),
    ],
)
def test_transition_time_follows_the_status_alone(
    clock: WallClock, status: bool | str, reason: str, generation: int, expected: dict[str, Any]
) -> None:
    before = set_condition([], "Accepted", True, "Accepted", "m", generation=1, now=clock())
    assert before == [entry()]
    clock.advance(60)
    assert set_condition(before, "Accepted", status, reason, "m", generation=generation, now=clock()) == [expected]
    assert before == [entry()]


def test_other_conditions_stay_where_they_are(clock: WallClock) -> None:
    before = [entry(type="A"), entry(), entry(type="B")]
    after = set_condition(before, "Accepted", False, "No", "m", generation=1, now=clock())
    assert [each["type"] for each in after] == ["A", "Accepted", "B"]
    assert (after[0], after[2]) == (before[0], before[2])


def test_a_message_is_cut_at_the_length_that_the_schema_takes(clock: WallClock) -> None:
    (got,) = set_condition([], "A", True, "R", "x" * (MESSAGE_LIMIT + 1), generation=1, now=clock())
    assert len(got["message"]) == 32768
    (whole,) = set_condition([], "A", True, "R", "x" * MESSAGE_LIMIT, generation=1, now=clock())
    assert whole["message"] == "x" * 32768


def test_find_and_is_true() -> None:
    conditions = [entry(), entry(type="B", status="False")]
    assert find(conditions, "B") == conditions[1]
    assert find(conditions, "C") is None
    assert [is_true(conditions, name) for name in ("Accepted", "B", "C")] == [True, False, False]


def test_times_are_whole_seconds_in_utc() -> None:
    assert timestamp(datetime(2026, 11, 30, 14, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))) == NOON
    assert timestamp(datetime(2026, 11, 30, 12, tzinfo=UTC)) == NOON
    with pytest.raises(ValueError, match="without time zone"):
        timestamp(datetime(2026, 11, 30, 12))  # noqa: DTZ001 the fault under test
