"""Rows W that come up when something is wrong with the services: nobody answers, writes are refused, two of a kind run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import Cluster, eventually, holds, made, status_of
from e2e.conformance.contest import is_true
from e2e.conformance.scene import QUICK, another, by_hand, now, pod_set
from e2e.stack import ROOT, Program
from kube import resources


def uids(cluster: Cluster) -> set[str]:
    return {each["metadata"]["uid"] for each in cluster.requests()}


def updates(cluster: Cluster) -> list[str]:
    return [each["note"] for each in cluster.get(resources.EVENTS)["items"] if each["reason"] == "AdmissionCheckUpdated"]


IMPATIENT = "import datetime\nfrom admission import decide\ndecide.ACCEPT_TIMEOUT = datetime.timedelta(seconds=5)\n"


@contextmanager
def impatient(admission: Program, directory: Path) -> Iterator[None]:
    """The admission service waits five seconds, not minutes, for an answer: Python runs this module before any program."""
    (directory / "sitecustomize.py").write_text(IMPATIENT)
    assert admission.stop() == 0
    admission.start(PYTHONPATH=f"{directory}{os.pathsep}{ROOT}")
    try:
        yield
    finally:
        assert admission.stop() == 0
        admission.start()


@pytest.mark.row("W17", "3.10-16")
def test_quota_goes_back_when_nobody_answers(cluster: Cluster, admission: Program, tmp_path: Path) -> None:
    """More often than the policy allows attempts, and never to the end of them."""
    cluster.queue(retry=QUICK)
    with impatient(admission, tmp_path):
        cluster.job()
        for attempt in (1, 2):
            silent = cluster.request(attempt)
            eventually(lambda: cluster.is_true("Evicted") and not cluster.is_true("QuotaReserved"))
            name = silent["metadata"]["name"]
            words = f"The provisioner doesn't answer ProvisioningRequest {name}: is corral-provisioner running?"
            cluster.told("AdmissionCheckUpdated", words)
        eventually(lambda: silent["metadata"]["uid"] not in uids(cluster))
        last = cluster.request(2)
    cluster.provision(last)
    eventually(lambda: cluster.is_true("Admitted"))


@contextmanager
def unwritable(cluster: Cluster) -> Iterator[None]:
    """Nobody may make an entry of the namespace's Workloads Ready."""
    rule = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["workloads/status"]}
    ready = "has(object.status.admissionChecks) && object.status.admissionChecks.exists(each, each.state == 'Ready')"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.namespace != '{cluster.namespace}' || !({ready})"}],
    }
    kind, api, name = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1", f"{cluster.namespace}-unwritable"
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.apply(made(api, kind, name, spec=spec), made(api, f"{kind}Binding", name, spec=binding))
    try:
        eventually(lambda: _refused(cluster))
        yield
    finally:
        cluster.kubectl("delete", f"{kind},{kind}Binding", name, "--wait=false")


def _refused(cluster: Cluster) -> bool:
    """Asked with an entry that nobody reads: a check of that name is on no queue."""
    entry = {"name": "probe", "state": "Ready", "message": "", "lastTransitionTime": now()}
    workload = cluster.workload()["metadata"]["name"]
    entries = [*status_of(cluster.workload())["admissionChecks"], entry]
    try:
        cluster.api.merge(
            resources.WORKLOADS, cluster.namespace, workload, {"status": {"admissionChecks": entries}}, subresource="status"
        )
    except LookupError as error:
        return "denied" in str(error)
    return False


@pytest.mark.row("W21")
def test_an_event_tells_what_was_written(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job()
    request = cluster.request()
    eventually(cluster.entry)
    with unwritable(cluster):
        cluster.provision(request)
        holds(lambda: cluster.entry()["state"] == "Pending" and not updates(cluster), 2)
    eventually(lambda: cluster.is_true("Admitted"))
    words = f"Admission check {cluster.namespace} updated state from Pending to Ready with message: 4 nodes in rack r1"
    eventually(lambda: updates(cluster))
    assert updates(cluster) == [words]


def refused(cluster: Cluster) -> int:
    """How often the API server has said so far that a request to be made is there already, by its own count."""
    marks = ('code="409"', 'resource="provisioningrequests"', 'verb="POST"')
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    found = (each for each in lines if each.startswith("apiserver_request_total{") and all(mark in each for mark in marks))
    return sum(int(each.rpartition(" ")[2]) for each in found)


@pytest.mark.row("W22", "3.1-48", "3.1-52")
def test_what_is_made_twice_is_made(cluster: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    """Two services, neither of which has seen what the other one made when it makes the same."""
    cluster.queue(quota=512)
    before = refused(cluster)
    with another(kubeconfig, tmp_path):
        for number in range(8):
            by_hand(cluster, pod_set("a"), pod_set("b"), name=f"number-{number}")
        eventually(lambda: len(cluster.requests()) == 8)
        known = uids(cluster)
        holds(lambda: uids(cluster) == known, 2)
        for request in cluster.requests():
            cluster.provision(request)
        eventually(lambda: all(is_true(each, "Admitted") for each in cluster.get(resources.WORKLOADS)["items"]))
        assert uids(cluster) == known
        assert "FailedCreate" not in cluster.events()
    assert refused(cluster) > before
