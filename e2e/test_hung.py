"""A node whose kubelet hangs: pods that were told to end there are never taken away, and don't keep its machine for ever."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from e2e.scenario import Scenario, condition, is_true, until
from kube.times import instant, stamp

pytestmark = pytest.mark.timeout(600)  # on a busy machine the start takes minutes
IDLE = "corral.dev/idle-since"


def silent_since(corner: Scenario, node: str, minutes: int) -> None:
    """Says that the node has not been Ready for so long."""
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": stamp(datetime.now(UTC) - timedelta(minutes=minutes))}
    corner.kubectl("patch", "node", node, "--subresource", "status", "-p", json.dumps({"status": {"conditions": [ready]}}))


def finalizers(corner: Scenario, *names: str) -> None:
    """With one the pod stays, as all do whose kubelet doesn't say that they have ended."""
    patch = json.dumps({"metadata": {"finalizers": [*names] or None}})
    corner.kubectl("patch", "pod", "work", "-n", corner.namespace, "--type=merge", "-p", patch)


def test_a_machine_whose_kubelet_hangs_is_ended_after_half_an_hour_though_its_pod_stays(corner: Scenario) -> None:
    corner.set_up(sources=({"name": "od", "capacityType": "on-demand", "scaleIn": {"after": "20s"}},))
    corner.job("gang", 1, seconds=2)
    until(lambda: is_true(corner.workload("gang"), "Finished"), what="the gang is over")
    [machine] = corner.alive()
    node = machine["node"]
    corner.pod("work", node=node)
    until(lambda: corner.get("pod", "work")["status"].get("phase") == "Running", what="somebody's work runs there")
    until(lambda: IDLE in corner.node(node)["metadata"]["annotations"], what="no booking holds it")
    idle = instant(corner.node(node)["metadata"]["annotations"][IDLE])

    finalizers(corner, "e2e.corral.dev/hangs")
    try:
        corner.kubectl("annotate", "node", node, "e2e.corral.dev/unready=true")
        until(lambda: condition(corner.node(node), "Ready")["status"] == "False", what="its node is not Ready")
        corner.kubectl("delete", "pod", "work", "-n", corner.namespace, "--grace-period=1", "--wait=false")
        until(lambda: datetime.now(UTC) > idle + timedelta(seconds=35), seconds=60, what="it would be ended by now")
        silent_since(corner, node, minutes=29)
        assert len(corner.alive()) == 1, "its pod may still run"

        silent_since(corner, node, minutes=31)
        until(lambda: not corner.alive(), seconds=90, what="the machine is ended")
        assert "deletionTimestamp" in corner.get("pod", "work")["metadata"], "the pod has not gone before"
    finally:
        finalizers(corner)
