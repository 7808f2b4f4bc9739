"""When Kueue is told to evict before the backoff is over, and to requeue what a user has made active again."""

from typing import Any

import pytest

from admission.model import Change, State
from admission.release import Push, push
from kube.kueue import Workload
from kube.meta import decode
from tests.admission.objects import condition, entry, workload

Json = dict[str, Any]
RETRY = entry(state="Retry", requeueAfterSeconds=60) | {"message": "Attempt 1 of 3 failed: x"}  # since 11:59:00
RESERVED = condition("QuotaReserved")
REJECTED = condition("Requeued", "False") | {"reason": "DeactivatedDueToAdmissionCheck"}
READY = entry("foreign", "Ready")


def waiting(
    *others: Json, own: Json = RETRY, conditions: tuple[Json, ...] = (RESERVED,), at: str = "2026-09-01T12:00:00Z", **more: Any
) -> Workload:
    """Kueue has noted when to try again: our one check, "capacity", wants 12:00:00."""
    spec = {key: more.pop(key) for key in ("active",) if key in more}
    raw = workload(checks=[own, *others], conditions=list(conditions), **spec).to_json()
    status = {**raw["status"], "requeueState": {"requeueAt": at} if at else None, **more.pop("status", {})}
    return decode({**raw, "metadata": raw["metadata"] | more, "status": status}, Workload)


def pushed(given: Workload, own: tuple[str, ...] = ("capacity",)) -> Push | None:
    return push(given, [each for each in given.status.admission_checks if each.name in own])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(waiting(), id="as soon as Kueue has noted it"),
        pytest.param(waiting(at="2026-09-01T12:30:00Z"), id="another check waits longer"),
        pytest.param(waiting(entry("foreign")), id="another's check is undecided"),
        pytest.param(waiting(entry("second", "Ready")), id="another check of ours is Ready"),
    ],
)
def test_quota_goes_back_at_once(given: Workload) -> None:
    found = pushed(given, ("capacity", "second"))
    assert found is not None
    assert (found.condition, found.reason, found.reset) == ("Evicted", "AdmissionCheck", ())
    assert found.message == "Attempt 1 of 3 failed: x; no quota is held until the next try"


def test_no_check_of_ours_is_left_in_a_state_that_would_act_in_the_next_reservation() -> None:
    """Kueue's scheduler passes over a workload with a check in Retry, and looks at it no more when only that changes."""
    given = waiting(entry("second", "Ready"), entry("third"), own=RETRY | {"retryCount": 1})
    found = pushed(given, ("capacity", "second", "third"))
    assert found is not None
    words = "Attempt 1 of 3 failed: x; next try at 2026-09-01T12:00:00Z, no quota is held until then"
    assert found.changes == {
        "capacity": Change(State.PENDING, words, retries=2),
        "second": Change(State.PENDING, "Waiting for quota"),
    }


def test_what_others_said_of_this_reservation_goes_with_it() -> None:
    found = pushed(waiting(READY))
    assert found is not None
    assert [each.name for each in found.reset] == ["foreign"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(waiting(at=""), id="not noted yet"),
        pytest.param(waiting(at="2026-09-01T11:59:59Z"), id="what is noted is of an earlier wait"),
        pytest.param(waiting(own=entry(state="Retry")), id="without a wait Kueue evicts by itself"),
        pytest.param(waiting(own=entry()), id="pending"),
        pytest.param(waiting(own=entry(state="Ready")), id="ready"),
        pytest.param(waiting(own=entry(state="Rejected")), id="rejected"),
        pytest.param(waiting(conditions=(RESERVED, condition("Evicted"))), id="evicted"),
        pytest.param(waiting(conditions=(RESERVED, condition("Admitted"))), id="runs"),
        pytest.param(waiting(conditions=(RESERVED, condition("Finished"))), id="finished"),
        pytest.param(waiting(conditions=(RESERVED, condition("DeactivationTarget"))), id="about to be deactivated"),
        pytest.param(waiting(active=False), id="deactivated by a user"),
        pytest.param(waiting(deletionTimestamp="2026-09-01T12:00:00Z"), id="deleted"),
        pytest.param(waiting(status={"clusterName": "worker"}), id="placed in another cluster: Kueue must take it back there"),
        pytest.param(waiting(status={"nominatedClusterNames": ["worker"]}), id="other clusters look at it: so does that"),
        pytest.param(waiting(entry("foreign", "Retry", requeueAfterSeconds=9)), id="another's Retry: Kueue counts it"),
        pytest.param(waiting(entry("foreign", "Rejected")), id="another's Rejected"),
    ],
)
def test_left_to_kueue(given: Workload) -> None:
    assert pushed(given) is None


