"""Waits double from 30 s to 15 min a key; configuration errors back off nobody; the pool's status keeps it over a restart."""

from datetime import timedelta

import pytest

from provisioner.buying.backoff import Backoffs, Key
from provisioner.clouds.base import ErrorKind
from tests.provisioner.make import NOW

KEY = Key("p", "od", "h100", "east")


def record(backoffs: Backoffs, after: float = 0, kind: ErrorKind = ErrorKind.CAPACITY, zone: str = "east") -> None:
    backoffs.record("p", "od", "h100", zone, None, kind, "no capacity", NOW + timedelta(seconds=after))


def until(backoffs: Backoffs, after: float) -> float | None:
    entry = backoffs.active(KEY, NOW + timedelta(seconds=after))
    return (entry.until - NOW).total_seconds() if entry else None


def test_the_wait_doubles_with_each_failure_in_a_row() -> None:
    backoffs, at, waits = Backoffs(), 0.0, []
    for _ in range(7):
        record(backoffs, at)
        end = until(backoffs, at)
        assert end is not None
        waits.append(end - at)
        at = end
    assert waits == [30, 60, 120, 240, 480, 900, 900]


def test_installations_that_failed_on_a_reservation_at_the_same_moment_try_again_at_others() -> None:
    """Half as long again at most, so that the bounds of the waits stay; apart by more than a launch takes, soon at the latest."""
    ends: list[list[float]] = []
    for installation in ("a", "b"):
        backoffs, waits, at = Backoffs(installation=installation), [], NOW
        for wait in (30, 60, 120, 240, 480, 900, 900):
            backoffs.record("p", "res", "h100", "east", "cr-1", ErrorKind.RESERVATION_FULL, "full", at)
            entry = backoffs.active(Key("p", "res", "h100", "east", "cr-1"), at)
            assert entry is not None
            waits.append((entry.until - at).total_seconds())
            assert wait <= waits[-1] <= 1.5 * wait
            at = entry.until
        ends.append(waits)
    assert max(abs(one - other) for one, other in zip(ends[0][:2], ends[1][:2], strict=True)) > 5


def test_failures_side_by_side_count_once() -> None:
    backoffs = Backoffs()
    record(backoffs)
    record(backoffs, 1)
    assert until(backoffs, 1) == 30
    record(backoffs, 31)
    assert until(backoffs, 31) == 91


def test_a_quiet_quarter_of_an_hour_ends_the_series() -> None:
    backoffs = Backoffs()
    record(backoffs)
    record(backoffs, 30 + 900)
    assert until(backoffs, 930) == 960


def test_success_clears_the_key_alone() -> None:
    backoffs = Backoffs()
    record(backoffs)
    record(backoffs, zone="west")
    backoffs.clear("p", "od", "h100", "east", None)
    assert until(backoffs, 1) is None
    assert [entry.zone for entry in backoffs.of_pool("p", NOW)] == ["west"]


@pytest.mark.parametrize(
    ("kind", "backs_off"),
    [
        pytest.param(ErrorKind.CAPACITY, True, id="no-capacity"),
        pytest.param(ErrorKind.RESERVATION_FULL, True, id="reservation-full"),
        pytest.param(ErrorKind.QUOTA, True, id="quota"),
        pytest.param(ErrorKind.CONFIG, False, id="somebodys-mistake"),
        pytest.param(ErrorKind.THROTTLED, False, id="throttled"),
        pytest.param(ErrorKind.UNKNOWN, False, id="lost-reply"),
        pytest.param(ErrorKind.NOT_FOUND, False, id="not-found"),
    ],
)
def test_only_a_lack_of_capacity_backs_off(kind: ErrorKind, backs_off: bool) -> None:
    backoffs = Backoffs()
    record(backoffs, kind=kind)
    assert (until(backoffs, 1) is not None) is backs_off


def test_the_pool_status_keeps_it_over_a_restart() -> None:
    first, second = Backoffs(), Backoffs()
    record(first)
    record(first, 31)
    second.load("p", first.of_pool("p", NOW + timedelta(seconds=32)))
    assert until(second, 40) == 91
    record(second, 91)
    assert until(second, 91) == 91 + 120


def test_what_cannot_be_read_back_is_forgotten() -> None:
    first, second = Backoffs(), Backoffs()
    record(first)
    (entry,) = first.of_pool("p", NOW)
    raw = {**entry.to_json(), "until": "soon"}
    second.load("p", [type(entry)(**{**{f: getattr(entry, f) for f in entry.__struct_fields__}, "until": raw["until"]})])
    assert until(second, 1) is None


def test_changes_are_told_with_the_pools_name() -> None:
    told: list[str] = []
    backoffs = Backoffs(told.append)
    record(backoffs)
    backoffs.clear("p", "od", "h100", "east", None)
    backoffs.clear("p", "od", "h100", "east", None)
    assert told == ["p", "p"]


def test_the_next_end_is_the_earliest_of_those_to_come() -> None:
    backoffs = Backoffs()
    assert backoffs.next_end(NOW) is None
    record(backoffs)
    record(backoffs, 5, zone="west")
    assert backoffs.next_end(NOW + timedelta(seconds=31)) == NOW + timedelta(seconds=35)
