"""Idle machines come first when another takes the place of one that is lost."""

import pytest

from e2e.scenario import Scenario, is_true, until
from e2e.test_repair import SLOW, TIMES, running, start

pytestmark = pytest.mark.timeout(600)  # on a busy machine the start takes minutes


def test_an_idle_machine_takes_the_place_of_a_warm_one_that_is_lost(corner: Scenario) -> None:
    """Nothing is bought: three machines stay from the gang before, the next takes two of them, one of which is lost."""
    corner.set_up(sources=({"name": "res", "capacityType": "reserved", "reservationIDs": [corner.reservation]},), policy=TIMES)
    corner.job("before", 3, seconds=3)
    until(lambda: is_true(corner.workload("before"), "Finished"), seconds=SLOW, what="the first gang is over")
    until(lambda: all(b["status"]["phase"] == "Released" for b in corner.bookings()), seconds=SLOW, what="given back")
    there = {each["node"] for each in corner.alive()}
    start(corner, 2, rack=False)
    taken = {*running(corner).values()}
    assert len(there) == 3
    assert taken < there
    lost = min(taken)
    corner.stack.cloud.terminate(next(each["id"] for each in corner.alive() if each["node"] == lost))
    until(
        lambda: {*running(corner).values()} == there - {lost}, seconds=2 * SLOW, what="the pod that was lost runs on the idle one"
    )
    assert len(corner.machines()) == 3, "something was bought"
    [came] = [each["name"] for booking in corner.bookings() for each in booking["spec"].get("nodes", []) if each.get("since")]
    assert {came} == there - taken
