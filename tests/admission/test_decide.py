"""The decision of admission, branch by branch. Rows named after the in-tree suite of Kueue v0.17.0 keep its meaning."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from admission.decide import LOOK_AGAIN, NOT_NEEDED, NOTHING, WITHOUT_THE_CHECK, decide
from admission.model import MESSAGE_LIMIT, Change, Condition, Decision, Entry, Request, RetryRule, State, View

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
RULE = RetryRule(limit=2, backoff=60, longest=90)


def request(
    name: str = "r1",
    fingerprint: str = "now",
    *,
    age: float = 10,
    booking: str = "",
    uncounted: bool = False,
    **conditions: Condition,
) -> Request:
    return Request(
        name=name,
        uid=f"uid-{name}",
        fingerprint=fingerprint,
        created=NOW - timedelta(seconds=age),
        pod_sets=("main",),
        conditions=conditions,
        booking=booking,
        uncounted=uncounted,
    )


def view(*requests: Request, state: str = "Pending", message: str = "", retries: int = 0, **changes: object) -> View:
    base = View(Entry(state, message, retries), "now", RULE, pod_sets=("main",), requests=requests)
    return replace(base, **changes)  # type: ignore[arg-type]


def true(reason: str = "R", message: str = "why") -> Condition:
    return Condition(True, reason, message)


def false(reason: str, message: str) -> Condition:
    return Condition(False, reason, message)


OLD = request("old", "before")
PROVISIONED = request(Accepted=true(), Provisioned=true("Provisioned", "4 nodes in rack r1"), booking="w-0123456789")
READY = Change(
    State.READY,
    "4 nodes in rack r1",
    pod_set_updates=(
        {
            "name": "main",
            "nodeSelector": {"w-0123456789.booking.corral.dev/main": "true"},
            "tolerations": [{"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}],
        },
    ),
)
FAILED = request(Failed=true("GangIncomplete", "3 of 4 nodes"))
REVOKED = request(Provisioned=true(), CapacityRevoked=true("Reclaimed", "block ended"), booking="b")
EXPIRED = request(Provisioned=true(), BookingExpired=true("Unused", "no pod in 15m"), booking="b")
DONE = view(PROVISIONED, state="Ready")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(view(reserved=False), NOTHING, id="no quota: nothing is asked for"),
        pytest.param(view(active=False), NOTHING, id="deactivated: Kueue's turn"),
        pytest.param(view(), Decision(create=True), id="quota: the request is made"),
        pytest.param(view(retries=1), Decision(create=True), id="after an eviction: the next request is made"),
        pytest.param(view(OLD), Decision(delete=(OLD,), create=True), id="superseded request goes"),
        pytest.param(
            view(replace(request(), deleting=True)), Decision(create=True), id="request on its way out is as good as gone"
        ),
        pytest.param(
            view(finished=True, requests=(PROVISIONED,)), Decision(delete=(PROVISIONED,)), id="finished: capacity goes back"
        ),
        pytest.param(
            view(REVOKED, finished=True, state="Ready"), Decision(delete=(REVOKED,)), id="finished: revocation is ignored"
        ),
        pytest.param(view(PROVISIONED, evicted=True), Decision(delete=(PROVISIONED,)), id="evicted: capacity goes back"),
        pytest.param(view(PROVISIONED, reserved=False), Decision(delete=(PROVISIONED,)), id="quota lost: capacity goes back"),
        pytest.param(
            view(pod_sets=()), Decision(change=NOT_NEEDED), id="no pods on the check's flavors, or all counts zero: Ready"
        ),
        pytest.param(view(pod_sets=(), state="Ready"), NOTHING, id="not needed and said so"),
    ],
)
def test_beginning_and_end(case: View, expected: Decision) -> None:
    assert decide(case, NOW) == expected


@pytest.mark.parametrize("state", ["Ready", "Retry", "Rejected"])
@pytest.mark.parametrize("lost", [{"evicted": True}, {"reserved": False}, {"evicted": True, "reserved": False}])
def test_state_left_over_without_quota_heals_to_pending(state: str, lost: dict[str, object]) -> None:
    change = decide(view(state=state, **lost), NOW).change
    assert change == Change(State.PENDING, "Waiting for quota", retries=1 if state == "Retry" else None)


def test_during_the_backoff_the_entry_says_why_and_until_when() -> None:
    """And the attempt is counted, which Kueue does only when it evicts by itself."""
    case = view(state="Retry", message="Attempt 2 of 3 failed: x", retries=1, evicted=True, requeue_at="2026-09-01T12:02:00Z")
    words = "Attempt 2 of 3 failed: x; next try at 2026-09-01T12:02:00Z, no quota is held until then"
    assert decide(case, NOW).change == Change(State.PENDING, words, retries=2)
    long = decide(replace(case, entry=replace(case.entry, message="x" * MESSAGE_LIMIT)), NOW).change
    assert long is not None
    assert long.message.endswith("x…; next try at 2026-09-01T12:02:00Z, no quota is held until then")
    assert len(long.message) == MESSAGE_LIMIT


def test_what_kueue_has_counted_is_not_counted_again() -> None:
    change = decide(view(state="Pending", retries=2, evicted=True, requeue_at="2026-09-01T12:02:00Z"), NOW).change
    assert change is None


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_kueue_carries_out_retry_and_rejected_undisturbed(state: str) -> None:
    assert decide(view(FAILED, OLD, state=state), NOW) == NOTHING


@pytest.mark.parametrize(
    ("age", "message", "look_again"),
    [
        pytest.param(0, None, 3, id="just made"),
        pytest.param(2, None, 1, id="about to be answered"),
        pytest.param(3, "ProvisioningRequest r1 waits to be accepted", 297, id="not answered at once"),
    ],
)
def test_a_request_that_is_answered_at_once_costs_no_write(age: float, message: str | None, look_again: float) -> None:
    """With the entry that says Ready there are n + 2 writes for n pod sets, and no more."""
    decision = decide(view(request(age=age)), NOW)
    assert decision == Decision(change=Change(State.PENDING, message) if message else None, look_again=look_again)


@pytest.mark.parametrize(
    ("conditions", "age", "message", "look_again"),
    [
        pytest.param({}, 10, "ProvisioningRequest r1 waits to be accepted", 290, id="not answered yet"),
        pytest.param(
            {"Accepted": false("MissingPodTemplates", 'no PodTemplate "t"')},
            900,
            'MissingPodTemplates: no PodTemplate "t"',
            None,
            id="not accepted, and why",
        ),
        pytest.param({"Accepted": true()}, 900, "Capacity is being planned", None, id="accepted"),
        pytest.param(
            {"Accepted": true(), "Provisioned": false("TopologyUnsatisfied", "needs 4 nodes in one rack")},
            10,
            "TopologyUnsatisfied: needs 4 nodes in one rack",
            None,
            id="the kind of waiting",
        ),
        pytest.param(
            {"Accepted": true(), "Provisioned": false("GangIncomplete", "GangIncomplete: 3 of 4")},
            10,
            "GangIncomplete: 3 of 4",
            None,
            id="reason isn't said twice",
        ),
        pytest.param({"Accepted": true(), "Provisioned": false("Waiting", "")}, 10, "Waiting", None, id="no message: the reason"),
        pytest.param(
            {"Accepted": true(), "Provisioned": true()},
            10,
            "ProvisioningRequest r1 is Provisioned but its class details name no Booking: upgrade the provisioner",
            None,
            id="Provisioned without a booking never admits",
        ),
        pytest.param({"Accepted": true(), "Invented": true()}, 10, "Capacity is being planned", None, id="unknown condition"),
    ],
)
def test_pending_says_why(conditions: dict[str, Condition], age: float, message: str, look_again: float | None) -> None:
    made = request(age=age, **conditions)
    expected = Decision(change=Change(State.PENDING, message), look_again=look_again)
    assert decide(view(made), NOW) == expected
    assert decide(view(made, message=message), NOW) == replace(expected, change=None)


@pytest.mark.parametrize(
    ("retries", "wait", "left"),
    [
        pytest.param(0, 60, 0, id="first"),
        pytest.param(1, 90, 0, id="second"),
        pytest.param(2, 90, 1, id="last: it is not the end"),
    ],
)
def test_without_an_answer_the_quota_goes_back(retries: int, wait: int, left: int) -> None:
    """`left` is what Kueue adds one to when it evicts: however often nobody answers, one attempt is lost."""
    words = "The provisioner doesn't answer ProvisioningRequest r1: is corral-provisioner running?"
    expected = Change(State.RETRY, words, requeue_after=wait, retries=left)
    assert decide(view(request(age=300), retries=retries), NOW) == Decision(change=expected)


HOPELESS = request(Failed=true("TopologyUnsatisfied", "5 in a rack of 4"), uncounted=True)


@pytest.mark.parametrize(
    ("retries", "wait", "left"),
    [
        pytest.param(0, 60, 0, id="first"),
        pytest.param(1, 90, 0, id="second: the longest wait, for each try may preempt others"),
        pytest.param(2, 90, 1, id="last: it is not the end"),
    ],
)
def test_what_time_alone_may_mend_uses_up_no_retries(retries: int, wait: int, left: int) -> None:
    words = "TopologyUnsatisfied: 5 in a rack of 4: it is tried again for as long as it takes"
    expected = Change(State.RETRY, words, requeue_after=wait, retries=left)
    assert decide(view(HOPELESS, retries=retries), NOW) == Decision(change=expected)


def test_a_policy_without_retries_has_none_for_hopeless_gangs_either() -> None:
    """Each try may preempt others: this is how to have none."""
    change = decide(view(HOPELESS, retry=RetryRule(0, 60, 60)), NOW).change
    assert change is not None
    assert change == Change(State.REJECTED, "Gave up after 1 attempt: TopologyUnsatisfied: 5 in a rack of 4")


@pytest.mark.parametrize(
    ("case", "change"),
    [
        pytest.param(view(PROVISIONED), READY, id="provisioned"),
        pytest.param(view(PROVISIONED, state="Ready", message="x"), None, id="Ready is not written twice"),
        pytest.param(
            view(FAILED), Change(State.RETRY, "Attempt 1 of 3 failed: GangIncomplete: 3 of 4 nodes", 60), id="first failure"
        ),
        pytest.param(
            view(FAILED, retries=1),
            Change(State.RETRY, "Attempt 2 of 3 failed: GangIncomplete: 3 of 4 nodes", 90, retries=1),
            id="second: ceiling",
        ),
        pytest.param(
            view(FAILED, retries=2),
            Change(State.REJECTED, "Gave up after 3 attempts: GangIncomplete: 3 of 4 nodes"),
            id="limit reached",
        ),
        pytest.param(
            view(FAILED, retry=RetryRule(0, 60, 60)),
            Change(State.REJECTED, "Gave up after 1 attempt: GangIncomplete: 3 of 4 nodes"),
            id="limit 0: no retry",
        ),
        pytest.param(
            view(FAILED, state="Ready"),
            Change(State.RETRY, "Attempt 1 of 3 failed: GangIncomplete: 3 of 4 nodes", 60),
            id="Ready falls back",
        ),
        pytest.param(
            view(request(Failed=true("InvalidArgument", "parameter x is unknown"))),
            Change(State.REJECTED, "InvalidArgument: parameter x is unknown"),
            id="user's mistake: parameter",
        ),
        pytest.param(
            view(request(Failed=true("Undecidable", "uses a PVC"))),
            Change(State.REJECTED, "Undecidable: uses a PVC"),
            id="undecidable",
        ),
        pytest.param(
            view(request(Failed=true("MissingPodTemplates", "gone"))),
            Change(State.RETRY, "Attempt 1 of 3 failed: MissingPodTemplates: gone", 60),
            id="templates taken away",
        ),
        pytest.param(view(REVOKED), Change(State.REJECTED, "Reclaimed: block ended"), id="revoked before admission"),
        pytest.param(
            view(EXPIRED),
            Change(State.RETRY, "Attempt 1 of 3 failed: Booking expired: Unused: no pod in 15m", 60),
            id="booking expired",
        ),
        pytest.param(
            view(EXPIRED, retries=2),
            Change(State.REJECTED, "Gave up after 3 attempts: Booking expired: Unused: no pod in 15m"),
            id="booking expired, limit reached",
        ),
        pytest.param(
            view(request(Failed=true("F", "f"), CapacityRevoked=true(), BookingExpired=true(), Provisioned=true(), booking="b")),
            Change(State.RETRY, "Attempt 1 of 3 failed: F: f", 60),
            id="Failed comes first",
        ),
        pytest.param(
            view(request(CapacityRevoked=true("C", "c"), BookingExpired=true(), Provisioned=true(), booking="b")),
            Change(State.REJECTED, "C: c"),
            id="then CapacityRevoked",
        ),
        pytest.param(
            view(request(Failed=false("Fine", "not failed"), Provisioned=true("P", "p"), booking="b")),
            replace(
                READY,
                message="p",
                pod_set_updates=({**READY.pod_set_updates[0], "nodeSelector": {"b.booking.corral.dev/main": "true"}},),
            ),
            id="Failed=False is no failure",
        ),
    ],
)
def test_outcome_of_an_attempt(case: View, change: Change | None) -> None:
    assert decide(case, NOW) == Decision(change=change)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(DONE, NOTHING, id="Ready and running"),
        pytest.param(view(state="Ready"), NOTHING, id="request deleted"),
        pytest.param(view(OLD, state="Ready"), NOTHING, id="older requests stay too"),
        pytest.param(view(FAILED, state="Ready"), NOTHING, id="Failed"),
        pytest.param(view(EXPIRED, state="Ready"), NOTHING, id="BookingExpired"),
        pytest.param(
            view(request(Accepted=true(), Provisioned=false("x", "y")), state="Ready"), NOTHING, id="Provisioned turned False"
        ),
        pytest.param(view(state="Ready", obstacle="policy gone"), NOTHING, id="policy deleted"),
        pytest.param(view(), Decision(change=WITHOUT_THE_CHECK), id="check added to a running workload"),
        pytest.param(view(OLD), Decision(change=WITHOUT_THE_CHECK), id="check added, and the one before has its request"),
        pytest.param(view(PROVISIONED, state="Pending"), Decision(change=READY), id="Kueue wrote an older copy over Ready"),
        pytest.param(
            view(REVOKED, state="Ready"), Decision(change=Change(State.REJECTED, "Reclaimed: block ended")), id="revoked"
        ),
        pytest.param(view(REVOKED, state="Rejected"), NOTHING, id="revoked and said so"),
        pytest.param(view(REVOKED, state="Ready", active=False), NOTHING, id="revoked but deactivated"),
        pytest.param(
            view(PROVISIONED, state="Ready", evicted=True),
            Decision(change=Change(State.PENDING, "Waiting for quota"), delete=(PROVISIONED,)),
            id="evicted",
        ),
    ],
)
def test_admitted_workload_is_latched(case: View, expected: Decision) -> None:
    assert decide(replace(case, admitted=True), NOW) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(
            view(obstacle="policy missing"),
            Decision(change=Change(State.PENDING, "policy missing"), look_again=LOOK_AGAIN),
            id="obstacle is named",
        ),
        pytest.param(view(obstacle="policy missing", message="policy missing"), Decision(look_again=LOOK_AGAIN), id="once"),
        pytest.param(
            view(OLD, obstacle="policy missing", state="Ready"),
            Decision(change=Change(State.PENDING, "policy missing"), delete=(OLD,), look_again=LOOK_AGAIN),
            id="Ready of another reservation doesn't stay",
        ),
        pytest.param(
            view(mistake="selector contradicts"), Decision(change=Change(State.REJECTED, "selector contradicts")), id="mistake"
        ),
        pytest.param(
            view(PROVISIONED, obstacle="policy missing"), Decision(change=READY), id="running attempt goes on without policy"
        ),
        pytest.param(view(PROVISIONED, mistake="late"), Decision(change=READY), id="running attempt goes on under new rules"),
        pytest.param(view(PROVISIONED, pod_sets=()), Decision(change=READY), id="running attempt steers what it was made for"),
    ],
)
def test_obstacles(case: View, expected: Decision) -> None:
    assert decide(case, NOW) == expected


def test_ready_of_another_reservation_is_taken_back_before_the_new_request() -> None:
    decision = decide(view(OLD, state="Ready"), NOW)
    assert decision.change is not None
    assert (decision.change.state, decision.delete, decision.create) == (State.PENDING, (OLD,), True)


def test_of_two_requests_for_one_attempt_the_older_stays() -> None:
    young, old = request("a", age=1, Accepted=true()), request("b", age=5, Accepted=true())
    assert decide(view(young, old, message="Capacity is being planned"), NOW) == Decision(delete=(young,))


def test_every_member_of_the_request_is_steered() -> None:
    made = replace(PROVISIONED, pod_sets=("driver", "workers"))
    change = decide(view(made), NOW).change
    assert change is not None
    assert [each["name"] for each in change.pod_set_updates] == ["driver", "workers"]


def test_messages_are_bounded() -> None:
    change = decide(view(request(Failed=true("Failed", "x" * 40_000))), NOW).change
    assert change is not None
    assert len(change.message) == MESSAGE_LIMIT


def test_waits_double_up_to_the_ceiling() -> None:
    rule = RetryRule(limit=100, backoff=120, longest=1800)
    assert [rule.wait(n) for n in (1, 2, 3, 4, 5, 100)] == [120, 240, 480, 960, 1800, 1800]
    assert RetryRule(limit=1, backoff=0, longest=0).wait(1) == 1, "without a wait Kueue evicts and reserves in a hot loop"
