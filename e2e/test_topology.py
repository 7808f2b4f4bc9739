"""Kueue's own check as producer and Kueue's topology-aware scheduling: the real Kueue asks, Corral serves, Kueue places the pods
on what was bought from nothing, and the real kube-scheduler binds them there.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from e2e.scenario import RACK, Scenario, condition, is_true, until

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
LEVELS = (ZONE, RACK, HOST)
KUEUE = "kueue.x-k8s.io/v1beta2"
ON_KUEUE = "kueue.x-k8s.io/podset-"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
BOOKED = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
MARK = {"key": "corral.dev/request", "valueFromProvisioningClassDetail": "RequestLabel"}
RETRY = {"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2}


def made(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": KUEUE, "kind": kind, "metadata": meta, "spec": dict(spec)}


def flavor(corner: Scenario, **spec: Any) -> dict[str, Any]:
    base = {
        "nodeLabels": {"node.kubernetes.io/instance-type": corner.shape},
        "topologyName": corner.name,
        "tolerations": [GPU, BOOKED],
    }
    return made("ResourceFlavor", corner.name, base | spec)


def set_up(
    corner: Scenario,
    *,
    levels: tuple[str, ...] = LEVELS,
    flavors: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    queue: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """As a Scenario's own, but the check is Kueue's, and the flavor has a topology."""
    name = corner.name
    corner.apply_pool(sources=more.pop("sources", ("reserved", "on-demand")), **more.pop("pool", {}))
    corner.apply_policy(**more.pop("policy", {}))
    corner.apply(made("Topology", name, {"levels": [{"nodeLabel": key} for key in levels]}))
    corner.apply(flavor(corner, **(flavors or {})))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    base = {
        "provisioningClassName": "gang.corral.dev",
        "parameters": {"policy": name},
        "podSetUpdates": {"nodeSelector": [MARK]},
        "retryStrategy": RETRY,
    }
    corner.apply(made("ProvisioningRequestConfig", name, base | dict(config or {})))
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    corner.apply(made("AdmissionCheck", name, controller))
    corner.apply(made("ClusterQueue", name, {**corner.queue(), **(queue or {})}))
    corner.apply(made("LocalQueue", "q", {"clusterQueue": name}, corner.namespace))
    corner.kubectl("wait", "--for=condition=Active", f"clusterqueue/{name}", "--timeout=30s")


def job(corner: Scenario, name: str, count: int, gpus: int = 8, seconds: int = 600, **topology: str) -> None:
    """A Job whose pods ask Kueue for a topology: `required=RACK` is podset-required-topology, and so on."""
    notes = {f"{ON_KUEUE}{key.replace('_', '-')}": value for key, value in topology.items()}
    corner.job(name, count, seconds=seconds, notes=notes, **corner.pod_spec(gpus))


def admitted(corner: Scenario, name: str) -> bool:
    return is_true(corner.workload(name), "Admitted")


def assignment(corner: Scenario, name: str) -> dict[str, Any]:
    found: dict[str, Any] = corner.workload(name)["status"]["admission"]["podSetAssignments"][0]
    return found


def booked(corner: Scenario) -> dict[str, Any]:
    """The nodes of the corner's live bookings, by name."""
    names = {b["metadata"]["name"] for b in corner.bookings() if b["status"]["phase"] == "Provisioned"}
    nodes = json.loads(corner.kubectl("get", "nodes", "-l", f"node.kubernetes.io/instance-type={corner.shape}", "-o", "json"))
    return {n["metadata"]["name"]: n for n in nodes["items"] if n["metadata"]["labels"].get("corral.dev/request") in names}


def racks(corner: Scenario, name: str) -> Counter[str]:
    """Pods by the rack of the node that they are bound to."""
    nodes = booked(corner)
    return Counter(nodes[node]["metadata"]["labels"][RACK] for node in corner.bound(name))


def given_back(corner: Scenario) -> bool:
    return not corner.alive() and all(b["status"]["phase"] in ("Released", "Failed") for b in corner.bookings())


def test_a_gang_in_one_rack_from_no_node_at_all(corner: Scenario) -> None:
    set_up(corner)
    job(corner, "llm", 4, gpus=4, required_topology=RACK)
    until(corner.requests, what="Kueue asks")
    assert corner.requests()[0]["metadata"]["name"] == f"{corner.workload('llm')['metadata']['name']}-{corner.name}-1"
    until(lambda: len(corner.bound("llm")) == 4, what="all pods bound")
    assert set(corner.bound("llm")) == set(booked(corner))
    assert len(racks(corner, "llm")) == 1
    found = assignment(corner, "llm")
    assert found["delayedTopologyRequest"] == "Ready"
    assert found["topologyAssignment"]["levels"] == [HOST]
    for pod in corner.pods("llm"):
        assert pod["spec"]["nodeSelector"]["corral.dev/request"] == corner.bookings()[0]["metadata"]["name"]
        assert pod["spec"]["nodeSelector"][HOST] == pod["spec"]["nodeName"]


def test_a_rack_that_is_only_preferred_gives_way(corner: Scenario) -> None:
    set_up(corner, sources=("reserved",))
    job(corner, "llm", 4, preferred_topology=RACK)
    until(lambda: len(corner.bound("llm")) == 4, what="all pods bound")
    assert sorted(racks(corner, "llm").values()) == [2, 2]


def test_unconstrained_pods_are_placed_on_what_was_bought_for_them(corner: Scenario) -> None:
    set_up(corner)
    job(corner, "llm", 3, unconstrained_topology="true")
    until(lambda: len(corner.bound("llm")) == 3, what="all pods bound")
    assert set(corner.bound("llm")) == set(booked(corner))


def test_a_flavor_with_a_topology_makes_every_job_of_its_queue_topology_aware(corner: Scenario) -> None:
    """No annotation: Kueue places the pods, for the queue has no other flavor."""
    set_up(corner)
    job(corner, "llm", 2)
    until(lambda: len(corner.bound("llm")) == 2, what="all pods bound")
    assert "topologyAssignment" in assignment(corner, "llm")


def test_slices_are_whole_in_their_racks(corner: Scenario) -> None:
    set_up(corner, sources=("reserved",))
    job(corner, "llm", 8, gpus=4, required_topology=ZONE, slice_required_topology=RACK, slice_size="4")
    until(lambda: len(corner.bound("llm")) == 8, what="all pods bound")
    assert sorted(racks(corner, "llm").values()) == [4, 4]


def test_what_fits_in_no_rack_is_told_and_never_bought(corner: Scenario) -> None:
    set_up(corner, sources=("reserved",), policy={"timeouts": {"queued": "3s", "provision": "60s", "booking": "30s"}})
    job(corner, "wide", 3, required_topology=RACK)
    until(lambda: is_true(corner.requests()[0], "Failed"), what="the first request fails")
    assert condition(corner.requests()[0], "Failed")["reason"] == "TopologyUnsatisfied"
    until(lambda: corner.workload("wide")["spec"].get("active") is False, what="Kueue gives up after its retry")
    assert len(corner.requests()) == 2
    assert not corner.machines()
