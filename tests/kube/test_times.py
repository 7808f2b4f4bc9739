"""Durations as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from kube.times import due, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("90s", 90, id="seconds"),
        pytest.param("1h30m", 5400, id="two-units"),
        pytest.param("1.5h", 5400, id="a-fraction"),
        pytest.param("1999ms", 1, id="rounded-down"),
    ],
)
def test_seconds(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "h", "-5m", "5 m", "1d", "٣m", "1h" * 20])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


def test_for_ever_can_still_be_written_down() -> None:
    """A pool with drainBeforeEnd 99999999h must not keep all pools from being planned on."""
    for_ever = timedelta(seconds=seconds("99999999999999999999999999999h"))
    now = datetime(2026, 9, 1, tzinfo=UTC)
    assert (now - for_ever).year == 1926
    assert (now + for_ever).year == 2126


@pytest.mark.parametrize(
    ("left", "said"),
    [
        pytest.param(0, "10:00Z (0s left)", id="now"),
        pytest.param(-5, "09:59Z (0s left)", id="over"),
        pytest.param(41, "10:00Z (50s left)", id="steps of ten seconds"),
        pytest.param(121, "10:02Z (3m left)", id="of minutes"),
        pytest.param(601, "10:10Z (15m left)", id="of five minutes"),
        pytest.param(7200, "12:00Z (2h left)", id="of hours"),
        pytest.param(86_400, "2026-09-02 10:00Z (1d left)", id="another day"),
    ],
)
def test_a_deadline_is_told_with_the_time_left_rounded_up(left: int, said: str) -> None:
    now = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
    assert due(now + timedelta(seconds=left), now) == said
