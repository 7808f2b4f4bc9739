"""Rows 3.9 of admission, eviction and requeueing: Kueue's core, with our check among the checks."""

import time
from datetime import datetime

import pytest

from e2e.cluster import Cluster, eventually, holds, status_of
from e2e.conformance.scene import foreign_check, now, requeue_at, say, states, suspended, two_checks, with_checks
from kube import resources

QUICK = {"limit": 3, "backoff": "3s", "maxBackoff": "3s"}
LONG_AGO = "0001-01-01T00:00:00Z"


def with_other(cluster: Cluster) -> str:
    """A queue with our check and one that the test plays; the name of the latter."""
    cluster.queue(retry=QUICK)
    other = foreign_check(cluster)
    with_checks(cluster, cluster.namespace, other)
    return other


def hold(cluster: Cluster, policy: str) -> None:
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"stopPolicy": policy}})


def executed(cluster: Cluster) -> int:
    return int(status_of(cluster.workload()).get("accumulatedPastExecutionTimeSeconds") or 0)


def not_admitted(cluster: Cluster) -> str:
    """Kueue's reason, "" while it has none."""
    found = cluster.condition("Admitted")
    return str(found["reason"]) if found.get("status") == "False" else ""


@pytest.mark.row("3.9-03", "3.9-04", "3.9-06", "3.9-07", "3.9-57", "3.9-121", "3.9-122", "3.9-96")
def test_a_job_runs_while_all_checks_are_ready(cluster: Cluster) -> None:
    """An admitted job is not stopped by a check that is Pending again, as Kueue 0.17.0 goes; by one in Retry it is."""
    other = with_other(cluster)
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.entry()["state"] == "Ready")
    holds(lambda: suspended(cluster) and not cluster.is_true("Admitted"), 1)
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))

    say(cluster, other, "Pending")
    holds(lambda: cluster.is_true("Admitted") and not suspended(cluster) and cluster.entry()["state"] == "Ready", 1)
    say(cluster, other, "Retry")
    eventually(lambda: not_admitted(cluster) == "NoReservationUnsatisfiedChecks")
    eventually(lambda: suspended(cluster))
    eventually(lambda: "EvictedDueToAdmissionCheck" in cluster.events())


@pytest.mark.row("3.9-01", "3.9-05", "3.9-08", "3.9-09")
def test_quota_that_is_lost_takes_the_request_along(cluster: Cluster) -> None:
    """The queue is drained twice: Kueue adds up how long the workload was admitted, and our writes leave that alone."""
    cluster.queue(quota=0)
    cluster.job()
    eventually(lambda: cluster.condition("QuotaReserved").get("status") == "False")
    assert not cluster.requests()
    with_quota = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["resourceGroups"]
    with_quota[0]["flavors"][0]["resources"][1]["nominalQuota"] = 64
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": with_quota}})
    before = 0
    for _ in range(2):
        hold(cluster, "None")
        cluster.provision(cluster.request())
        eventually(lambda: cluster.is_true("Admitted"))
        time.sleep(1.1)
        hold(cluster, "HoldAndDrain")
        eventually(lambda: not_admitted(cluster).startswith("NoReservation") and not cluster.requests())
        assert cluster.entry()["state"] == "Pending"
        assert executed(cluster) > before
        before = executed(cluster)


@pytest.mark.row("3.9-12", "3.9-13", "3.9-15")
def test_an_entry_has_the_time_of_its_state(cluster: Cluster) -> None:
    other = with_other(cluster)
    cluster.job()
    request = cluster.request()
    made, others = cluster.entry()["lastTransitionTime"], states(cluster)[other]
    assert made
    time.sleep(1.1)
    cluster.answer(request, "Provisioned", status="False", reason="GangIncomplete", message="words")
    eventually(lambda: cluster.entry()["message"] == "GangIncomplete: words")
    assert cluster.entry()["lastTransitionTime"] == made
    cluster.provision(request)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    assert datetime.fromisoformat(cluster.entry()["lastTransitionTime"]) > datetime.fromisoformat(made)
    assert states(cluster)[other] == others


@pytest.mark.row("3.9-17", "3.9-33", "3.9-59")
def test_another_checks_retry_resets_ours(cluster: Cluster) -> None:
    """First without a delay, then with one; its count is left alone, and ours begins with a request of its own each time."""
    other = with_other(cluster)
    cluster.job()
    first = cluster.request()
    cluster.provision(first)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    say(cluster, other, "Retry")
    second = eventually(lambda: next((r for r in cluster.requests() if r["metadata"]["uid"] != first["metadata"]["uid"]), None))
    assert count(cluster, other) == 1
    assert not requeue_at(cluster)
    say(cluster, other, "Retry", requeueAfterSeconds=3)
    eventually(lambda: requeue_at(cluster))
    third = eventually(lambda: next((r for r in cluster.requests() if r["metadata"]["uid"] != second["metadata"]["uid"]), None))
    assert count(cluster, other) == 2
    assert "retryCount" not in cluster.entry()
    cluster.provision(third)
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))
    assert count(cluster, other) == 2


