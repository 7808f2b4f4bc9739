"""Plays that broke something once, each shrunk to its fewest faults: they must end well for ever.

Which number a call has moves with the product, so some are struck at all numbers around.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.faults.kinds import Fault
from tests.faults.stage import play


def around(scene: str, call: str, numbers: Iterable[int], kind: str, words: str) -> list[Any]:
    """The same fault at each of these calls."""
    return [pytest.param(scene, [(call, nth, kind)], id=f"{words} ({nth})") for nth in numbers]


SCRIPTS = (
    *around(
        "on-demand", "api apply provisioningrequests/status", range(1, 4), "runs-on", "a late first answer takes Provisioned back"
    ),
    pytest.param(
        "never-joins",
        [("cloud launch", 1, "crash-after"), ("api watch bookings", 2, "bare")],
        id="a list without the booking has its request bought for twice",
    ),
    pytest.param(
        "late",
        [("cloud launch", 1, "crash-after"), ("api watch bookings", 2, "bare")],
        id="only a live look keeps the reaper from a machine whose booking the store lacks",
    ),
    *around(
        "paused", "api get bookings", range(28, 38), "404", "a 404 of a server that does not serve bookings has one forgotten"
    ),
    pytest.param(
        "paged",
        [("api list capacitypools", 1, "empty")],
        id="a first page without the pools is believed for a minute, not for ever",
    ),
    pytest.param(
        "notice",
        [("api create pods/eviction", 1, "runs-on")],
        id="an eviction that is done late meets another pod of the same name, whose UID is another",
    ),
    pytest.param(
        "rivals",
        [("api patch bookings", 1, "lost-reply")],
        id="a plan whose mending got no answer is unknown for a moment, and two bookings mark one node",
    ),
)


@pytest.mark.parametrize(("scene", "faults"), SCRIPTS)
def test_a_script_that_broke_something_ends_well(scene: str, faults: list[tuple[str, int, str]]) -> None:
    outcome = play(scene, [Fault(*each) for each in faults])
    assert not outcome.broken
    assert len(outcome.struck) == len(faults), "a fault no longer comes to pass: the script tests nothing"
