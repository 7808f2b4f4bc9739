"""Two replicas of each service: one leads, the other stands by with warm stores and takes over, killed, frozen or in order."""

import json
import signal
import statistics
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from e2e.scenario import Scenario, is_true, until
from e2e.stack import Program, Stack

SERVICES = ("admission", "provisioner")
CRASH, ROLLING = 20.0, 2.0
"""Seconds that a hand-over may take; `pytest -rP` shows what each took."""


class Pair:
    """Both replicas of a service."""

    def __init__(self, stack: Stack, service: str) -> None:
        self._stack = stack
        self._both = (stack.programs[service], stack.second(service))

    def leader(self) -> Program:
        [leader] = until(lambda: [each for each in self._both if self._stack.leads(each)], what="one leads")
        return leader

    def follower(self) -> Program:
        leader = self.leader()
        return next(each for each in self._both if each is not leader)

    def taken_over_after(self, began: float, by: Program) -> float:
        """Seconds from `began`, an epoch time, until that replica led, by its own log: this test may look late."""
        until(lambda: self._stack.leads(by), seconds=60, what="the follower leads")
        lines = [json.loads(line) for line in by.log.read_text().splitlines() if '"leading"' in line]
        return datetime.fromisoformat(lines[-1]["ts"]).timestamp() - began


@pytest.fixture
def pairs(corner: Scenario) -> Iterator[dict[str, Pair]]:
    """Afterwards each service is one process again, as other tests expect it."""
    stack = corner.stack
    made = {service: Pair(stack, service) for service in SERVICES}
    yield made
    for service in SERVICES:
        stack.programs[f"{service}-2"].stop()
        if not stack.programs[service].alive:
            stack.programs[service].start()


def test_a_killed_leader_is_succeeded_within_twenty_seconds(corner: Scenario, pairs: dict[str, Pair]) -> None:
    corner.set_up(sources=("on-demand",))
    corner.job("before", 1)
    until(lambda: len(corner.bound("before")) == 1, what="bound before")
    for service, pair in pairs.items():
        leader, follower = pair.leader(), pair.follower()
        began = time.time()
        leader.stop(signal.SIGKILL)
        took = pair.taken_over_after(began, follower)
        print(f"{service} killed: {took:.1f} s")
        assert took < CRASH
        leader.start()
    corner.job("after", 1)
    until(lambda: len(corner.bound("after")) == 1, what="bound by those that took over")
    assert len(corner.machines()) == 2
    assert is_true(corner.workload("before"), "Admitted")


def test_a_leader_frozen_past_its_lease_wakes_to_its_end_and_makes_no_call(corner: Scenario, pairs: dict[str, Pair]) -> None:
    """It is stopped in the middle of a purchase; who takes over finishes that with the same token."""
    corner.set_up(sources=("on-demand",))
    leader, follower = pairs["provisioner"].leader(), pairs["provisioner"].follower()
    corner.job("llm", 2)
    until(corner.bookings, what="a booking is written")
    began = time.time()
    leader.signal(signal.SIGSTOP)
    took = pairs["provisioner"].taken_over_after(began, follower)
    print(f"provisioner frozen: {took:.1f} s")
    assert took < CRASH
    until(lambda: len(corner.bound("llm")) == 2, what="bound by the one that took over")
    last = corner.stack.cloud.calls("launch")[-1]["number"]  # a count would fall: the cloud keeps the last calls only
    leader.signal(signal.SIGCONT)
    assert leader.wait(timeout=10) != 0
    time.sleep(2)
    assert corner.stack.cloud.calls("launch")[-1]["number"] == last
    assert len(corner.machines()) == 2
    assert pairs["provisioner"].leader() is follower
    leader.start()


def test_a_rolling_update_hands_over_within_two_seconds(corner: Scenario, pairs: dict[str, Pair]) -> None:
    for service, pair in pairs.items():
        times = []
        for _ in range(3):
            leader, follower = pair.leader(), pair.follower()
            began = time.time()
            leader.signal(signal.SIGTERM)
            times.append(pair.taken_over_after(began, follower))
            assert leader.wait(timeout=30) == 0
            leader.start()
        print(f"{service} stopped in order:", ", ".join(f"{each:.2f} s" for each in times))
        assert statistics.median(times) < ROLLING