def test_a_rejection_of_ours_comes_before_a_retry() -> None:
    assert pushed(waiting(entry("second", "Rejected")), ("capacity", "second")) is None


def test_two_retries_are_told_together_once_both_are_noted() -> None:
    later = entry("second", "Retry", requeueAfterSeconds=90) | {"message": "Attempt 2 of 3 failed: y"}
    assert pushed(waiting(later), ("capacity", "second")) is None
    found = pushed(waiting(later, at="2026-09-01T12:00:30Z"), ("capacity", "second"))
    assert found is not None
    assert found.message.startswith("Attempt 1 of 3 failed: x; Attempt 2 of 3 failed: y; no quota")


def test_active_again_after_rejected() -> None:
    found = pushed(waiting(own=entry(), conditions=(condition("QuotaReserved", "False"), REJECTED), at=""))
    assert found is not None
    assert (found.condition, found.reason, found.reset) == ("Requeued", "Reactivated", ())


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(waiting(own=entry(), conditions=(REJECTED,), active=False), id="not active"),
        pytest.param(waiting(own=entry(), conditions=(REJECTED, RESERVED)), id="has quota again"),
        pytest.param(waiting(own=entry(), conditions=(REJECTED | {"status": "True"},)), id="requeued already"),
        pytest.param(waiting(own=entry(), conditions=(REJECTED | {"reason": "Deactivated"},)), id="a user's own: Kueue does it"),
        pytest.param(waiting(own=entry(), conditions=(REJECTED | {"reason": "AdmissionCheck"},)), id="a backoff"),
        pytest.param(waiting(own=entry(), conditions=(REJECTED, condition("Finished"))), id="finished"),
        pytest.param(waiting(own=entry(), conditions=()), id="never rejected"),
    ],
)
def test_not_reactivated(given: Workload) -> None:
    assert pushed(given) is None


LEFT = RETRY | {"retryCount": 1}
REQUEUED = condition("Requeued")


@pytest.mark.parametrize(
    ("own", "conditions", "retries"),
    [
        pytest.param(LEFT, (condition("QuotaReserved", "False"),), 2, id="Retry"),
        pytest.param(LEFT, (), 2, id="Retry, before any quota that is told of"),
        pytest.param(LEFT, (REQUEUED,), 2, id="Retry, requeued after an earlier attempt"),
        pytest.param(entry(state="Rejected"), (condition("QuotaReserved", "False"),), None, id="Rejected"),
    ],
)
def test_kueue_looks_again_at_what_it_passed_over_while_we_were_away(
    own: Json, conditions: tuple[Json, ...], retries: int | None
) -> None:
    """A queue on hold takes the quota back without an eviction, and leaves the checks as they are."""
    found = pushed(waiting(own=own, conditions=conditions, at=""))
    assert found is not None
    assert (found.condition, found.value, found.reason, found.reset) == ("Requeued", False, "AdmissionCheck", ())
    assert found.changes == {"capacity": Change(State.PENDING, "Waiting for quota", retries=retries)}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            waiting(own=LEFT, conditions=(condition("Requeued", "False"),)), id="a backoff: Kueue looks when it is over"
        ),
        pytest.param(waiting(own=LEFT, conditions=(condition("Finished"),)), id="finished"),
        pytest.param(waiting(own=LEFT, conditions=(), active=False), id="not active"),
        pytest.param(waiting(own=LEFT, conditions=(condition("DeactivationTarget"),)), id="about to be deactivated"),
        pytest.param(waiting(own=entry(state="Ready"), conditions=()), id="Ready is not passed over"),
        pytest.param(waiting(own=entry(), conditions=()), id="Pending"),
    ],
)
def test_kueue_is_not_made_to_look_again(given: Workload) -> None:
    assert pushed(given) is None


def test_a_workload_without_a_check_of_ours_is_none_of_our_business() -> None:
    assert push(waiting(own=entry("foreign"), conditions=(REJECTED,)), ()) is None
