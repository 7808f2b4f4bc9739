"""Flavors with a topology, and a node of theirs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster import KUEUE, Cluster, Json, made, status_of
from e2e.conformance.scene import config
from kube import resources

RACK, HOST = "e2e.corral.dev/rack", "kubernetes.io/hostname"
IN_TREE = "kueue.x-k8s.io/provisioning-request"


@contextmanager
def node(cluster: Cluster) -> Iterator[str]:
    """A node of the queue's flavor with room for one pod of a job."""
    name = f"{cluster.namespace}-1"
    item = made("v1", "Node", name, spec={})
    item["metadata"] |= {
        "labels": {HOST: name, RACK: "r", "pool": cluster.namespace},
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }
    room = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(item | {"status": {"allocatable": room, "capacity": room}}))
    try:
        yield name
    finally:
        cluster.kubectl("delete", "node", name, "--wait=false")


def with_topology(cluster: Cluster) -> None:
    """The queue's flavor gets a topology, so that Kueue places all its pods."""
    cluster.apply(made(KUEUE, "Topology", cluster.namespace, spec={"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}))
    cluster.api.merge(resources.RESOURCE_FLAVORS, "", cluster.namespace, {"spec": {"topologyName": cluster.namespace}})


def assignment(cluster: Cluster) -> Json:
    found: list[Json] = (status_of(cluster.workload()).get("admission") or {}).get("podSetAssignments") or [{}]
    return found[0]


def gates(spec: Json) -> list[str]:
    """Names of the scheduling gates in the spec of a pod."""
    return sorted(each["name"] for each in spec.get("schedulingGates") or ())


def kueues_check(cluster: Cluster) -> None:
    """A queue with Kueue's own check, which asks for our class, on a flavor with a topology."""
    config(cluster)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace}
    cluster.queue(controller=IN_TREE, parameters=parameters)
    with_topology(cluster)
