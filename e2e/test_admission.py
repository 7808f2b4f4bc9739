"""The admission service against the real Kueue. The tests play the provisioner: they write the status of requests."""

import time
from datetime import datetime
from pathlib import Path

import pytest

from e2e.cluster import KUEUE, Cluster, Kubectl, eventually, holds, made
from e2e.conformance.scene import suspended
from e2e.stack import Program
from kube import resources


@pytest.mark.row("3.1-05", "3.1-06", "3.1-13", "3.1-18", "3.1-27")
def test_a_gang_is_admitted_onto_its_booked_nodes(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.queue()
    eventually(lambda: cluster.active().get("status") == "True")
    cluster.job(annotations={"provreq.kueue.x-k8s.io/runDuration": "2h"})
    request = cluster.request()
    uid = cluster.workload()["metadata"]["uid"]

    spec = request["spec"]
    assert spec["provisioningClassName"] == "gang.corral.dev"
    assert spec["parameters"] == {"policy": cluster.namespace, "runDuration": "2h"}
    assert request["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true", "corral.dev/workload-uid": uid}
    assert request["metadata"]["annotations"]["tracing.k8s.io/traceparent"].startswith(f"00-{uid.replace('-', '')}-")
    [pods] = spec["podSets"]
    template = cluster.get(resources.POD_TEMPLATES, pods["podTemplateRef"]["name"])
    assert pods["count"] == 4
    assert [o["uid"] for o in template["metadata"]["ownerReferences"]] == [uid]
    assert [o["uid"] for o in request["metadata"]["ownerReferences"]] == [template["metadata"]["uid"]]
    pod = template["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": cluster.namespace}
    assert {"key": "flavor", "operator": "Exists"} in pod["tolerations"]
    assert pod["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "8"

    assert cluster.entry()["state"] == "Pending"
    cluster.answer(request, "Accepted")
    cluster.answer(request, "Provisioned", status="False", reason="TopologyUnsatisfied", message="needs 4 nodes in one rack")
    eventually(lambda: cluster.entry()["message"] == "TopologyUnsatisfied: needs 4 nodes in one rack")

    for number in range(4):
        cluster.node(f"{cluster.namespace}-{number}")
    try:
        cluster.provision(request)
        eventually(lambda: cluster.is_true("Admitted"))
        entry = cluster.entry()
        assert (entry["state"], entry["message"]) == ("Ready", "4 nodes in rack r1")
        eventually(lambda: len(bound(cluster)) == 4)
        assert set(bound(cluster)) == {f"{cluster.namespace}-{number}" for number in range(4)}
    finally:
        kubectl("delete", "node", "--selector", f"pool={cluster.namespace}", "--wait=false")
    cluster.told("AdmissionCheckUpdated", "from Pending to Ready")
    cluster.told("ProvisioningRequestCreated", request["metadata"]["name"])


def bound(cluster: Cluster) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in cluster.get(resources.PODS)["items"] if "nodeName" in pod["spec"]]


@pytest.mark.row("3.1-11", "3.1-45", "3.1-47", "3.5-12")
def test_a_failed_attempt_is_followed_by_another(cluster: Cluster) -> None:
    cluster.queue(retry={"limit": 1, "backoff": "2s", "maxBackoff": "10s"})
    cluster.job()
    first = cluster.request()
    cluster.answer(first, "Accepted")
    cluster.answer(first, "Failed", reason="GangIncomplete", message="3 of 4 nodes")
    eventually(lambda: cluster.is_true("Evicted"))
    assert cluster.entry()["message"].startswith("Attempt 1 of 2 failed: GangIncomplete: 3 of 4 nodes")
    cluster.told("AdmissionCheckUpdated", "from Pending to Retry")
    second = cluster.request(attempt=2)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert cluster.entry()["retryCount"] == 1
    cluster.provision(second)
    eventually(lambda: cluster.is_true("Admitted"))
    assert cluster.entry()["state"] == "Ready"


@pytest.mark.row("W1", "3.10-01")
def test_the_wait_counts_from_the_failure(cluster: Cluster) -> None:
    """Kueue's own controller keeps the old transition time, so that a late failure has no backoff at all (reference W1)."""
    cluster.queue(retry={"limit": 1, "backoff": "4s", "maxBackoff": "10s"})
    cluster.job()
    request = cluster.request()
    time.sleep(5)
    failed = int(time.time())
    cluster.answer(request, "Failed", reason="GangIncomplete", message="none")
    cluster.request(attempt=2)
    reserved = datetime.fromisoformat(cluster.condition("QuotaReserved")["lastTransitionTime"])
    assert reserved.timestamp() >= failed + 4


@pytest.mark.parametrize(
    ("limit", "reason", "message"),
    [
        pytest.param(
            0,
            "GangIncomplete",
            "Gave up after 1 attempt: GangIncomplete: words",
            id="limit",
            marks=pytest.mark.row("3.1-12"),
        ),
        pytest.param(5, "InvalidArgument", "InvalidArgument: words", id="mistake"),
    ],
)
def test_the_end_of_attempts_deactivates_the_workload(cluster: Cluster, limit: int, reason: str, message: str) -> None:
    cluster.queue(retry={"limit": limit, "backoff": "1s"})
    cluster.job()
    cluster.answer(cluster.request(), "Failed", reason=reason, message="words")
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    eventually(lambda: not cluster.requests())
    cluster.told("AdmissionCheckUpdated", message)
    eventually(lambda: cluster.entry()["state"] == "Pending")


@pytest.mark.row("3.1-44", "3.1-46", "W20")
def test_preemption_gives_the_capacity_back_and_starts_anew(cluster: Cluster) -> None:
    cluster.queue(quota=32)
    first = cluster.admitted()
    cluster.apply({**made(KUEUE, "WorkloadPriorityClass", cluster.namespace), "value": 1000})
    first_job = cluster.get(resources.JOBS, "job")
    labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/priority-class": cluster.namespace}
    urgent = made("batch/v1", "Job", "urgent", cluster.namespace)
    urgent["metadata"]["labels"] = labels
    containers = [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "8"}}}]
    spec = {"parallelism": 4, "completions": 4, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    cluster.apply({**urgent, "spec": spec})
    assert first_job["spec"]["parallelism"] == 4

    def only_the_urgent() -> bool:
        owners = [each["metadata"]["annotations"]["corral.dev/workload"] for each in cluster.requests()]
        return len(owners) == 1 and owners[0].startswith("job-urgent")

    eventually(only_the_urgent)
    cluster.kubectl("delete", "job", "urgent", "-n", cluster.namespace)
    again = eventually(
        lambda: next((r for r in cluster.requests() if "job-job" in r["metadata"]["annotations"]["corral.dev/workload"]), None)
    )
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert again["metadata"]["annotations"]["corral.dev/attempt"] == "1"
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-10", "W20")
def test_a_finished_job_gives_its_capacity_back(cluster: Cluster) -> None:
    cluster.queue()
    cluster.admitted()
    patch = '{"spec":{"activeDeadlineSeconds":1}}'  # the job fails, which finishes its workload as success does
    cluster.kubectl("patch", "job", "job", "-n", cluster.namespace, "--type=merge", "--patch", patch)
    eventually(lambda: cluster.is_true("Finished"))
    eventually(lambda: not cluster.requests() and not cluster.get(resources.POD_TEMPLATES)["items"])


@pytest.mark.parametrize("state", ["Retry", "Rejected", "Ready"])
def test_a_state_without_quota_heals(cluster: Cluster, state: str) -> None:
    """Left alone, Retry and Rejected would wedge the workload (kueue#3543), and Ready would admit it without capacity."""
    cluster.queue(quota=0)
    cluster.job()
    entry = eventually(cluster.entry)
    name = cluster.workload()["metadata"]["name"]
    patch = {"status": {"admissionChecks": [{**entry, "state": state, "message": "by hand"}]}}
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, name, patch, subresource="status")
    eventually(lambda: (cluster.entry()["state"], cluster.entry()["message"]) == ("Pending", "Waiting for quota"))


