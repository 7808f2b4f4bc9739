"""A failed attempt on the real Kueue: the backoff holds no quota, attempts are counted, users keep the last word."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import KUEUE, Cluster, eventually, holds, made, status_of
from e2e.history import History
from e2e.stack import Program
from kube import resources

Json = dict[str, Any]


def workload_of(cluster: Cluster, job: str) -> Json:
    """The Workload of a Job or Pod; {} while there is none."""
    items = cluster.get(resources.WORKLOADS)["items"]
    return next((w for w in items if any(o["name"] == job for o in w["metadata"].get("ownerReferences") or ())), {})


def condition(workload: Json, kind: str) -> Json:
    return next((c for c in status_of(workload).get("conditions") or () if c["type"] == kind), {})


def is_true(workload: Json, kind: str) -> bool:
    return bool(condition(workload, kind).get("status") == "True")


def requeue_at(workload: Json) -> str:
    return str((status_of(workload).get("requeueState") or {}).get("requeueAt") or "")


def request_of(cluster: Cluster, workload: str, attempt: int = 1) -> Json:
    marks = {"corral.dev/workload": workload, "corral.dev/attempt": str(attempt)}
    return eventually(lambda: next((r for r in cluster.requests() if marks.items() <= notes(r).items()), None))


def notes(request: Json) -> Json:
    return request["metadata"].get("annotations") or {}


def fail(cluster: Cluster, attempt: int = 1, message: str = "3 of 4 nodes") -> None:
    cluster.answer(cluster.request(attempt), "Failed", reason="GangIncomplete", message=message)


def set_active(cluster: Cluster, active: bool) -> None:
    name = cluster.workload()["metadata"]["name"]
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, name, {"spec": {"active": active}})


@pytest.fixture
def history(kubeconfig: Path, namespace: str) -> Iterator[History]:
    with History(kubeconfig, namespace) as made:
        yield made


def backoff(cluster: Cluster, history: History, failed: int = 1, job: str = "job") -> Json:
    """The workload as it was without quota after so many failed attempts: a backoff may be over before a test looks."""

    def rests(workload: Json) -> bool:
        entry = entries(workload).get(cluster.namespace, {"state": ""})
        free = not is_true(workload, "QuotaReserved") and is_true(workload, "Evicted") and bool(requeue_at(workload))
        return free and (entry["state"], entry.get("retryCount")) == ("Pending", failed)

    return history.first(job, rests)


def entries(workload: Json) -> dict[str, Json]:
    return {each["name"]: each for each in status_of(workload).get("admissionChecks") or ()}


@pytest.mark.row("W2", "3.10-01", "3.5-13")
def test_a_backoff_holds_no_quota(cluster: Cluster, history: History) -> None:
    """Another workload has the quota while the first waits; then attempts go on, numbered, until the limit."""
    cluster.queue(quota=32, retry={"limit": 2, "backoff": "6s", "maxBackoff": "6s"})
    cluster.job()
    first = cluster.request()
    fail(cluster)
    found = backoff(cluster, history)
    entry, due = entries(found)[cluster.namespace], requeue_at(found)
    words = "Attempt 1 of 3 failed: GangIncomplete: 3 of 4 nodes"
    assert (entry["message"], entry["retryCount"]) == (f"{words}; next try at {due}, no quota is held until then", 1)
    evicted = condition(found, "Evicted")
    assert instant(evicted) < datetime.fromisoformat(due)
    assert (evicted["reason"], evicted["message"]) == ("AdmissionCheck", f"{words}; no quota is held until the next try")
    cluster.told("EvictedForBackoff", evicted["message"])

    second = cluster.request(2)
    assert instant(cluster.condition("QuotaReserved")) >= datetime.fromisoformat(due)
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    fail(cluster, 2)
    backoff(cluster, history, failed=2)
    fail(cluster, 3)
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    cluster.told("AdmissionCheckUpdated", "Rejected with message: Gave up after 3 attempts")


def instant(given: Json) -> datetime:
    return datetime.fromisoformat(given["lastTransitionTime"])


@pytest.mark.row("W2")
def test_others_run_meanwhile(cluster: Cluster) -> None:
    cluster.queue(quota=32, retry={"limit": 2, "backoff": "60s"})
    cluster.job()
    fail(cluster)
    cluster.job("other")
    other = eventually(lambda: workload_of(cluster, "other"))
    cluster.provision(request_of(cluster, other["metadata"]["name"]))
    eventually(lambda: is_true(workload_of(cluster, "other"), "Admitted"))
    assert not is_true(workload_of(cluster, "job"), "QuotaReserved")


@pytest.mark.row("W6", "3.10-06")
def test_success_ends_the_count(cluster: Cluster) -> None:
    """Kueue's own controller counts on over months, until a workload that ran fine is refused (reference W6)."""
    cluster.queue(quota=32, retry={"limit": 1, "backoff": "3s"})
    cluster.job()
    fail(cluster)
    cluster.provision(cluster.request(2))
    eventually(lambda: cluster.is_true("Admitted"))
    name = cluster.workload()["metadata"]["name"]
    cluster.apply({**made(KUEUE, "WorkloadPriorityClass", cluster.namespace), "value": 1000})
    preempt(cluster)
    eventually(lambda: not is_true(workload_of(cluster, "job"), "QuotaReserved"))
    entry = status_of(workload_of(cluster, "job"))["admissionChecks"][0]
    assert entry.get("retryCount", 0) == 0
    cluster.kubectl("delete", "job", "urgent", "-n", cluster.namespace)
    again = request_of(cluster, name)
    assert again["metadata"]["annotations"]["corral.dev/attempt"] == "1"


