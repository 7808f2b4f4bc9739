"""Row W24: a gang that can't be had is told so before anything is bought. Both services and the simulated cloud run."""

import pytest

from e2e.scenario import Scenario, until


@pytest.mark.row("W24")
def test_a_gang_larger_than_all_there_is(corner: Scenario) -> None:
    """Nine machines, where a reservation of four is all there is; it may be queued for a day."""
    corner.set_up(sources=("reserved",), policy={"timeouts": {"queued": "24h"}, "retry": {"limit": 0}})
    corner.job("huge", 9)
    until(lambda: "it would not fit even if all were free" in message(corner), what="it is told while the workload waits")
    assert corner.workload("huge")["spec"]["active"]
    until(lambda: corner.workload("huge")["spec"]["active"] is False, what="and ends long before the day is over")
    assert not corner.machines()


def message(corner: Scenario) -> str:
    entries = corner.workload("huge")["status"].get("admissionChecks") or [{}]
    found: str = entries[0].get("message", "")
    return found
