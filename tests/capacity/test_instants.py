from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.instants import clock

SEPTEMBER = int(datetime(2026, 9, 1, 10, 0, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("after", "text"),
    [
        pytest.param(40 * 60 + 59, "10:40Z", id="seconds are cut off"),
        pytest.param(14 * 3600 - 1, "23:59Z", id="last minute of the day"),
        pytest.param(14 * 3600, "2026-09-02 00:00Z", id="next day"),
        pytest.param(-11 * 3600, "2026-08-31 23:00Z", id="day before"),
    ],
)
def test_the_date_is_told_when_it_is_another(after: int, text: str) -> None:
    assert clock(SEPTEMBER + after, SEPTEMBER) == text


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2500, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_dates_are_those_of_the_standard_library(moment: datetime) -> None:
    instant = int(moment.timestamp() // 1)
    assert clock(instant, instant + 10 * 86_400) == datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%MZ")