def test_success_ends_the_count_beside_kueue_s_own_check(cluster: Cluster) -> None:
    """Its controller applies a copy of all entries, ours among them, and so owns what it copied."""
    cluster.queue(quota=32, retry={"limit": 1, "backoff": "1s"})
    theirs = in_tree_check(cluster)
    cluster.job()
    name = eventually(cluster.workload)["metadata"]["name"]
    cluster.answer(request_of(cluster, name), "Failed", reason="GangIncomplete", message="3 of 4 nodes")
    second = request_of(cluster, name, 2)
    asked = f"{name}-{theirs}-1"
    cluster.answer(
        eventually(lambda: next((r for r in cluster.requests() if r["metadata"]["name"] == asked), None)), "Provisioned"
    )
    eventually(lambda: states(cluster)[theirs] == "Ready")
    assert cluster.entry()["retryCount"] == 1
    cluster.provision(second)
    eventually(lambda: cluster.is_true("Admitted"))
    cluster.apply({**made(KUEUE, "WorkloadPriorityClass", cluster.namespace), "value": 1000})
    preempt(cluster)
    eventually(lambda: not is_true(workload_of(cluster, "job"), "QuotaReserved"))
    cluster.kubectl("delete", "job", "urgent", "-n", cluster.namespace)
    assert request_of(cluster, name)["metadata"]["uid"] != second["metadata"]["uid"]


def in_tree_check(cluster: Cluster) -> str:
    """The queue's second check: Kueue's own, for a class that isn't ours."""
    name = f"{cluster.namespace}-2"
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace}
    controller = "kueue.x-k8s.io/provisioning-request"
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"}
    cluster.apply(
        made(KUEUE, "ProvisioningRequestConfig", cluster.namespace, spec=spec),
        made(KUEUE, "AdmissionCheck", name, spec={"controllerName": controller, "parameters": reference}),
    )
    put_on_queue(cluster, cluster.namespace, name)
    return name


def put_on_queue(cluster: Cluster, *checks: str) -> None:
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in checks]}}
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": strategy})


def test_what_runs_is_no_question_for_a_check_that_comes_later(cluster: Cluster) -> None:
    """Nor for one that takes the other's place under another name."""
    cluster.queue()
    request = cluster.admitted()
    other = second_check(cluster, "corral.dev/capacity")
    for checks in ((cluster.namespace, other), (other,)):
        put_on_queue(cluster, *checks)
        eventually(lambda checks=checks: states(cluster) == dict.fromkeys(checks, "Ready"))  # type: ignore[misc]
    holds(lambda: cluster.is_true("Admitted") and cluster.request()["metadata"]["uid"] == request["metadata"]["uid"], 1)