def count(cluster: Cluster, check: str) -> int:
    entries = status_of(cluster.workload())["admissionChecks"]
    return next(int(each.get("retryCount") or 0) for each in entries if each["name"] == check)


@pytest.mark.row("3.9-19", "3.9-34", "3.9-35", "3.9-36")
def test_our_backoff_is_kueues(cluster: Cluster) -> None:
    cluster.queue(retry=QUICK)
    cluster.job()
    failed = now()
    cluster.answer(cluster.request(), "Failed", reason="GangIncomplete", message="words")
    due = eventually(lambda: requeue_at(cluster))
    waited = datetime.fromisoformat(due) - datetime.fromisoformat(failed)
    assert 3 <= waited.total_seconds() <= 5
    eventually(lambda: cluster.condition("Requeued").get("status") == "False")
    holds(lambda: now() >= due or cluster.condition("Requeued")["status"] == "False", 2)
    cluster.provision(cluster.request(attempt=2))
    assert cluster.condition("Requeued")["reason"] == "BackoffFinished"
    assert cluster.condition("Requeued")["lastTransitionTime"] >= due
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.9-20", "3.9-21", "3.9-22", "3.9-37", "3.9-38")
def test_the_largest_delay_of_all_checks_counts(cluster: Cluster) -> None:
    """Three checks in Retry: ours by its policy, one for longer, then a third for no time, which changes nothing any more."""
    other = with_other(cluster)
    third = foreign_check(cluster, "third")
    with_checks(cluster, cluster.namespace, other, third)
    cluster.job()
    request = cluster.request()
    eventually(lambda: third in states(cluster))
    say(cluster, other, "Retry", requeueAfterSeconds=6)
    due = eventually(lambda: requeue_at(cluster))
    cluster.answer(request, "Failed", reason="GangIncomplete", message="words")
    eventually(lambda: cluster.entry()["message"].startswith("Attempt 1 of 4 failed"))
    say(cluster, third, "Retry")
    holds(lambda: requeue_at(cluster) == due, 1)
    reserved = eventually(lambda: cluster.condition("Requeued") if cluster.is_true("Requeued") else None, 15)
    assert reserved["lastTransitionTime"] >= due
    cluster.request(attempt=2)


@pytest.mark.row("3.9-18")
def test_a_retry_of_no_time_waits_for_nothing(cluster: Cluster) -> None:
    other = with_other(cluster)
    cluster.job()
    first = cluster.request()
    say(cluster, other, "Retry", requeueAfterSeconds=600, lastTransitionTime=LONG_AGO)
    eventually(lambda: [r["metadata"]["uid"] for r in cluster.requests()] not in ([], [first["metadata"]["uid"]]))
    assert not requeue_at(cluster)


@pytest.mark.row("3.9-30", "3.9-32", "3.9-52")
def test_rejected_resets_all_checks(cluster: Cluster) -> None:
    other = with_other(cluster)
    cluster.job()
    request = cluster.request()
    say(cluster, other, "Ready")
    cluster.answer(request, "Failed", reason="InvalidArgument", message="words")
    eventually(lambda: cluster.condition("Evicted").get("reason") == "DeactivatedDueToAdmissionCheck")
    assert cluster.workload()["spec"]["active"] is False
    eventually(lambda: {state for state, _ in states(cluster).values()} == {"Pending"} and not cluster.requests())
    cluster.told("AdmissionCheckRejected", "was Rejected: InvalidArgument: words")
    eventually(lambda: not cluster.is_true("QuotaReserved"))


@pytest.mark.row("3.9-31", "3.9-53")
def test_an_admitted_workload_is_rejected_by_any_check(cluster: Cluster) -> None:
    """By another one than ours: our capacity is given back."""
    other = with_other(cluster)
    cluster.job()
    cluster.provision(cluster.request())
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))
    say(cluster, other, "Rejected")
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    eventually(lambda: suspended(cluster) and not cluster.requests())
    eventually(lambda: cluster.entry()["state"] == "Pending")


@pytest.mark.row("3.4-14")
def test_two_checks_of_ours_have_a_verdict_each(cluster: Cluster) -> None:
    second, found = two_checks(cluster)
    cluster.provision(found[cluster.namespace])
    eventually(lambda: sorted(state for state, _ in states(cluster).values()) == ["Pending", "Ready"])
    holds(lambda: not cluster.is_true("Admitted"), 1)
    cluster.answer(found[second], "Accepted")
    cluster.answer(found[second], "Provisioned", message="4 nodes in rack r2", booking="wl-other")
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
    template = cluster.get(resources.JOBS, "job")["spec"]["template"]["spec"]
    keys = {key for key in template["nodeSelector"] if "booking" in key}
    assert keys == {"wl-0123456789.booking.corral.dev/main", "wl-other.booking.corral.dev/main"}
    assert [each["key"] for each in template["tolerations"]].count("corral.dev/booked") == 1