def test_deleted_jobs_leave_nothing(cluster: Cluster) -> None:
    cluster.queue()
    cluster.admitted()
    cluster.kubectl("delete", "job", "job", "-n", cluster.namespace)
    eventually(lambda: not cluster.requests())
    eventually(lambda: not cluster.get(resources.POD_TEMPLATES)["items"])
    eventually(lambda: not cluster.workload())


@pytest.mark.row("3.1-17", "3.1-22", "3.5-08", "3.5-10")
def test_a_running_job_survives_whatever_becomes_of_its_request(cluster: Cluster) -> None:
    cluster.queue()
    request = cluster.admitted()
    cluster.answer(request, "BookingExpired", reason="Consumed", message="all pods are there")
    cluster.policy(retry={"limit": 0})
    holds(lambda: cluster.is_true("Admitted") and cluster.entry()["state"] == "Ready", 2)
    cluster.kubectl("delete", "provisioningrequest", request["metadata"]["name"], "-n", cluster.namespace)
    cluster.kubectl("delete", "capacitypolicy", cluster.namespace)
    holds(lambda: cluster.is_true("Admitted") and not cluster.requests() and cluster.entry()["state"] == "Ready")


@pytest.mark.row("3.1-19", "3.5-05")
def test_revoked_capacity_ends_a_running_job(cluster: Cluster) -> None:
    cluster.queue()
    request = cluster.admitted()
    cluster.answer(request, "CapacityRevoked", reason="BlockEnded", message="the capacity block ended")
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    eventually(lambda: cluster.condition("Evicted").get("reason") == "DeactivatedDueToAdmissionCheck" and suspended(cluster))
    cluster.told("AdmissionCheckUpdated", "from Ready to Rejected with message: BlockEnded: the capacity block ended")
    eventually(lambda: not cluster.requests())


