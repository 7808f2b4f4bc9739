"""A gang gets all of its capacity, in the right place, or nothing: with the real Kueue and the real kube-scheduler."""

import time
from typing import Any

import pytest

from e2e.scenario import RACK, Scenario, condition, is_true, until


def admitted(corner: Scenario, job: str) -> bool:
    return is_true(corner.workload(job), "Admitted")


def deactivated(corner: Scenario, job: str) -> bool:
    return corner.workload(job)["spec"].get("active") is False


def given_back(corner: Scenario) -> bool:
    return not corner.alive() and all(b["status"]["phase"] in ("Released", "Failed") for b in corner.bookings())


def test_a_gang_is_bound_whole_in_one_rack_of_its_booking_and_nobody_else_gets_in(corner: Scenario) -> None:
    corner.set_up()
    half = corner.pod_spec(gpus=4)
    corner.job("llm", 3, rack=True, **half)
    until(lambda: len(corner.bound("llm")) == 3, what="all three pods bound")
    nodes = [corner.node(name) for name in sorted({*corner.bound("llm")})]
    booking = corner.bookings()[0]
    assert len(nodes) == 2
    assert len({node["metadata"]["labels"][RACK] for node in nodes}) == 1
    label = booking["spec"]["podSets"][0]["label"]
    assert all(node["metadata"]["labels"][label] == "true" for node in nodes)
    machines = {machine["node"] for machine in corner.alive()}
    assert {node["metadata"]["name"] for node in nodes} == machines
    assert {machine["capacityType"] for machine in corner.alive()} == {"reserved"}

    # The same requests without a booking: half a machine is free for them, and only the taint keeps them out of it.
    corner.pod("intruder", **half)
    until(lambda: condition(corner.get("pod", "intruder"), "PodScheduled").get("reason") == "Unschedulable")
    assert "node(s) had untolerated taint" in condition(corner.get("pod", "intruder"), "PodScheduled")["message"]
    time.sleep(3)
    assert "nodeName" not in corner.get("pod", "intruder")["spec"]


def test_what_a_reservation_lacks_is_bought_and_all_is_given_back_when_the_job_ends(corner: Scenario) -> None:
    corner.set_up(policy={"crossZone": {"policy": "Allow"}})
    corner.job("big", 5, seconds=3)
    until(lambda: len(corner.bound("big")) == 5, what="all five pods bound")
    kinds = sorted(machine["capacityType"] for machine in corner.machines())
    assert kinds == ["on-demand"] + ["reserved"] * 4
    until(lambda: is_true(corner.workload("big"), "Finished"))
    until(lambda: given_back(corner), what="everything given back")
    assert len(corner.machines()) == 5


def test_capacity_that_appears_before_the_deadline_is_taken(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy={"timeouts": {"queued": "60s", "provision": "60s", "booking": "30s"}})
    corner.outside({"a": 2, "b": 2})
    corner.job("late", 2)
    until(lambda: condition(corner.requests()[0], "Provisioned").get("status") == "False")
    waiting = condition(corner.requests()[0], "Provisioned")
    assert waiting["reason"] == "GangIncomplete"
    assert "0 of 2" in waiting["message"]
    assert not corner.machines()
    corner.outside({"a": 0, "b": 0})
    until(lambda: len(corner.bound("late")) == 2, what="bound once the capacity came")


def test_capacity_that_never_appears_is_tried_again_with_backoff_then_refused(corner: Scenario) -> None:
    corner.set_up(
        sources=("reserved",),
        policy={"timeouts": {"queued": "3s", "provision": "60s", "booking": "30s"}, "retry": {"limit": 1, "backoff": "4s"}},
    )
    corner.outside({"a": 2, "b": 2})
    corner.job("never", 2)
    until(corner.requests, what="first request")
    first = corner.requests()[0]["metadata"]["name"]
    until(lambda: is_true(corner.get("provreq", first), "Failed"), what="first attempt fails")
    until(lambda: deactivated(corner, "never"), what="refused after the retry")
    assert not corner.machines()
    requeued = [item["metadata"]["annotations"]["corral.dev/attempt"] for item in corner.requests()]
    assert requeued == [] or "2" in requeued
    events = corner.kubectl("get", "events", "-n", corner.namespace, "-o", "jsonpath={.items[*].message}")
    assert "GangIncomplete" in events


