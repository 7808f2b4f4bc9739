"""Repair as a user sees it: bad machines are replaced, sick nodes kept out, lost machines replaced under a running job, and nodes
that are about to end emptied first.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.scenario import RACK, Scenario, condition, is_true, until
from kube import resources
from kube.times import stamp

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)  # on a busy machine the start takes minutes
SLOW = 180.0
TIMES = {"timeouts": {"queued": "2m", "provision": "4m", "booking": "2m"}}


def start(corner: Scenario, pods: int, *, rack: bool = True) -> list[Json]:
    """Job `trains` of so many pods in one rack, whose lost pods come again; its machines once all pods are bound."""
    level = {"corral.dev/required-topology": RACK} if rack else {}
    template = {"metadata": {"annotations": {"e2e.corral.dev/run-seconds": "3600", **level}}, "spec": corner.pod_spec()}
    meta = {"name": "trains", "namespace": corner.namespace, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 20, "template": template}
    corner.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    until(lambda: len(running(corner)) == pods, seconds=SLOW, what="all pods run")
    return corner.alive()


def running(corner: Scenario) -> dict[str, str]:
    """The node of each pod that runs and is not on its way out, by the pod's name."""
    pods = [pod for pod in corner.pods("trains") if pod["status"].get("phase") == "Running"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def told(corner: Scenario, reason: str) -> list[str]:
    """The words of the events with this reason on the request."""
    [request] = corner.requests()
    events = corner.events("ProvisioningRequest", request["metadata"]["name"])
    return [each["message"] for each in events if each["reason"] == reason]


def test_a_machine_that_is_bad_at_join_is_replaced_in_a_full_reservation(corner: Scenario) -> None:
    """All four machines of the reservation are needed: the bad one is given back, or its replacement has no slot."""
    corner.set_up(sources=("reserved",), policy=TIMES)
    corner.stack.cloud.fault("fewer-devices", shape=corner.shape, devices={"nvidia.com/gpu": 7}, times=1)
    start(corner, 4, rack=False)
    machines = corner.machines()
    bad = [each for each in machines if each["devices"]["nvidia.com/gpu"] == 7]
    assert (len(machines), len(bad)) == (5, 1)
    assert bad[0]["state"] in ("shutting-down", "terminated")
    assert bad[0]["id"] not in running(corner).values()
    [words] = told(corner, "MachineBad")
    assert words.startswith(f"{bad[0]['id']}: 7 of 8 nvidia.com/gpu")
    assert len(corner.bookings()) == 1, "one attempt was enough"


def test_a_node_whose_health_condition_turns_bad_is_quarantined_and_its_pods_run_on(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy=TIMES)
    start(corner, 2)
    before = running(corner)
    sick = min(before.values())
    bad = {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "message": "task docker:7 blocked"}
    patch = json.dumps({"status": {"conditions": [bad]}})
    corner.kubectl("patch", "node", sick, "--subresource", "status", "-p", patch)

    def quarantined() -> bool:
        node = corner.node(sick)
        return node["metadata"]["labels"].get("corral.dev/quarantined") == "true" and bool(node["spec"].get("unschedulable"))

    until(quarantined, seconds=SLOW, what="the sick node is quarantined")
    assert running(corner) == before
    assert len(corner.machines()) == 2
    [booking] = corner.bookings()
    [machine] = [each for each in booking["status"]["instances"] if each["node"] == sick]
    assert machine["message"] == "KernelDeadlock=True (DockerHung: task docker:7 blocked)"
    corner.kubectl("delete", "job", "trains", "-n", corner.namespace)
    until(lambda: corner.bookings()[0]["status"]["phase"] == "Released", seconds=SLOW, what="the booking is over")
    assert sick not in [each["id"] for each in corner.alive()], "a sick machine is given back, not kept for the next gang"


def test_a_machine_that_is_lost_under_a_running_job_is_replaced_in_its_rack(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy=TIMES)
    first = start(corner, 2)
    lost, kept = (each["id"] for each in first)
    corner.stack.cloud.terminate(lost)
    until(
        lambda: len(nodes := {*running(corner).values()}) == 2 and lost not in nodes,
        seconds=SLOW,
        what="the pod that was lost runs again",
    )
    assert kept in running(corner).values()
    assert len(corner.machines()) == 3
    racks = {each["domain"][RACK] for each in corner.machines()}
    assert len(racks) == 1, "another rack than the gang's"
    [booking] = corner.bookings()
    assert booking["status"]["phase"] == "Provisioned"
    assert any("1 of 2" in words for words in told(corner, "NodeLost"))
    until(lambda: not is_true(corner.bookings()[0], "NodeLost"), seconds=SLOW, what="nothing is lost any more")


def test_nodes_are_emptied_before_their_reservation_ends_and_a_disruption_budget_holds(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy={**TIMES, "onNodeLoss": "Leave"})
    corner.api.merge(resources.CAPACITY_POOLS, "", corner.name, {"spec": {"sources": [_draining(corner)]}})
    start(corner, 2)
    before = running(corner)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "trains"}}}
    corner.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "one", "namespace": corner.namespace},
            "spec": budget,
        }
    )
    ends = stamp(datetime.now(UTC) + timedelta(minutes=30))
    corner.stack.cloud.put("/control/reservations", {"id": corner.reservation, "ends": ends})
    until(lambda: len(running(corner)) == 1, seconds=SLOW, what="one pod has left")
    assert all(corner.node(name)["spec"]["unschedulable"] for name in before.values())
    assert any(f"reservation {corner.reservation} ends at" in words for words in told(corner, "NodesEnding"))
    [booking] = corner.bookings()
    assert condition(booking, "NodesEnding")["reason"] == "ReservationEnds"
    assert len(running(corner)) == 1, "the budget keeps one pod there"
    corner.kubectl("delete", "pdb", "one", "-n", corner.namespace)
    until(lambda: not running(corner), seconds=SLOW, what="the other pod has left")
    assert len(corner.alive()) == 2, "nothing is ended under a workload that is not over"


def _draining(corner: Scenario) -> Json:
    return {
        "name": "reserved",
        "capacityType": "reserved",
        "reservationIDs": [corner.reservation],
        "drainBeforeEnd": "1h",
        "scaleIn": {"policy": "WhenIdle", "after": "1s"},
    }
