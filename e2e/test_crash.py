"""The provisioner is killed at the worst moment: the cloud has answered, and nothing of it is written yet."""

import time

from e2e.scenario import Scenario, is_true, until

CRASHED = 137


def test_a_kill_between_the_clouds_answer_and_the_next_write_buys_nothing_twice(corner: Scenario) -> None:
    provisioner = corner.stack.programs["provisioner"]
    corner.set_up(sources=("on-demand",))
    provisioner.stop()
    provisioner.start(CORRAL_CRASH_AT="buy")
    corner.job("llm", 2)
    assert provisioner.wait(timeout=60) == CRASHED
    bought = {machine["id"] for machine in corner.machines()}
    assert len(bought) == 2, "the cloud has answered before the crash, or this test tests nothing"
    assert not any(instance for booking in corner.bookings() for instance in booking["status"].get("instances", []))

    provisioner.start()
    until(lambda: len(corner.bound("llm")) == 2, what="the gang is bound after the restart")
    assert {machine["id"] for machine in corner.machines()} == bought
    booked = [i["id"] for booking in corner.bookings() for i in booking["status"].get("instances", [])]
    assert sorted(booked) == sorted(bought)
    assert is_true(corner.workload("llm"), "Admitted")
    admissions = corner.kubectl("get", "events", "-n", corner.namespace, "-o", "jsonpath={.items[?(@.reason=='Admitted')].count}")
    assert len(admissions.split()) <= 1
    assert len(corner.bookings()) == 1

    corner.kubectl("delete", "job", "llm", "-n", corner.namespace)
    until(lambda: not corner.alive(), what="all given back")
    time.sleep(2)
    assert {machine["id"] for machine in corner.machines()} == bought
