"""A pool's health checks on the real control plane: what lets a gang begin, what costs a machine, and what is nobody's fault."""

import json
import time
from typing import Any

import pytest

from e2e.api import path
from e2e.controlplane.cluster import ControlPlaneError
from e2e.scenario import Scenario, condition, until
from e2e.stack import NAMESPACE
from kube.resources import JOBS, PODS
from provisioner.nodes import checkups

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)
SLOW = 180.0
TIMES = {"timeouts": {"queued": "2m", "provision": "6m", "booking": "2m"}}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What Pod Security asks for in Corral's own namespace."""


def set_up(corner: Scenario, *, runs: int, timeout: str = "1m", security: Json | None = None) -> None:
    """Pool with a health check that runs so many seconds, and a gang of two machines."""
    container = {"name": corner.name, "image": "check", "securityContext": RESTRICTED if security is None else security}
    template = {"metadata": {"annotations": {"e2e.corral.dev/run-seconds": str(runs)}}, "spec": {"containers": [container]}}
    meta = {"name": corner.name, "namespace": NAMESPACE}
    corner.apply({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": template})
    readiness = {
        "timeout": "20s",
        "requiredDaemonSets": ["kube-system/nvidia-device-plugin"],
        "healthCheck": {"podTemplateRef": {"name": corner.name}, "timeout": timeout},
    }
    corner.set_up(sources=("reserved",), pool={"readiness": readiness}, policy=TIMES)
    corner.job("trains", 2)


def checks(corner: Scenario) -> dict[str, Json]:
    """The Jobs of the gang's health checks, by node."""
    booking = corner.bookings()[0]
    selector = f"corral.dev/booking={booking['metadata']['name']},{checkups.CHECKUP}"
    found = corner.api.call("GET", path(JOBS, NAMESPACE), labelSelector=selector).body["items"]
    return {job["spec"]["template"]["spec"]["nodeName"]: job for job in found}


def both(corner: Scenario) -> dict[str, Json]:
    until(lambda: len(checks(corner)) == 2, seconds=SLOW, what="both are checked")
    return checks(corner)


def end(corner: Scenario, check: Json) -> None:
    """Has the pod of a health check end well, now or as soon as it is there."""
    name = f"batch.kubernetes.io/job-name={check['metadata']['name']}"

    def over() -> Json:
        corner.kubectl("annotate", "pods", "-n", NAMESPACE, "-l", name, "e2e.corral.dev/run-seconds=0", "--overwrite")
        return condition(corner.api.get(JOBS, NAMESPACE, check["metadata"]["name"]), "Complete")

    until(over, seconds=SLOW, what="the check has passed")


def running(corner: Scenario) -> list[Json]:
    return [pod for pod in corner.pods("trains") if pod["status"].get("phase") == "Running"]


def words(corner: Scenario) -> str:
    """What the gang is told."""
    return str(condition(corner.requests()[0], "Provisioned").get("message", ""))


def test_a_gang_begins_once_each_machine_has_passed(corner: Scenario) -> None:
    set_up(corner, runs=3600, timeout="5m")
    found = both(corner)
    assert found.keys() == {machine["node"] for machine in corner.machines()}
    first, last = found.values()
    end(corner, first)
    until(lambda: "1 of 2 machines ready" in words(corner), seconds=SLOW, what="one counts")
    assert running(corner) == []
    end(corner, last)
    until(lambda: len(running(corner)) == 2, seconds=SLOW, what="the gang runs")
    assert len(corner.machines()) == 2


def test_a_check_that_hangs_costs_the_machine(corner: Scenario) -> None:
    """Rests on the job controller: when a Job's time is over its running pod counts as failed, whatever its phase."""
    set_up(corner, runs=3600, timeout="40s")
    found = both(corner)
    hung, fine = found.values()
    end(corner, fine)
    until(lambda: condition(checks(corner)[_node(hung)], "Failed"), seconds=SLOW, what="the other one's time is over")
    over = checks(corner)[_node(hung)]
    assert (condition(over, "Failed")["reason"], over["status"].get("failed")) == ("DeadlineExceeded", 1)
    [third] = until(lambda: checks(corner).keys() - found.keys(), seconds=SLOW, what="another machine is checked")
    end(corner, checks(corner)[third])
    until(lambda: len(running(corner)) == 2, seconds=SLOW, what="the gang runs")
    assert {pod["spec"]["nodeName"] for pod in running(corner)} == {_node(fine), third}
    assert _node(hung) not in {machine["node"] for machine in corner.alive()}


def _node(check: Json) -> str:
    name: str = check["spec"]["template"]["spec"]["nodeName"]
    return name


# --- nobody's fault -------------------------------------------------------------------------------------------------------


def forbid(corner: Scenario) -> None:
    """Until the binding is deleted the API server refuses Jobs whose container is named after the test."""
    name, group = corner.name, "admissionregistration.k8s.io/v1"
    rule = {"expression": f"object.spec.template.spec.containers[0].name != '{name}'", "message": "not these Jobs"}
    jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [jobs]}, "validations": [rule]}
    corner.apply({"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    corner.apply({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding})
    until(lambda: "not these Jobs" in _trial(corner), what="the policy takes effect")


def _trial(corner: Scenario) -> str:
    pod = {"containers": [{"name": corner.name, "image": "x"}], "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "trial", "namespace": corner.namespace}}
    try:
        corner.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps({**job, "spec": {"template": {"spec": pod}}}))
    except ControlPlaneError as error:
        return str(error)
    return ""


def refused(corner: Scenario) -> Json:
    return condition(corner.get("cpool", corner.name), "HealthCheckRefused")


def test_a_refused_job_is_told_and_no_machine_is_replaced_for_it(corner: Scenario) -> None:
    forbid(corner)
    set_up(corner, runs=1)
    until(lambda: refused(corner).get("status") == "True", seconds=SLOW, what="the pool tells of it")
    assert "not these Jobs" in refused(corner)["message"]
    assert f"PodTemplate {NAMESPACE}/{corner.name}" in refused(corner)["message"]
    until(lambda: "2 wait: its health check can't begin" in words(corner), seconds=SLOW, what="the gang says why it waits")
    corner.kubectl("delete", "validatingadmissionpolicybinding", corner.name)
    until(lambda: refused(corner).get("status") == "False", seconds=SLOW, what="the pool tells that it is over")
    until(lambda: len(running(corner)) == 2, seconds=SLOW, what="the gang runs")
    assert len(corner.machines()) == 2, "machines were replaced that nothing was wrong with"


def test_a_job_whose_pods_are_refused_costs_no_machine(corner: Scenario) -> None:
    """The namespace's Pod Security level refuses them; the API server takes the Job all the same."""
    set_up(corner, runs=1, timeout="10s", security={})
    until(lambda: "no pod of its health check came to an end" in words(corner), seconds=SLOW, what="the gang says why it waits")
    assert [(job["status"].get("failed"), condition(job, "Failed")["reason"]) for job in checks(corner).values()] == [
        (None, "DeadlineExceeded")
    ] * 2
    time.sleep(5)
    assert len(corner.alive()) == len(corner.machines()) == 2


def test_a_check_that_is_evicted_is_made_anew(corner: Scenario) -> None:
    set_up(corner, runs=3600, timeout="5m")
    found = both(corner)
    first = next(iter(found.values()))
    until(lambda: checks(corner)[_node(first)]["status"].get("active"), seconds=SLOW, what="the check runs")
    [old] = _pods(corner, first)
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": old, "namespace": NAMESPACE}}
    assert corner.api.call("POST", path(PODS, NAMESPACE, old) + "/eviction", evict).accepted
    ended = {"status": {"phase": "Failed"}}  # as a kubelet says once the containers are gone: the Job waits for that
    corner.api.merge(PODS, NAMESPACE, old, ended, "status")
    until(lambda: _pods(corner, first) not in ([], [old]), seconds=SLOW, what="another pod checks the node")
    until(lambda: all(check["status"].get("active") for check in checks(corner).values()), seconds=SLOW, what="both run")
    for check in found.values():
        end(corner, check)
    until(lambda: len(running(corner)) == 2, seconds=SLOW, what="the gang runs")
    assert len(corner.machines()) == 2


def _pods(corner: Scenario, check: Json) -> list[str]:
    name = f"batch.kubernetes.io/job-name={check['metadata']['name']}"
    found = corner.api.call("GET", path(PODS, NAMESPACE), labelSelector=name).body["items"]
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


# --- not ours -------------------------------------------------------------------------------------------------------------


def test_a_pod_that_bears_our_label_is_a_users_all_the_same(corner: Scenario) -> None:
    """Its machine is not ended under it, though its Job is named like a check of that node."""
    corner.set_up(sources=({"name": "od", "capacityType": "on-demand", "scaleIn": {"policy": "WhenIdle", "after": "20s"}},))
    corner.job("gang", 1, seconds=2)
    until(lambda: corner.workload("gang") and condition(corner.workload("gang"), "Finished"), what="the gang is over")
    [machine] = corner.alive()
    work = checkups.name("b", machine["node"])
    pod = {"schedulerName": "the-test", "restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}
    notes = {"annotations": {"e2e.corral.dev/run-seconds": "3600"}, "labels": {checkups.CHECKUP: "true"}}
    meta = {"name": work, "namespace": corner.namespace, "labels": {checkups.CHECKUP: "true"}}
    spec = {"template": {"metadata": notes, "spec": pod}}
    corner.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    [made] = until(lambda: corner.pods(work), what="its pod is there")
    corner.bind(made["metadata"]["name"], machine["node"])
    until(lambda: corner.pods(work)[0]["status"].get("phase") == "Running", what="somebody's work runs there")
    time.sleep(45)
    assert [each["id"] for each in corner.alive()] == [machine["id"]]
    assert corner.pods(work)[0]["status"]["phase"] == "Running"
    corner.api.call("DELETE", path(JOBS, corner.namespace, work), propagationPolicy="Background")
    until(lambda: not corner.alive(), seconds=SLOW, what="the machine ends once the work is over")
