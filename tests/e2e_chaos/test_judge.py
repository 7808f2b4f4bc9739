"""The judge of a chaos run, on looks made by hand."""

from typing import Any

import pytest

from e2e.chaos.judge import Ledger, Look, Verdict, judged
from e2e.chaos.schedule import Fate, Gang

Json = dict[str, Any]
NODES = ("n0", "n1")


def gang(fate: Fate = "runs") -> Gang:
    return Gang("g000", 0.0, "job", 2, 8, "any", fate)


def workload(state: str = "Admitted", since: str = "12:00:00", reason: str = "Succeeded") -> Json:
    owner = {"kind": "Job", "name": "g000"}
    states = [{"type": state, "status": "True", "reason": reason, "message": "", "lastTransitionTime": since}]
    return {"metadata": {"name": "w", "uid": "w", "ownerReferences": [owner]}, "status": {"conditions": states if state else []}}


def pod(name: str, node: str = "n0", phase: str = "Running", **meta: str) -> Json:
    metadata = {"name": name, "uid": name, "labels": {"chaos.corral.dev/gang": "g000"}, **meta}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


def node(name: str, gpus: str = "8", ready: str = "True", booking: str = "b") -> Json:
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"nvidia.com/gpu": gpus}}
    return {"metadata": {"name": name, "labels": {"corral.dev/request": booking}}, "status": status}


def look(at: float, *pods: Json, workloads: tuple[Json, ...] = (), phase: str = "Provisioned", **node_is: str) -> Look:
    booking = {"metadata": {"name": "b"}, "spec": {"workload": {"uid": "w"}}, "status": {"phase": phase}}
    nodes = [node("n0"), node("n1", **node_is)]
    return Look(at, workloads, pods, [booking], nodes)


RUNS = (look(1, workloads=(workload(""),)), look(10, pod("p0"), pod("p1"), workloads=(workload(),)))
DONE = look(20, pod("p0", phase="Succeeded"), pod("p1", phase="Succeeded"), workloads=(workload("Finished"),))


def verdict(
    *looks: Look, fate: Fate = "runs", ended: float | None = None, restored: tuple[float, float] | None = None
) -> Verdict:
    ledger = Ledger([gang(fate)])
    life = ledger.lives["g000"]
    life.submitted, life.ended = 0.0, ended
    ledger.restored = [restored] if restored else []
    for each in looks:
        ledger.see(each)
    return judged(ledger)


def test_a_gang_that_is_admitted_once_runs_whole_and_finishes_is_right() -> None:
    assert verdict(*RUNS, DONE) == Verdict(gangs=1, able=1, admitted_once=1, harmed=0, excused=0, wrong=())


def test_pods_that_go_after_the_end_of_their_gang_are_not_harmed() -> None:
    assert verdict(*RUNS, DONE, look(30)).harmed == 0


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        pytest.param((*RUNS, look(15, pod("p0"), workloads=(workload(),))), "pod p1 lost at 15 s: is gone", id="pod gone"),
        pytest.param(
            (*RUNS, look(15, pod("p0"), pod("p1", deletionTimestamp="t"), workloads=(workload(),))),
            "pod p1 lost at 15 s: phase Running, deleted t",
            id="pod asked to go",
        ),
        pytest.param(
            (*RUNS, look(15, pod("p0"), pod("p1", phase="Failed"), workloads=(workload("Finished", reason="Failed"),))),
            "pod p1 lost at 15 s: phase Failed",
            id="pod failed",
        ),
    ],
)
def test_a_pod_that_is_lost_under_its_gang_is_harmed(looks: tuple[Look, ...], said: str) -> None:
    found = verdict(*looks)
    assert found.harmed == 1
    assert found.admitted_once == 0
    assert any(said in each for each in found.wrong), found.wrong


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        pytest.param(RUNS, "not completed", id="never finished"),
        pytest.param(
            (*RUNS, look(12, pod("p0"), pod("p1"), workloads=(workload(since="12:00:09"),)), DONE), "2 times", id="twice"
        ),
        pytest.param((look(9, workloads=(workload(),), gpus="7"), *RUNS, DONE), "1 of 2 nodes sound", id="a device is missing"),
        pytest.param((look(9, workloads=(workload(),), ready="False"), *RUNS, DONE), "1 of 2 nodes sound", id="not ready"),
        pytest.param((look(9, workloads=(workload(),), booking="x"), *RUNS, DONE), "1 of 2 nodes sound", id="not booked"),
        pytest.param((look(9, workloads=(workload(),), phase="Joining"), *RUNS, DONE), "0 of 2 nodes sound", id="too early"),
        pytest.param((look(1, pod("p0")), look(70, pod("p0"), pod("p1")), *RUNS, DONE), "over 69 s", id="not together"),
    ],
)
def test_a_gang_that_is_not_served_as_promised_is_wrong(looks: tuple[Look, ...], said: str) -> None:
    found = verdict(*looks)
    assert found.admitted_once == 0
    assert any(said in each for each in found.wrong), found.wrong


def test_one_for_which_no_rack_has_room_must_not_be_admitted() -> None:
    assert verdict(look(1, workloads=(workload(""),)), fate="impossible").wrong == ()
    assert "admitted 1 times" in verdict(*RUNS, fate="impossible").wrong[0]


def test_what_its_user_ends_may_lose_its_pods_afterwards_alone() -> None:
    gone = look(16)
    assert verdict(*RUNS, gone, fate="cancelled", ended=15).harmed == 0
    assert verdict(*RUNS, gone, fate="cancelled", ended=30).harmed == 2


def test_a_restore_takes_back_pods_that_are_younger_than_its_snapshot_alone() -> None:
    gone = look(40)
    assert verdict(*RUNS, gone, restored=(5, 30)).harmed == 0
    assert verdict(*RUNS, gone, restored=(20, 30)).harmed == 2
    assert verdict(*RUNS, gone, restored=(5, 30)).excused == 1


def test_a_gang_that_was_over_before_the_snapshot_is_judged_whole() -> None:
    assert verdict(*RUNS, DONE, restored=(25, 30)).able == 1
