"""Kueue's own check as producer and Kueue's topology-aware scheduling: the real Kueue asks, Corral serves, Kueue places the pods
on what was bought from nothing, and the real kube-scheduler binds them there.
"""

from typing import Any

import pytest

from e2e.kueue_check import (
    BOOKED,
    GPU,
    HOST,
    ON_KUEUE,
    ZONE,
    admitted,
    assignment,
    booked,
    job,
    made,
    pinned,
    quotas,
    racks,
    second_flavor,
    set_up,
    usage,
)
from e2e.scenario import RACK, Scenario, is_true, until


@pytest.mark.row("3.7-01", "3.8-01", "3.8-13")
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


@pytest.mark.row("3.8-02")
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


@pytest.mark.row("3.7-07", "3.8-07", "3.8-08", "3.8-14")
@pytest.mark.parametrize("topology", [{}, {"required_topology": RACK}], ids=["implicit", "required"])
def test_quota_alone_is_reserved_until_the_nodes_are_there(corner: Scenario, topology: dict[str, Any]) -> None:
    set_up(corner)
    corner.stack.cloud.fault("late", shape=corner.shape, delay="5s")
    job(corner, "llm", 2, **topology)
    until(lambda: len(corner.machines()) == 2, what="ordered")
    assert is_true(corner.workload("llm"), "QuotaReserved")
    assert not admitted(corner, "llm")
    waiting = assignment(corner, "llm")
    assert waiting["delayedTopologyRequest"] == "Pending"
    assert "topologyAssignment" not in waiting
    until(lambda: len(corner.bound("llm")) == 2, what="bound")
    assert assignment(corner, "llm")["delayedTopologyRequest"] == "Ready"
    events = corner.kubectl("get", "events", "-n", corner.namespace, "-o", "jsonpath={.items[*].reason}")
    assert "SecondPassFailed" not in events


@pytest.mark.row("3.7-04", "3.7-05")
def test_pods_go_to_the_nodes_of_their_booking_and_to_no_other(corner: Scenario) -> None:
    """A free node that Kueue would prefer is left alone; the quota in use is what the pods ask for."""
    set_up(corner)
    decoy = f"{corner.name}-decoy"
    corner.adopt(decoy)
    corner.kubectl("label", "node", decoy, f"{ZONE}=east", f"{RACK}=decoy")
    until(lambda: is_true(corner.node(decoy), "Ready"), what="the decoy is ready")
    job(corner, "llm", 1, required_topology=HOST)
    until(lambda: len(corner.bound("llm")) == 1, what="bound")
    assert corner.bound("llm") == [*booked(corner)] != [decoy]
    until(lambda: usage(corner) == "8", what="Kueue counts the quota")


@pytest.mark.row("3.8-03", "3.8-04")
@pytest.mark.parametrize("topology", [{}, {"required_topology": RACK}], ids=["implicit", "required"])
def test_two_flavors_with_topologies(corner: Scenario, topology: dict[str, Any]) -> None:
    second = second_flavor(corner, **{ZONE: "east"})
    set_up(corner, queue=quotas(corner, {corner.name: 8, second: 16}))
    job(corner, "first", 1, only_gpus=True, **topology)
    job(corner, "second", 2, only_gpus=True, **topology)
    until(lambda: len(corner.bound("first") + corner.bound("second")) == 3, what="both bound")
    assert assignment(corner, "first")["flavors"]["nvidia.com/gpu"] == corner.name
    assert assignment(corner, "second")["flavors"]["nvidia.com/gpu"] == second
    assert {assignment(corner, name)["delayedTopologyRequest"] for name in ("first", "second")} == {"Ready"}


@pytest.mark.row("3.8-05", "3.8-06", "3.8-10")
def test_the_check_on_one_of_two_flavors(corner: Scenario) -> None:
    """The first flavor has one node that is there and no check; what does not fit it goes to the second: nodes are bought.

    What may land on the first flavor doesn't tolerate our taint: the guard of booked room refuses pods that do without a booking.
    """
    second, node = second_flavor(corner, **{ZONE: "east"}), f"{corner.name}-there"
    corner.adopt(node)
    corner.kubectl("label", "node", node, f"{ZONE}=old", f"{RACK}=old", "old=true")
    until(lambda: is_true(corner.node(node), "Ready"))
    queue = quotas(corner, {corner.name: 64, second: 64}, check_on=(second,))
    set_up(corner, flavors={"nodeLabels": {"old": "true", "corner": corner.name}, "tolerations": [GPU]}, queue=queue)
    job(corner, "bought", 2, only_gpus=True, required_topology=RACK)
    until(lambda: len(corner.bound("bought")) == 2, what="bound on what was bought")
    assert assignment(corner, "bought")["flavors"]["nvidia.com/gpu"] == second
    corner.job("there", 1, notes={f"{ON_KUEUE}required-topology": RACK}, tolerations=[GPU])
    until(lambda: corner.bound("there") == [node], what="bound on the node that was there")
    assert "delayedTopologyRequest" not in assignment(corner, "there")
    assert len(corner.requests()) == 1


def test_two_pod_sets_share_one_selector_and_all_pods_are_placed(corner: Scenario) -> None:
    """A group of plain pods of two kinds: one selector for both, so that either may be sent to any node of the booking."""
    set_up(corner)
    large = {**corner.pod_spec(8), "tolerations": [GPU, BOOKED]}
    small = {**large, "containers": [{**corner.pod_spec(4)["containers"][0], "image": "driver"}]}
    for index, spec in enumerate([small, large, large]):
        labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "pair"}
        notes = {"kueue.x-k8s.io/pod-group-total-count": "3", "e2e.corral.dev/run-seconds": "600"}
        notes |= {f"{ON_KUEUE}required-topology": ZONE}
        meta = {"name": f"pair-{index}", "namespace": corner.namespace, "labels": labels, "annotations": notes}
        corner.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    until(lambda: len(pinned(corner)) == 3, what="all three pods bound")
    assert set(pinned(corner)) <= set(booked(corner))
    found = corner.items("workload")[0]["status"]["admission"]["podSetAssignments"]
    assert sorted(each["count"] for each in found) == [1, 2]
    assert {len(each["topologyAssignment"]["slices"]) > 0 for each in found} == {True}


def test_a_leader_and_its_workers_are_placed_in_one_rack(corner: Scenario) -> None:
    """A group of two pod sets in a Workload of nobody's, as operators write it: Kueue itself assigns both."""
    set_up(corner, sources=("reserved",))
    request = {"required": RACK, "podSetGroupName": "pair"}
    spec = {**corner.pod_spec(4), "tolerations": [GPU, BOOKED]}
    pod_sets = [
        {"name": name, "count": count, "template": {"spec": spec}, "topologyRequest": request}
        for name, count in (("leader", 1), ("workers", 3))
    ]
    corner.apply(made("Workload", "pair", {"queueName": "q", "podSets": pod_sets}, corner.namespace))
    until(lambda: is_true(corner.get("workload", "pair"), "Admitted"), what="admitted")
    nodes = booked(corner)
    assert len(nodes) == 2
    assert len({node["metadata"]["labels"][RACK] for node in nodes.values()}) == 1
