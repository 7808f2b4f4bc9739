"""On-demand money of the UTC day, by hand: 10 dollars an hour, ordered at 10:00, so 14 hours are left."""

from datetime import timedelta

import pytest

from kube import ours
from provisioner.buying.spend import Ledger, committed, cost, status
from tests.provisioner.make import NOW, booking, machine, on_demand, purchase

HOUR = 10_000_000


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(booking("b", on_demand(count=2)), 2 * 14 * HOUR, id="on-order-to-the-end-of-the-day"),
        pytest.param(
            booking("b", on_demand(count=2), phase="Provisioned", instances=(machine(1, launched_at="2026-09-01T12:00:00Z"),)),
            12 * HOUR,
            id="provisioned-from-its-launch",
        ),
        pytest.param(
            booking(
                "b",
                on_demand(count=1),
                phase="Released",
                instances=(machine(1, "Gone", launched_at="2026-09-01T10:00:00Z", since="2026-09-01T11:30:00Z"),),
            ),
            15 * HOUR // 10,
            id="gone-after-ninety-minutes",
        ),
        pytest.param(
            booking("b", on_demand(count=1), phase="Provisioned", instances=(machine(1, launched_at="2026-08-31T20:00:00Z"),)),
            24 * HOUR,
            id="launched-yesterday-costs-the-whole-day",
        ),
        pytest.param(
            booking("b", on_demand(count=1), phase="Joining", instances=(machine(1, "Bad", launched_at="2026-09-01T10:00:00Z"),)),
            2 * 14 * HOUR,
            id="a-bad-one-and-its-replacement",
        ),
        pytest.param(booking("b", purchase(count=2)), 0, id="prepaid-adds-nothing"),
        pytest.param(booking("b", on_demand(count=2), phase="Failed"), 0, id="failed-without-a-machine"),
    ],
)
def test_what_a_booking_commits_today(made: ours.Booking, expected: int) -> None:
    assert committed(made, "p", NOW) == expected


def test_a_cost_is_rounded_up() -> None:
    assert cost(1, NOW, NOW + timedelta(seconds=1)) == 1


def test_a_deleted_booking_is_settled_and_the_day_rolls() -> None:
    ledger = Ledger()
    made = booking("b", on_demand(count=1), phase="Released", instances=(machine(1, "Transferred"),))
    ledger.settle(made, NOW)
    assert ledger.spent("p", [], NOW) == 14 * HOUR
    tomorrow = NOW + timedelta(hours=14)
    assert ledger.spent("p", [], tomorrow) == 0
    ledger.begin_day("p", 24 * HOUR, tomorrow)
    ledger.begin_day("p", 99 * HOUR, tomorrow + timedelta(minutes=1))
    assert ledger.spent("p", [], tomorrow) == 24 * HOUR


def test_a_restart_takes_up_what_the_status_kept() -> None:
    ledger, live = Ledger(), booking("b", on_demand(count=1))
    ledger.load("p", ours.Spend(day="2026-09-01", on_demand="200.00"), [live], NOW)
    assert ledger.spent("p", [live], NOW) == 200_000_000
    assert ledger.spent("p", [], NOW) == 60_000_000


@pytest.mark.parametrize("deleted", ["before", "after"])
def test_a_take_over_counts_once_what_a_follower_saw_deleted(deleted: str) -> None:
    """The old leader's sum holds the booking's 140 dollars, whether it was deleted before the sum was taken up or is after."""
    ledger, stored = Ledger(), ours.Spend(day="2026-09-01", on_demand="300.00")
    live, over = booking("b", on_demand(count=1)), booking("c", on_demand(count=1))
    if deleted == "before":
        ledger.settle(over, NOW)
        ledger.load("p", stored, [live], NOW)
    else:
        ledger.load("p", stored, [live, over], NOW)
        ledger.settle(over, NOW)
    assert ledger.spent("p", [live], NOW) == 300_000_000
    ledger.load("p", stored, [live], NOW)
    assert ledger.spent("p", [live], NOW) == 300_000_000, "a pool that comes back is taken up again"


def test_where_the_status_says_nothing_of_today_what_was_seen_deleted_counts() -> None:
    ledger = Ledger()
    ledger.settle(booking("b", on_demand(count=1)), NOW)
    ledger.load("p", ours.Spend(day="2026-08-31", on_demand="200.00"), [], NOW)
    assert ledger.spent("p", [], NOW) == 14 * HOUR


def test_an_odd_list_without_a_booking_counts_nothing_twice() -> None:
    ledger, made = Ledger(), booking("b", on_demand(count=1))
    for _ in range(2):
        ledger.settle(made, NOW)
        assert ledger.spent("p", [], NOW) == 14 * HOUR
        assert ledger.spent("p", [made], NOW) == 14 * HOUR, "it is there again"


def test_yesterdays_money_is_not_taken_up() -> None:
    ledger = Ledger()
    ledger.load("p", ours.Spend(day="2026-08-31", on_demand="200.00"), [], NOW)
    assert ledger.spent("p", [], NOW) == 0


def test_the_status_names_day_and_dollars() -> None:
    assert status(1_500_000, NOW) == ours.Spend(day="2026-09-01", on_demand="1.50")