def test_a_bad_machine_is_replaced_and_ended_before_the_gang_starts(corner: Scenario) -> None:
    readiness = {"timeout": "8s", "requiredDaemonSets": ["kube-system/nvidia-device-plugin"]}
    corner.set_up(sources=("on-demand",), pool={"readiness": readiness})
    corner.stack.cloud.fault("fewer-devices", shape=corner.shape, devices={"nvidia.com/gpu": 7}, times=1)
    corner.job("picky", 2, nodeSelector={"topology.kubernetes.io/zone": "west"})  # which has more than the two that it needs
    until(lambda: len(corner.bound("picky")) == 2, seconds=100, what="bound on sound machines")
    nodes = [corner.node(name) for name in corner.bound("picky")]
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["8", "8"]
    assert len(corner.machines()) == 3
    until(lambda: len(corner.alive()) == 2, what="the bad machine ended")


def test_a_launch_that_comes_up_short_is_undone_and_repeated_elsewhere(corner: Scenario) -> None:
    corner.set_up(sources=("on-demand",))
    # Zone west has four but can deliver none for this gang: what the attempt got must go, and north has two.
    corner.stack.cloud.fault("stock-out", shape=corner.shape, zone="west")
    corner.job("moved", 2)
    until(lambda: len(corner.bound("moved")) == 2, what="bound in the other zone")
    assert {machine["zone"] for machine in corner.alive()} == {"north"}
    assert len(corner.alive()) == 2
    failed = [booking for booking in corner.bookings() if booking["status"]["phase"] == "Failed"]
    assert not failed or "InsufficientCapacity" in str(failed[0]["status"])


def test_machines_that_never_get_sound_are_all_given_back(corner: Scenario) -> None:
    corner.set_up(
        sources=("on-demand",),
        pool={"readiness": {"timeout": "4s", "requiredDaemonSets": ["kube-system/nvidia-device-plugin"]}},
        policy={"timeouts": {"queued": "20s", "provision": "12s", "booking": "30s"}, "retry": {"limit": 0, "backoff": "1s"}},
    )
    corner.stack.cloud.fault("never-joins", shape=corner.shape)
    corner.job("doomed", 2)
    until(lambda: deactivated(corner, "doomed"), seconds=90, what="refused")
    until(lambda: not corner.alive(), what="no machine left")
    assert corner.machines(), "machines were bought, or this test tests nothing"
    assert not corner.bound("doomed")


def test_a_job_deleted_meanwhile_cancels_the_order(corner: Scenario) -> None:
    corner.set_up(sources=("on-demand",))
    corner.stack.cloud.fault("late", shape=corner.shape, delay="20s")
    corner.job("gone", 2)
    until(lambda: len(corner.machines()) == 2, what="ordered")
    corner.kubectl("delete", "job", "gone", "-n", corner.namespace)
    until(lambda: given_back(corner), what="order cancelled")


def test_a_request_deleted_under_a_running_job_changes_nothing(corner: Scenario) -> None:
    corner.set_up()
    corner.job("sacred", 2, seconds=600)
    until(lambda: len(corner.bound("sacred")) == 2)
    corner.kubectl("delete", "provreq", "--all", "-n", corner.namespace)
    time.sleep(8)
    assert len(corner.alive()) == 2
    assert admitted(corner, "sacred")
    assert {pod["status"]["phase"] for pod in corner.pods("sacred")} == {"Running"}
    corner.kubectl("delete", "job", "sacred", "-n", corner.namespace)
    until(lambda: given_back(corner), what="given back once the job is gone")


