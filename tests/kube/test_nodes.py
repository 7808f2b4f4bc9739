"""From Node and Pod views to the planner's nodes and shapes."""

from typing import Any

import pytest

from capacity.model import CapacityType
from capacity.requirements import HostPort, LabelSelector, PodTerm, Taint
from kube.core import Node, Pod
from kube.meta import decode
from kube.nodes import bystander, node, running, shape


def machine(**status: Any) -> Node:
    labels = {
        "kubernetes.io/hostname": "n1",
        "pool": "a",
        "rack": "r1",
        "b-1.booking.corral.dev/main": "true",
        "corral.dev/pool": "a",
    }
    taints = [
        {"key": "gpu", "effect": "NoSchedule", "value": "yes"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "corral.dev/booked", "effect": "NoSchedule"},
        {"key": "cni.example/starting", "effect": "NoSchedule"},
    ]
    allocatable = {"cpu": "7500m", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return decode(
        {
            "metadata": {"name": "n1", "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": allocatable, **status},
        },
        Node,
    )


def pod(name: str, cpu: str, phase: str = "Running", **metadata: Any) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return decode({"metadata": {"name": name, **metadata}, "spec": {"containers": containers}, "status": {"phase": phase}}, Pod)


def test_counts_every_pod_that_isnt_terminal() -> None:
    pods = [
        pod("runs", "1"),
        pod("waits", "2", "Pending"),
        pod("leaves", "3", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("done", "50", "Succeeded"),
        pod("broken", "50", "Failed"),
    ]
    result = node(machine(), pods, pool="a")
    assert result.requested == {"cpu": 6000, "pods": 3}
    assert result.allocatable == {"cpu": 7500, "memory": 16 * 2**30, "pods": 110, "nvidia.com/gpu": 8}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([], False, id="never said"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="unknown"),
        pytest.param([{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}], True, id="ready"),
    ],
)
def test_ready_is_what_the_kubelet_says(conditions: list[dict[str, str]], ready: bool) -> None:
    assert node(machine(conditions=conditions), [], pool="a").ready is ready


def test_takes_what_the_caller_knows() -> None:
    result = node(machine(), [], pool="a", booked_by="b-1", capacity_type=CapacityType.RESERVED, price=5)
    assert (result.booked_by, result.capacity_type, result.price, result.ends) == ("b-1", CapacityType.RESERVED, 5, None)


def test_a_shape_keeps_what_all_its_nodes_have() -> None:
    result = shape("big", machine(), overhead={"cpu": 100}, per_node_labels=["rack"], startup_taints=["cni.example/"])
    assert result.labels == {"pool": "a"}
    assert result.taints == (Taint("gpu", "NoSchedule", "yes"),)
    assert (result.name, result.overhead) == ("big", {"cpu": 100})


def test_names_the_resource_of_a_bad_amount() -> None:
    with pytest.raises(ValueError, match='cpu: "lots" is not a quantity'):
        node(machine(allocatable={"cpu": "lots"}), [], pool="a")


def test_names_the_pods_that_count() -> None:
    pods = [
        pod("runs", "1", namespace="team", labels={"app": "x"}),
        pod("leaves", "1", namespace="team", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("done", "1", "Succeeded"),
    ]
    found = node(machine(), pods, pool="a").pods
    assert [(each.namespace, each.labels, each.terminating) for each in found] == [
        ("team", {"app": "x"}, False),
        ("team", {}, True),
    ]


def test_a_running_pod_keeps_its_ports_and_its_distance() -> None:
    term = {"topologyKey": "rack", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    spec = {
        "containers": [{"name": "main", "ports": [{"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"}]}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }
    view = decode({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}, Pod)
    found = running(view, {"team": {}, "other": {"a": "b"}})
    assert found.ports == (HostPort(80, "UDP", "10.0.0.1"),)
    assert found.apart == (PodTerm("rack", LabelSelector(), frozenset({"other"})),)
    assert running(view).apart == (PodTerm("rack", LabelSelector(), None),)


def test_a_bystander_keeps_the_pods_that_count() -> None:
    found = bystander(machine(), [pod("runs", "1", namespace="team"), pod("done", "1", "Succeeded")])
    assert (found.name, found.labels["rack"], len(found.pods), len(found.taints)) == ("n1", "r1", 1, 4)