def preempt(cluster: Cluster) -> None:
    urgent = made("batch/v1", "Job", "urgent", cluster.namespace)
    urgent["metadata"]["labels"] = {
        "kueue.x-k8s.io/queue-name": "queue",
        "kueue.x-k8s.io/priority-class": cluster.namespace,
    }
    containers = [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "8"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    cluster.apply({**urgent, "spec": {"parallelism": 4, "completions": 4, "template": template}})


def test_a_user_s_reactivation_after_rejected_is_heard(cluster: Cluster) -> None:
    """Kueue 0.17.0 leaves such a workload pending for ever. Attempts begin anew."""
    cluster.queue(retry={"limit": 1, "backoff": "1s"})
    cluster.job()
    fail(cluster, 1)
    fail(cluster, 2)
    eventually(lambda: cluster.condition("Requeued").get("reason") == "DeactivatedDueToAdmissionCheck")
    holds(lambda: cluster.workload()["spec"]["active"] is False, 1)
    set_active(cluster, True)
    request = cluster.request(1)
    assert cluster.condition("Requeued")["reason"] == "Reactivated"
    fail(cluster, 1)
    cluster.provision(cluster.request(2))
    eventually(lambda: cluster.is_true("Admitted"))
    assert request["metadata"]["uid"] not in [each["metadata"]["uid"] for each in cluster.requests()]


@pytest.mark.parametrize("when", ["pending", "backoff"])
def test_a_user_s_deactivation_is_never_undone(cluster: Cluster, history: History, when: str) -> None:
    cluster.queue(retry={"limit": 3, "backoff": "5s"})
    cluster.job()
    cluster.request()
    if when == "backoff":
        fail(cluster)
        backoff(cluster, history)
    set_active(cluster, False)
    eventually(lambda: not cluster.is_true("QuotaReserved") and not cluster.requests())
    holds(lambda: cluster.workload()["spec"]["active"] is False and not cluster.is_true("QuotaReserved"), 6)
    set_active(cluster, True)
    cluster.request(1 if when == "pending" else 2)


def test_a_restart_in_the_middle_counts_once(cluster: Cluster, admission: Program) -> None:
    """Killed with Retry written; while it is down Kueue waits, then evicts by itself and counts."""
    cluster.queue(retry={"limit": 3, "backoff": "3s"})
    cluster.job()
    request = cluster.request()
    cluster.answer(request, "Failed", reason="GangIncomplete", message="x")
    eventually(lambda: cluster.entry()["state"] == "Retry" or cluster.is_true("Evicted"))
    assert admission.stop(9) == -9
    time.sleep(4)
    admission.start()
    cluster.request(2)
    assert cluster.entry()["retryCount"] == 1


def test_a_bare_workload_keeps_what_nobody_clears(cluster: Cluster) -> None:
    """No job stands behind it, so Kueue never clears its quota, as without us; nothing of ours loops over it."""
    cluster.queue(retry={"limit": 3, "backoff": "2s"})
    amounts = {"cpu": "1", "nvidia.com/gpu": "8"}
    containers = [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    spec = {"queueName": "queue", "podSets": [{"name": "main", "count": 2, "template": template}]}
    cluster.apply(made(KUEUE, "Workload", "by-hand", cluster.namespace, spec=spec))
    fail(cluster)
    eventually(lambda: cluster.is_true("Evicted") and cluster.entry()["state"] == "Pending")
    time.sleep(3)
    version = cluster.workload()["metadata"]["resourceVersion"]
    holds(lambda: cluster.workload()["metadata"]["resourceVersion"] == version, 2)
    assert cluster.entry()["retryCount"] == 1


def pod(cluster: Cluster, name: str, group: int = 0) -> None:
    item = made("v1", "Pod", name, cluster.namespace)
    item["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    if group:
        item["metadata"]["labels"] |= {"kueue.x-k8s.io/pod-group-name": "group"}
        item["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(group)}
    limits = {"cpu": "1", "nvidia.com/gpu": "8"}
    cluster.apply({**item, "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]}})


@pytest.mark.parametrize("group", [pytest.param(0, id="pod"), pytest.param(2, id="group")])
def test_pods_wait_without_quota_too(cluster: Cluster, history: History, group: int) -> None:
    cluster.queue(retry={"limit": 3, "backoff": "5s"})
    for number in range(max(1, group)):
        pod(cluster, f"pod-{number}", group)
    uids = {each["metadata"]["uid"] for each in cluster.get(resources.PODS)["items"]}
    fail(cluster)
    backoff(cluster, history, job="pod-0")
    cluster.request(2)
    assert {each["metadata"]["uid"] for each in cluster.get(resources.PODS)["items"]} == uids


def second_check(cluster: Cluster, controller: str) -> str:
    name = f"{cluster.namespace}-2"
    reference = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": cluster.namespace}
    cluster.apply(made(KUEUE, "AdmissionCheck", name, spec={"controllerName": controller, "parameters": reference}))
    if controller != "corral.dev/capacity":
        active = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        cluster.api.merge(resources.ADMISSION_CHECKS, "", name, {"status": {"conditions": [active]}}, subresource="status")
    put_on_queue(cluster, cluster.namespace, name)
    return name


def set_foreign(cluster: Cluster, name: str, state: str, **more: Any) -> None:
    workload = cluster.workload()
    entries = [
        {**each, "state": state, "message": "theirs", "lastTransitionTime": now(), **more} if each["name"] == name else each
        for each in status_of(workload)["admissionChecks"]
    ]
    meta = {"resourceVersion": workload["metadata"]["resourceVersion"]}
    patch = {"metadata": meta, "status": {"admissionChecks": entries}}
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, workload["metadata"]["name"], patch, subresource="status")


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def states(cluster: Cluster) -> dict[str, str]:
    return {each["name"]: each["state"] for each in status_of(cluster.workload()).get("admissionChecks") or ()}


def test_another_s_ready_goes_with_the_quota_it_was_given_for(cluster: Cluster, history: History) -> None:
    cluster.queue(retry={"limit": 3, "backoff": "5s"})
    other = second_check(cluster, "example.com/other")
    cluster.job()
    cluster.request()
    eventually(lambda: other in states(cluster))
    set_foreign(cluster, other, "Ready")
    eventually(lambda: states(cluster)[other] == "Ready")
    fail(cluster)
    assert entries(backoff(cluster, history))[other]["state"] == "Pending"
    cluster.provision(cluster.request(2))
    eventually(lambda: cluster.entry()["state"] == "Ready")
    holds(lambda: not cluster.is_true("Admitted"), 1)
    set_foreign(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))


def test_another_s_retry_is_left_to_kueue(cluster: Cluster) -> None:
    cluster.queue(retry={"limit": 3, "backoff": "2s"})
    other = second_check(cluster, "example.com/other")
    cluster.job()
    request = cluster.request()
    set_foreign(cluster, other, "Retry", requeueAfterSeconds=5)
    cluster.answer(request, "Failed", reason="GangIncomplete", message="x")
    eventually(lambda: cluster.entry()["state"] == "Retry")
    holds(lambda: not cluster.is_true("Evicted"), 2)
    cluster.request(2)
    assert {each["name"]: each.get("retryCount") for each in status_of(cluster.workload())["admissionChecks"]} == {
        cluster.namespace: 1,
        other: 1,
    }


def test_two_checks_of_ours(cluster: Cluster, history: History) -> None:
    cluster.queue(retry={"limit": 3, "backoff": "5s"})
    other = second_check(cluster, "corral.dev/capacity")
    cluster.job()
    first = eventually(lambda: cluster.requests() if len(cluster.requests()) == 2 else None)
    for request in first:
        if request["metadata"]["annotations"]["corral.dev/admission-check"] == other:
            cluster.provision(request)
    eventually(lambda: states(cluster)[other] == "Ready")
    for request in first:
        if request["metadata"]["annotations"]["corral.dev/admission-check"] != other:
            cluster.answer(request, "Failed", reason="GangIncomplete", message="x")
    found = backoff(cluster, history)
    assert {each["state"] for each in entries(found).values()} == {"Pending"}
    old = {each["metadata"]["uid"] for each in first}

    def anew() -> list[Json]:
        found = [each for each in cluster.requests() if each["metadata"]["uid"] not in old]
        return found if len(found) == 2 else []

    again = eventually(anew)
    marks = {
        r["metadata"]["annotations"]["corral.dev/admission-check"]: r["metadata"]["annotations"]["corral.dev/attempt"]
        for r in again
    }
    assert marks == {cluster.namespace: "2", other: "1"}
    for request in again:
        cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