def test_a_request_without_a_workload_is_refused_unless_the_policy_admits_its_namespace(corner: Scenario) -> None:
    corner.set_up()
    _bare_request(corner, "bare")
    until(lambda: is_true(corner.get("provreq", "bare"), "Failed"))
    refused = condition(corner.get("provreq", "bare"), "Failed")
    assert refused["reason"] == "NoQuota"
    assert "bareRequests" in refused["message"]
    assert not corner.machines()
    corner.apply_policy(bareRequests={"namespaces": [corner.namespace]})
    time.sleep(1)
    _bare_request(corner, "allowed")
    until(lambda: is_true(corner.get("provreq", "allowed"), "Provisioned"))
    assert len(corner.alive()) == 1
    corner.kubectl("delete", "provreq", "allowed", "-n", corner.namespace)
    until(lambda: given_back(corner), what="given back with the request")


def _bare_request(corner: Scenario, name: str) -> None:
    spec = corner.pod_spec()
    spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    meta = {"name": name, "namespace": corner.namespace}
    corner.apply({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"spec": spec}})
    request = {
        "provisioningClassName": "gang.corral.dev",
        "podSets": [{"count": 1, "podTemplateRef": {"name": name}}],
        "parameters": {"policy": corner.name},
    }
    corner.apply({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": meta, "spec": request})


@pytest.mark.parametrize("mode", ["Observe", "Paused"])
def test_a_pool_that_is_not_active_buys_nothing_and_says_so(corner: Scenario, mode: str) -> None:
    corner.set_up(pool={"mode": mode})
    corner.job("dry", 2)
    until(lambda: mode in condition(corner.requests()[0], "Provisioned").get("message", ""))
    assert condition(corner.requests()[0], "Provisioned")["status"] == "False"
    time.sleep(3)
    assert not corner.machines()
    corner.kubectl("patch", "cpool", corner.name, "--type", "merge", "-p", '{"spec":{"mode":"Active"}}')
    until(lambda: len(corner.bound("dry")) == 2, what="served once the pool is Active")


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        pytest.param({"onDemandNodes": 1}, "onDemandNodes", id="nodes"),
        pytest.param({"onDemandSpendPerDay": "1"}, "onDemandSpendPerDay", id="money"),
    ],
)
def test_limits_of_a_pool_hold_and_are_named(corner: Scenario, limits: dict[str, object], named: str) -> None:
    corner.set_up(sources=("on-demand",), pool={"limits": limits})
    corner.job("greedy", 2)
    until(lambda: named in condition(corner.requests()[0], "Provisioned").get("message", ""))
    assert condition(corner.requests()[0], "Provisioned")["status"] == "False"
    time.sleep(2)
    assert not corner.machines()


def test_a_free_node_taken_between_plan_and_mark_is_left_and_another_one_booked(corner: Scenario) -> None:
    names = [f"{corner.name}-{number}" for number in (1, 2)]
    corner.adopt(*names)
    adopted = {
        "provider": {"adopted": {}},
        "nodeSelector": {"matchLabels": {"corner": corner.name}},
        "shapes": [],
        "readiness": {},
    }
    corner.set_up(sources=(), pool=adopted)
    until(lambda: all(is_true(corner.node(name), "Ready") for name in names))
    corner.job("settler", 1)
    # A pod that was bound while the mark was on its way: bound there, as the scheduler's late binding would.
    marked = until(lambda: next((name for name in names if _booked(corner.node(name))), None), what="a node is marked")
    corner.pod("squatter", node=str(marked), tolerations=[])
    until(lambda: len(corner.bound("settler")) == 1, what="bound elsewhere")
    assert corner.bound("settler") == [name for name in names if name != marked]
    until(lambda: not _booked(corner.node(str(marked))), what="the taken node is free of marks")
    assert corner.get("pod", "squatter")["status"]["phase"] == "Running"


def _booked(node: dict[str, Any]) -> bool:
    return any(taint["key"] == "corral.dev/booked" for taint in node["spec"].get("taints", []))
