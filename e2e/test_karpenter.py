"""Nodes of Karpenter beside pools of ours, and the requests of a running job that Cluster Autoscaler collects."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.scenario import Scenario, condition, is_true, until

NODE_POOL = "karpenter.sh/nodepool"
GUARDS = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


class Karpenter:
    """Nodes as Karpenter 1.15 leaves them once they are initialized: its labels, its finalizer, its hash annotation."""

    def __init__(self, corner: Scenario) -> None:
        self.corner, self.pool = corner, f"kp-{corner.namespace}"
        self.names = [f"{self.pool}-{number}" for number in range(2)]

    def launch(self) -> None:
        """Two empty machines of the shape that the test's pool buys, each with room for one of its pods."""
        for name in self.names:
            self.corner.apply({"apiVersion": "v1", "kind": "Node", "metadata": self._metadata(name), "status": self._status()})
        until(lambda: all(is_true(self.corner.node(name), "Ready") for name in self.names), what="Karpenter's nodes are ready")

    def _metadata(self, name: str) -> dict[str, Any]:
        labels = {
            NODE_POOL: self.pool,
            "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
            "nvidia.com/gpu.present": "true",  # where the device plugin runs
            "kubernetes.io/hostname": name,
            "node.kubernetes.io/instance-type": self.corner.shape,
            "topology.kubernetes.io/zone": "east",
        }
        notes = {"kwok.x-k8s.io/node": "fake", "karpenter.sh/nodepool-hash": "1"}
        return {"name": name, "labels": labels, "annotations": notes, "finalizers": ["karpenter.sh/termination"]}

    def _status(self) -> dict[str, Any]:
        room = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": "8"}
        return {"allocatable": room, "capacity": room}

    def marks(self) -> list[str]:
        """Whatever of ours is on its nodes."""
        return [mark for name in self.names for mark in _marks(self.corner.node(name))]

    def remove(self) -> None:
        nothing = json.dumps({"metadata": {"finalizers": None}})
        self.corner.kubectl("delete", "node", *self.names, "--ignore-not-found", "--wait=false")
        for name in self.names:
            self.corner.kubectl("patch", "node", name, "--type=merge", "--patch", nothing)


def _marks(node: dict[str, Any]) -> list[str]:
    keys = [*node["metadata"]["labels"], *node["metadata"].get("annotations", {})]
    taints = [each["key"] for each in node["spec"].get("taints", [])]
    return [key for key in (*keys, *taints) if "corral.dev" in key or key in GUARDS]


@pytest.fixture
def karpenter(corner: Scenario) -> Iterator[Karpenter]:
    made = Karpenter(corner)
    made.launch()
    yield made
    made.remove()


def test_its_nodes_are_not_planned_on_though_they_are_free_and_would_do(corner: Scenario, karpenter: Karpenter) -> None:
    corner.set_up()
    corner.job("a", 2)
    until(lambda: len(corner.bound("a")) == 2, what="the gang is bound")
    assert not set(corner.bound("a")) & set(karpenter.names)
    assert len(corner.alive()) == 2
    assert not karpenter.marks()
    corner.kubectl("delete", "job", "a", "-n", corner.namespace)
    until(lambda: not corner.alive(), what="what was bought is given back")
    assert all(corner.node(name)["metadata"].get("deletionTimestamp") is None for name in karpenter.names)


def test_a_pool_that_selects_them_books_them_guards_them_and_gives_them_back(corner: Scenario, karpenter: Karpenter) -> None:
    corner.set_up(pool={"nodeSelector": {"matchLabels": {NODE_POOL: karpenter.pool}}})
    corner.job("a", 2)
    until(lambda: len(corner.bound("a")) == 2, what="the gang is bound")
    assert set(corner.bound("a")) == set(karpenter.names)
    assert not corner.machines()
    for name in karpenter.names:
        assert corner.node(name)["metadata"]["annotations"].items() >= dict.fromkeys(GUARDS, "true").items()
    corner.kubectl("delete", "job", "a", "-n", corner.namespace)
    until(lambda: not karpenter.marks(), what="its nodes are as they were")
    assert all(corner.node(name)["metadata"].get("deletionTimestamp") is None for name in karpenter.names)


def test_a_running_gang_whose_request_is_collected_keeps_its_machines_and_gives_them_back_at_its_end(corner: Scenario) -> None:
    """Cluster Autoscaler 1.32 and later deletes requests of any class a week after their last word on Provisioned or Failed."""
    corner.set_up()
    corner.job("a", 2)
    until(lambda: len(corner.bound("a")) == 2, what="the gang is bound")
    [request] = corner.requests()
    assert condition(request, "Provisioned")["status"] == "True"  # the autoscaler goes by its age alone, whatever it says
    before = {machine["id"] for machine in corner.alive()}
    corner.kubectl("delete", "provreq", request["metadata"]["name"], "-n", corner.namespace)
    until(lambda: not corner.requests(), what="the request is gone")
    booking = until(corner.bookings, what="its booking is there")[0]
    assert len(corner.bound("a")) == 2
    assert {machine["id"] for machine in corner.alive()} == before
    corner.kubectl("delete", "job", "a", "-n", corner.namespace)
    until(lambda: not corner.alive(), what="no machine is left")
    until(lambda: booking["metadata"]["name"] not in [b["metadata"]["name"] for b in corner.bookings()], what="nor a booking")
