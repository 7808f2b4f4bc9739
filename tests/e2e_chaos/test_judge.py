"""The judge of a chaos run, on looks made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from e2e.chaos.judge import Verdict, judged
from e2e.chaos.lives import Ledger, Look
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


def look(
    at: float, *pods: Json, workloads: tuple[Json, ...] = (), phase: str = "Provisioned", restores: int = 0, **node_is: str
) -> Look:
    booking = {"metadata": {"name": "b"}, "spec": {"workload": {"uid": "w"}}, "status": {"phase": phase}}
    nodes = [node("n0"), node("n1", **node_is)]
    return Look(at, workloads, pods, [booking], nodes, restores)


RUNS = (look(1, workloads=(workload(""),)), look(10, pod("p0"), pod("p1", "n1"), workloads=(workload(),)))
DONE = look(20, pod("p0", phase="Succeeded"), pod("p1", phase="Succeeded"), workloads=(workload("Finished"),))


def seen(*looks: Look, fate: Fate = "runs", ended: float | None = None) -> Ledger:
    ledger = Ledger([gang(fate)])
    life = ledger.lives["g000"]
    life.submitted, life.ended = 0.0, ended
    for each in looks:
        ledger.see(each)
    return ledger


def verdict(*looks: Look, fate: Fate = "runs", ended: float | None = None) -> Verdict:
    return judged(seen(*looks, fate=fate, ended=ended))


def restored(before: tuple[Look, ...], between: tuple[Look, ...], after: tuple[Look, ...], **more: Any) -> Verdict:
    """A snapshot at 20 s, restored at 40 s."""
    ledger = seen(*before, **more)
    then = ledger.copied(20)
    for each in between:
        ledger.see(each)
    ledger.restored(20, then).healed = 50
    for each in after:
        ledger.see(replace(each, restores=1))
    return judged(ledger)


def test_a_gang_that_is_admitted_once_runs_whole_and_finishes_is_right() -> None:
    assert verdict(*RUNS, DONE) == Verdict(gangs=1, able=1, admitted_once=1, harmed=0, wrong=())


def test_pods_that_go_after_the_end_of_their_gang_are_not_harmed() -> None:
    assert verdict(*RUNS, DONE, look(30)).harmed == 0


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        pytest.param((*RUNS, look(15, pod("p0"), workloads=(workload(),))), "pod p1 on n1 lost at 15 s: is gone", id="pod gone"),
        pytest.param(
            (*RUNS, look(15, pod("p0"), pod("p1", deletionTimestamp="t"), workloads=(workload(),))),
            "pod p1 on n1 lost at 15 s: phase Running, deleted t",
            id="pod asked to go",
        ),
        pytest.param(
            (*RUNS, look(15, pod("p0"), pod("p1", phase="Failed"), workloads=(workload("Finished", reason="Failed"),))),
            "pod p1 on n1 lost at 15 s: phase Failed",
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
        pytest.param((look(1, pod("p0")), look(170, pod("p0"), pod("p1")), *RUNS, DONE), "over 169 s", id="not together"),
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


def test_a_pod_that_goes_with_a_machine_that_was_ended_from_outside_is_not_harmed_but_its_gang_must_finish() -> None:
    lost, again = look(15, pod("p0"), workloads=(workload(),)), look(25, pod("p0"), pod("p2", "n9"), workloads=(workload(),))
    for looks, once, words in (((*RUNS, lost, again, DONE), 1, ()), ((*RUNS, lost), 0, ("not completed",))):
        ledger = seen(*looks, fate="machine")
        ledger.killed.add("n1")
        found = judged(ledger)
        assert (found.harmed, found.admitted_once) == (0, once)
        assert all(any(said in each for each in found.wrong) for said in words)
    assert judged(seen(*RUNS, lost, fate="machine")).harmed == 1, "nobody ended its machine"


# --- an older snapshot is restored ----------------------------------------------------------------------------------------

ASKS, BEGINS = RUNS
LATER = (look(60, pod("p8"), pod("p9"), workloads=(workload(since="12:01:00"),)), replace(DONE, at=70))
AGAIN = (LATER[0], look(70, pod("p8", phase="Succeeded"), pod("p9", phase="Succeeded"), workloads=(workload("Finished"),)))


def test_what_is_younger_than_the_snapshot_is_neither_an_admission_nor_harmed_and_the_gang_is_judged_from_there_on() -> None:
    found = restored((ASKS,), (replace(BEGINS, at=30),), AGAIN)
    assert (found.able, found.admitted_once, found.harmed, found.excused) == (1, 1, 0, {})
    assert "not completed" in restored((ASKS,), (replace(BEGINS, at=30),), ()).wrong[0]


def test_a_gang_that_runs_through_a_restore_is_judged_whole() -> None:
    still = look(60, pod("p0"), pod("p1"), workloads=(workload(),))
    assert restored(RUNS, (replace(still, at=30),), (still, replace(DONE, at=70))).admitted_once == 1
    assert restored(RUNS, (replace(still, at=30),), (look(60, pod("p0"), workloads=(workload(),)),)).harmed == 1
    assert restored(RUNS, (replace(still, at=30),), AGAIN).harmed == 2
    assert "2 times" in " ".join(restored(RUNS, (), AGAIN).wrong)


def test_what_was_wrong_before_a_restore_stays_wrong() -> None:
    lost = look(30, pod("p0"), workloads=(workload(),))
    assert restored(RUNS, (lost,), (BEGINS, DONE)).harmed == 1
    assert "1 of 2 nodes sound" in restored((ASKS,), (look(30, workloads=(workload(),), gpus="7"),), AGAIN).wrong[0]


def test_a_gang_that_was_over_though_not_in_the_snapshot_is_excused_of_what_comes_then() -> None:
    found = restored(RUNS, (replace(DONE, at=30),), (look(60, workloads=(workload(),)),))
    assert (found.able, found.harmed, found.wrong) == (0, 0, ())
    assert found.excused["g000"].startswith("it finished at 30 s, which the snapshot of 20 s took back")


def test_an_excuse_holds_over_the_next_restore_as_well() -> None:
    ledger = seen(*RUNS)
    then = ledger.copied(20)
    ledger.see(replace(DONE, at=30))
    ledger.restored(20, then)
    later = ledger.copied(50)
    ledger.see(look(60, workloads=(workload(),), restores=1))
    ledger.restored(50, later)
    assert (judged(ledger).harmed, len(judged(ledger).excused)) == (0, 1)


def test_a_gang_that_was_over_before_the_snapshot_is_judged_whole() -> None:
    assert restored((*RUNS, replace(DONE, at=15)), (), (DONE,)).admitted_once == 1


def test_a_look_that_began_before_the_restore_is_not_taken_for_one_after_it() -> None:
    ledger = seen(ASKS)
    ledger.restored(5, ledger.copied(5))
    ledger.see(replace(BEGINS, at=60))
    assert not ledger.lives["g000"].admissions


def test_what_a_user_did_just_before_a_snapshot_may_not_be_in_it() -> None:
    assert seen(ASKS, ended=18).copied(20)["g000"].ended is None
    assert seen(ASKS, ended=10).copied(20)["g000"].ended == 10