def test_a_deleted_request_is_made_anew(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job()
    first = cluster.request()
    cluster.kubectl("delete", "provisioningrequest", first["metadata"]["name"], "-n", cluster.namespace)
    second = eventually(lambda: next((r for r in cluster.requests() if r["metadata"]["uid"] != first["metadata"]["uid"]), None))
    cluster.provision(second)
    eventually(lambda: cluster.is_true("Admitted"))


def test_parameters_are_checked_and_the_remedy_frees_the_queue(cluster: Cluster) -> None:
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace}
    cluster.queue(parameters=reference)
    config = made(KUEUE, "ProvisioningRequestConfig", cluster.namespace)

    def bad(words: str) -> None:
        eventually(lambda: words in cluster.active().get("message", ""))
        assert (cluster.active()["status"], cluster.active()["reason"]) == ("False", "BadParametersRef")

    bad(f'ProvisioningRequestConfig "{cluster.namespace}" is not there: create it')
    cluster.apply({**config, "spec": {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": "nowhere"}}})
    bad(f'ProvisioningRequestConfig "{cluster.namespace}": CapacityPolicy "nowhere" is not there')
    cluster.job()
    holds(lambda: not cluster.requests(), 1)
    cluster.apply({**config, "spec": {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": cluster.namespace}}})
    eventually(lambda: cluster.active().get("status") == "True")
    assert cluster.request()["spec"]["parameters"] == {"policy": cluster.namespace}


def test_a_policy_taken_away_is_named_and_its_return_goes_on(cluster: Cluster) -> None:
    cluster.queue()
    eventually(lambda: cluster.active().get("status") == "True")
    cluster.kubectl("delete", "capacitypolicy", cluster.namespace)
    eventually(lambda: cluster.active().get("status") == "False")
    assert cluster.active()["message"] == f'CapacityPolicy "{cluster.namespace}" is not there or not valid: create or correct it'
    cluster.policy()
    eventually(lambda: cluster.active().get("status") == "True")
    # Only now, for Kueue 0.17.0 may leave a job that came to the inactive queue there until something else wakes its scheduler.
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("W13", "3.10-08")
def test_names_of_240_characters(cluster: Cluster) -> None:
    cluster.queue()
    name = "w" * 240
    amounts = {"cpu": "1", "nvidia.com/gpu": "8"}
    containers = [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    spec = {"queueName": "queue", "podSets": [{"name": "main", "count": 2, "template": template}]}
    cluster.apply(made(KUEUE, "Workload", name, cluster.namespace, spec=spec))
    request = cluster.request()
    assert len(request["metadata"]["name"]) <= 63
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    holds(lambda: [each["metadata"]["uid"] for each in cluster.requests()] == [request["metadata"]["uid"]], 2)


def test_a_template_that_the_api_server_refuses_is_the_users_mistake(cluster: Cluster) -> None:
    """The templates of a hand-made Workload are checked by nobody before us."""
    cluster.queue()
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "8"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    spec = {"queueName": "queue", "podSets": [{"name": "main", "count": 2, "template": template}]}
    cluster.apply(made(KUEUE, "Workload", "by-hand", cluster.namespace, spec=spec))
    eventually(lambda: cluster.workload() and cluster.workload()["spec"].get("active") is False)
    cluster.told("AdmissionCheckUpdated", "Limit must be set")


def test_the_policy_is_not_the_users_to_choose(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job(annotations={"provreq.kueue.x-k8s.io/policy": "generous"})
    eventually(lambda: cluster.workload() and cluster.workload()["spec"]["active"] is False)
    assert not cluster.requests()
    cluster.told("AdmissionCheckUpdated", "provreq.kueue.x-k8s.io/policy")


@pytest.mark.row("3.10-11")
def test_kueues_own_controller_leaves_our_requests_alone(cluster: Cluster) -> None:
    """The in-tree controller deletes requests that bear a workload as owner; it runs here, as the CRD was there at its start."""
    cluster.queue()
    cluster.job()
    request = cluster.request()
    foreign = made("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "foreign", cluster.namespace)
    owner = cluster.workload()["metadata"]
    foreign["metadata"]["ownerReferences"] = [
        {"apiVersion": KUEUE, "kind": "Workload", "name": owner["name"], "uid": owner["uid"]}
    ]
    foreign["spec"] = {"provisioningClassName": "gang.corral.dev", "podSets": request["spec"]["podSets"]}
    cluster.apply(foreign)
    cluster.answer(request, "Accepted")  # makes the in-tree controller look
    eventually(lambda: [each["metadata"]["name"] for each in cluster.requests()] == [request["metadata"]["name"]])
    holds(lambda: [each["metadata"]["uid"] for each in cluster.requests()] == [request["metadata"]["uid"]])


@pytest.mark.row("3.10-17")
def test_a_restart_goes_on_where_it_was(cluster: Cluster, admission: Program) -> None:
    cluster.queue()
    cluster.job()
    request = cluster.request()
    assert admission.stop(9) == -9
    cluster.provision(request)
    admission.start()
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["metadata"]["uid"] for each in cluster.requests()] == [request["metadata"]["uid"]]


def test_a_request_planted_under_our_name_is_replaced(cluster: Cluster, admission: Program) -> None:
    """Who may write requests can foresee the name of the next one; status written by hand must not admit anything."""
    cluster.queue()
    cluster.job()
    request = cluster.request()
    assert admission.stop() == 0
    cluster.kubectl("delete", "provisioningrequest", request["metadata"]["name"], "-n", cluster.namespace)
    planted = made("autoscaling.x-k8s.io/v1", "ProvisioningRequest", request["metadata"]["name"], cluster.namespace)
    cluster.apply({**planted, "spec": request["spec"]})
    admission.start()
    again = eventually(lambda: next((r for r in cluster.requests() if "ownerReferences" in r["metadata"]), None))
    assert again["metadata"]["name"] == request["metadata"]["name"]


def test_settings_that_cant_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("kind: Configuration\nworker: 3\n")
    program = Program("admission", path, tmp_path / "log", "http://127.0.0.1:1/readyz", {})
    with pytest.raises(Exception, match="worker"):
        program.start()


def test_parameters_without_a_kind_are_refused(cluster: Cluster) -> None:
    """The API server itself refuses half a reference; the check never sees it."""
    with pytest.raises(LookupError, match=r"parameters\.kind"):
        cluster.queue(parameters={"apiGroup": "corral.dev", "name": "x"})
