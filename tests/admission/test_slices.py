"""Slices of elastic jobs. Their shapes are those that the real Kueue 0.17.0 makes (e2e/test_elastic.py)."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from admission.decide import NOT_NEEDED, NOTHING, decide
from admission.gang import members
from admission.model import Change, Decision, RetryRule, State, View
from admission.slices import added, running, spared
from kube.kueue import Workload
from kube.meta import decode
from tests.admission.objects import assignment, condition, flavor, pod_set, workload
from tests.admission.test_decide import FAILED, NOW, PROVISIONED, READY, request, true, view

Json = dict[str, Any]
REPLACED = {**condition("Finished"), "reason": "WorkloadSliceReplaced"}
OTHER_END = {**condition("Finished"), "reason": "OutOfSync"}
HELD, ADMITTED = condition("QuotaReserved"), condition("Admitted")


def slice_(name: str, pods: int, *conditions: Json, replaces: str = "", job: str = "j", annotated: bool = True) -> Workload:
    notes = {"kueue.x-k8s.io/elastic-job": "true"} if annotated else {}
    notes |= {"kueue.x-k8s.io/workload-slice-replacement-for": f"team/{replaces}"} if replaces else {}
    made = workload(pod_set(count=pods), name=name, conditions=list(conditions), annotations=notes)
    raw = made.to_json()
    raw["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": job, "controller": True}]
    return decode(raw, Workload)


FIRST = slice_("a", 4, HELD, ADMITTED, REPLACED)
SECOND = slice_("b", 6, HELD, replaces="a")


@pytest.mark.parametrize(
    ("older", "newest", "expected"),
    [
        pytest.param([FIRST], SECOND, {"main": 4}, id="the replaced slice's pods run"),
        pytest.param([], SECOND, {}, id="the older slice is gone"),
        pytest.param([], slice_("b", 6, HELD), {}, id="no older slice"),
        pytest.param([FIRST], slice_("b", 6, HELD, replaces="a", annotated=False), {}, id="not an elastic job"),
        pytest.param([slice_("a", 4, HELD, ADMITTED, OTHER_END)], SECOND, {}, id="ended for another reason"),
        pytest.param([slice_("a", 4, HELD, ADMITTED)], SECOND, {}, id="not replaced yet"),
        pytest.param([slice_("a", 4, HELD, ADMITTED, REPLACED, job="k")], SECOND, {}, id="of another job"),
        pytest.param([slice_("a", 4, HELD, ADMITTED, REPLACED, condition("Evicted"))], SECOND, {}, id="evicted before"),
        pytest.param(
            [FIRST], slice_("b", 6, HELD, condition("Evicted", "False"), replaces="a"), {}, id="evicted since, has quota again"
        ),
        pytest.param(
            [FIRST, slice_("b", 6, HELD, REPLACED, replaces="a")],
            slice_("c", 8, HELD, replaces="b"),
            {"main": 4},
            id="one between that never was admitted",
        ),
        pytest.param(
            [FIRST, slice_("b", 6, HELD, ADMITTED, REPLACED, replaces="a")],
            slice_("c", 8, HELD, replaces="b"),
            {"main": 6},
            id="grown twice",
        ),
    ],
)
def test_pods_that_run(older: list[Workload], newest: Workload, expected: dict[str, int]) -> None:
    known = {(each.metadata.namespace, each.metadata.name): each for each in older}
    assert running(newest, known.get) == expected


def test_slices_in_a_circle_are_walked_once() -> None:
    around = {
        ("team", "a"): slice_("a", 4, HELD, REPLACED, replaces="b"),
        ("team", "b"): slice_("b", 6, HELD, REPLACED, replaces="a"),
    }
    asked: list[tuple[str, str]] = []

    def find(key: tuple[str, str]) -> Workload | None:
        asked.append(key)
        assert len(asked) < 9, "goes round for ever"
        return around.get(key)

    assert running(slice_("c", 8, HELD, replaces="b"), find) == {}
    assert asked == [("team", "b"), ("team", "a")]


@pytest.mark.parametrize(
    ("wanted", "reserved", "runs", "expected"),
    [
        pytest.param(6, 6, 4, [2], id="the difference"),
        pytest.param(6, 6, 0, [6], id="all where none run"),
        pytest.param(5, 6, 4, [1], id="shrunk while it waits: Kueue lowers the wanted count alone"),
        pytest.param(4, 6, 4, [], id="shrunk to what runs"),
        pytest.param(3, 6, 4, [], id="shrunk below what runs"),
    ],
)
def test_pods_to_add(wanted: int, reserved: int, runs: int, expected: list[int]) -> None:
    given = workload(pod_set(count=wanted), assignments=[assignment(count=reserved)])
    gang = members(given, (), (), {"h100": flavor()})
    assert [each.count for each in added(given, gang, {"main": runs})] == expected


WAITS = "The pods that run go on, those to be added wait: "
MINUTE = timedelta(seconds=60)


def test_a_failed_attempt_is_told_and_its_request_kept_until_the_backoff_is_over() -> None:
    seen = view(FAILED, runs=True)
    waiting = spared(seen, decide(seen, NOW), NOW)
    message = f"{WAITS}GangIncomplete: 3 of 4 nodes"
    assert waiting == Decision(change=Change(State.PENDING, message), look_again=50)
    told = view(FAILED, message=message, runs=True)
    assert spared(told, decide(told, NOW), NOW) == Decision(look_again=50)
    assert spared(told, decide(told, NOW + MINUTE), NOW + MINUTE) == Decision(delete=(FAILED,))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(view(request(Failed=true("Undecidable", "why")), runs=True), id="mistake found by the provisioner"),
        pytest.param(view(mistake="why", pod_sets=(), runs=True), id="mistake found here"),
    ],
)
@pytest.mark.parametrize("minutes", [0, 10])
def test_what_no_attempt_can_mend_waits_for_a_change_of_the_job(seen: View, minutes: int) -> None:
    later = NOW + minutes * MINUTE
    decision = spared(seen, decide(seen, later), later)
    assert decision.change is not None
    assert decision.change.state == State.PENDING
    assert re.fullmatch(f"{WAITS}.*why", decision.change.message)
    assert decision.delete == ()


@pytest.mark.parametrize(
    ("held", "wait"),
    [
        pytest.param(0, 60, id="the policy's first wait"),
        pytest.param(59, 60, id="no less"),
        pytest.param(75, 75, id="as long as the quota was held in vain: so it doubles"),
        pytest.param(1000, 90, id="the policy's longest wait"),
    ],
)
def test_waits_between_attempts_grow(held: int, wait: int) -> None:
    """Without a count: one in `retryCount` would use up the attempts of the whole job, should it be stopped."""
    seen = view(FAILED, runs=True, reserved_at=FAILED.created - timedelta(seconds=held))
    assert spared(seen, decide(seen, NOW), NOW).look_again == wait - 10  # it was made 10 s ago


def test_attempts_of_a_growth_have_no_end() -> None:
    """Rejected is for what no attempt can mend: the job would wait for ever with the quota of its new size."""
    seen = view(FAILED, retries=2, retry=RetryRule(0, 60, 60), runs=True)
    assert spared(seen, decide(seen, NOW + MINUTE), NOW + MINUTE).delete == (FAILED,)


@pytest.mark.parametrize("kind", ["CapacityRevoked", "BookingExpired"])
def test_capacity_that_is_lost_before_the_growth_is_admitted_is_asked_for_again(kind: str) -> None:
    """Kueue would admit on a Ready that is left standing."""
    lost = request(Provisioned=true(), booking="b", **{kind: true("R", "why")})
    ready = view(lost, state="Ready", runs=True)
    soon, later = spared(ready, decide(ready, NOW), NOW), spared(ready, decide(ready, NOW + MINUTE), NOW + MINUTE)
    for each in (soon, later):
        assert each.change is not None
        assert each.change.state == State.PENDING
        assert each.change.message.endswith("why")
    assert (soon.delete, later.delete) == ((), (lost,))


def test_what_stops_nothing_is_left_as_it_is() -> None:
    seen = view(PROVISIONED, runs=True)
    assert spared(seen, decide(seen, NOW), NOW) == Decision(change=READY)
    assert spared(seen, NOTHING, NOW) == NOTHING


def test_a_job_that_shrank_to_what_runs_needs_nothing_any_more() -> None:
    unanswered = request(Accepted=true())
    seen = view(unanswered, pod_sets=(), runs=True)
    assert decide(seen, NOW) == Decision(change=NOT_NEEDED, delete=(unanswered,))
    assert decide(replace(seen, obstacle="policy gone"), NOW).delete == ()
