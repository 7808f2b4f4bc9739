"""Row 3.8-09: a check of our own on a flavor with a topology. What Kueue's own check does there, with the provisioner at work,
is played in e2e/test_topology.py.
"""

import json

import pytest

from e2e.cluster import KUEUE, Cluster, eventually, holds, made, status_of
from e2e.conformance.evidence import Evidence
from kube import resources

RACK, HOST = "e2e.corral.dev/rack", "kubernetes.io/hostname"


def node(cluster: Cluster) -> str:
    """A node of the queue's flavor with room for one pod of a job."""
    name = f"{cluster.namespace}-1"
    item = made("v1", "Node", name, spec={})
    item["metadata"] |= {
        "labels": {HOST: name, RACK: "r", "pool": cluster.namespace},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    room = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item | {"status": {"allocatable": room, "capacity": room}}))
    return name


@pytest.mark.row("3.8-09")
def test_with_our_check_kueue_places_pods_on_nodes_that_are_there_and_reserves_nothing_without(
    cluster: Cluster, evidence: Evidence
) -> None:
    cluster.apply(made(KUEUE, "Topology", cluster.namespace, spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}))
    cluster.queue()
    cluster.api.merge(resources.RESOURCE_FLAVORS, "", cluster.namespace, {"spec": {"topologyName": cluster.namespace}})
    cluster.job(pods=1)
    eventually(lambda: "topology" in cluster.condition("QuotaReserved").get("message", ""))
    holds(lambda: not cluster.requests(), 1)
    there = node(cluster)
    try:
        request = cluster.request()
        (assigned,) = status_of(cluster.workload())["admission"]["podSetAssignments"]
        assert there in json.dumps(assigned["topologyAssignment"])
        assert "delayedTopologyRequest" not in assigned
        cluster.provision(request)
        eventually(lambda: cluster.condition("Admitted").get("status") == "True")
    finally:
        cluster.kubectl("delete", "node", there, "--wait=false")
