"""Rows of topologies that need no provisioner: a check of our own on a flavor with a topology, what its gate makes of a job, and
how a delayed topology holds up admission. What Kueue's own check does with the provisioner at work, e2e/test_topology.py plays.
"""

import json

import pytest

from e2e.cluster import Cluster, Json, eventually, holds
from e2e.conformance.contest import is_true, workloads
from e2e.conformance.places import assignment, gates, kueues_check, node, with_topology
from e2e.conformance.scene import suspended
from e2e.controlplane.cluster import ControlPlane
from kube import resources

GATE, OWN = "kueue.x-k8s.io/topology", "example.com/own"


@pytest.mark.row("3.8-09")
def test_with_our_check_kueue_places_pods_on_nodes_that_are_there_and_reserves_nothing_without(cluster: Cluster) -> None:
    cluster.queue()
    with_topology(cluster)
    cluster.job(pods=1)
    eventually(lambda: "topology" in cluster.condition("QuotaReserved").get("message", ""))
    holds(lambda: not cluster.requests(), 1)
    with node(cluster) as there:
        request = cluster.request()
        assert there in json.dumps(assignment(cluster)["topologyAssignment"])
        assert "delayedTopologyRequest" not in assignment(cluster)
        cluster.provision(request)
        eventually(lambda: cluster.is_true("Admitted"))


def asked(cluster: Cluster, request: Json) -> Json:
    """The spec of the pods that the request is for."""
    name = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
    spec: Json = cluster.get(resources.POD_TEMPLATES, name)["template"]["spec"]
    return spec


def started(cluster: Cluster, *own: str) -> list[str]:
    """The gates of a job's pods once it starts, when `own` are those that it was written with; only these are in the request."""
    cluster.job(pods=1, schedulingGates=[{"name": each} for each in own])
    request = cluster.request()
    assert gates(asked(cluster, request)) == sorted(own)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
    return gates(cluster.get(resources.JOBS, "job")["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("own", "found"),
    [
        pytest.param([], [GATE], id="none", marks=pytest.mark.row("3.9-119")),
        pytest.param([GATE], [GATE], id="same", marks=pytest.mark.row("3.9-112")),
        pytest.param([OWN], [OWN, GATE], id="another", marks=pytest.mark.row("3.9-113")),
    ],
)
def test_a_flavor_with_a_topology_adds_its_gate(cluster: Cluster, own: list[str], found: list[str]) -> None:
    cluster.queue()
    with_topology(cluster)
    with node(cluster):
        assert started(cluster, *own) == found


@pytest.mark.row("3.9-111")
def test_a_flavor_without_a_topology_adds_no_gate(cluster: Cluster) -> None:
    cluster.queue()
    assert started(cluster, OWN) == [OWN]


@pytest.mark.row("3.9-11")
def test_a_delayed_topology_holds_up_admission(cluster: Cluster) -> None:
    """Kueue's own check with our class: Ready is not enough until there is a node."""
    kueues_check(cluster)
    cluster.job(pods=1)
    [request] = eventually(cluster.requests)
    cluster.provision(request)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    holds(lambda: assignment(cluster)["delayedTopologyRequest"] == "Pending" and not cluster.is_true("Admitted"), 2)
    with node(cluster):
        eventually(lambda: cluster.is_true("Admitted"))
        assert assignment(cluster)["delayedTopologyRequest"] == "Ready"


@pytest.mark.row("3.7-07", "3.8-11", "3.8-12")
def test_a_second_pass_that_is_due_ends_with_its_job_and_is_repeated_for_the_other(cluster: Cluster) -> None:
    """Kueue's own check with our class. Both requests are Provisioned before there is a node, so that passes fail."""
    kueues_check(cluster)
    for name in ("gone", "stays"):
        cluster.job(name, pods=1)
    for each in eventually(lambda: found if len(found := cluster.requests()) == 2 else None):
        cluster.provision(each)
    eventually(lambda: failed(cluster) == {each["metadata"]["name"] for each in workloads(cluster).values()})
    cluster.kubectl("delete", "job", "gone", "-n", cluster.namespace)
    eventually(lambda: set(workloads(cluster)) == {"stays"})
    assert not is_true(workloads(cluster)["stays"], "Admitted")
    with node(cluster):
        eventually(lambda: is_true(workloads(cluster)["stays"], "Admitted"))


def failed(cluster: Cluster) -> set[str]:
    """Workloads of which a second pass failed."""
    items = cluster.get(resources.EVENTS)["items"]
    return {each["regarding"]["name"] for each in items if each["reason"] == "SecondPassFailed"}


@pytest.mark.timeout(600)
@pytest.mark.row("3.7-06")
def test_kueue_resumes_a_second_pass_that_is_due(cluster: Cluster, controlplane: ControlPlane) -> None:
    kueues_check(cluster)
    cluster.job(pods=1)
    [request] = eventually(cluster.requests)
    cluster.provision(request)
    eventually(lambda: failed(cluster))
    controlplane.kill("kueue")
    with node(cluster):
        holds(lambda: not cluster.is_true("Admitted"), 1)
        controlplane.restart("kueue")
        eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.9-10")
def test_a_delayed_topology_stops_nothing_that_is_admitted(cluster: Cluster) -> None:
    """Only another writer can bring it there. Kueue's controller asks the helper no more, and our entry stays as it is."""
    cluster.queue()
    cluster.admitted()
    workload = cluster.workload()
    late = {**assignment(cluster), "delayedTopologyRequest": "Pending"}
    patch = {"status": {"admission": {"podSetAssignments": [late]}}}
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, workload["metadata"]["name"], patch, subresource="status")
    assert assignment(cluster)["delayedTopologyRequest"] == "Pending"
    holds(lambda: cluster.is_true("Admitted") and not suspended(cluster) and cluster.entry()["state"] == "Ready", 2)
