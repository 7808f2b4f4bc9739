"""Nodes of simulated machines: how they register, and what is due when."""

from typing import Any

import pytest

from provisioner.clouds.simulated.nodes import due, node, plugin_nodes, startup_taints, with_devices, without_taints
from provisioner.clouds.simulated.records import Machine
from provisioner.clouds.simulated.wire import Taint
from provisioner.clouds.simulated.world import World
from tests.provisioner.clouds.simulated.worlds import BLOCK, H100, RACK, START, add, after, on_demand, reserved, world

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
BOOKED = {"key": "corral.dev/booked", "effect": "NoSchedule"}
STARTING = {"key": "starting", "effect": "NoSchedule"}


def tainted() -> World:
    return world(shapes=[{"name": H100, "taints": [GPU_TAINT], "startupTaints": [STARTING]}])


def bought(there: World, **order: Any) -> Machine:
    (machine,) = there.launch(reserved("t", 1, domain={RACK: "r2"}, **order), START)
    return machine


def test_node_registers_with_all_labels_and_taints_and_no_device() -> None:
    there = tainted()
    machine = bought(there, labels={"pool": "p"}, annotations={"a": "b"}, taints=(Taint(**BOOKED),))
    made = node(there.config, machine)
    assert made["metadata"]["name"] == machine.id
    assert made["metadata"]["labels"] == {
        "pool": "p",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.present": "true",
        "node.kubernetes.io/instance-type": H100,
        "kubernetes.io/hostname": machine.id,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "sim-1",
        "topology.kubernetes.io/zone": "z1",
        BLOCK: "b1",
        RACK: "r2",
    }
    assert made["metadata"]["annotations"] == {"a": "b", "kwok.x-k8s.io/node": "fake"}
    assert made["spec"] == {"providerID": f"simulated:///z1/{machine.id}", "taints": [GPU_TAINT, STARTING, BOOKED]}
    assert "nvidia.com/gpu" not in made["status"]["allocatable"]
    assert made["status"]["allocatable"] == made["status"]["capacity"]


def test_labels_of_an_order_never_hide_where_a_machine_stands() -> None:
    there = world()
    machine = bought(there, labels={RACK: "r9", "kubernetes.io/hostname": "x"})
    labels = node(there.config, machine)["metadata"]["labels"]
    assert (labels[RACK], labels["kubernetes.io/hostname"]) == ("r2", machine.id)


def test_nodes_of_bad_machines() -> None:
    there = world()
    add(there, "wrong-rack", rack="r3")
    add(there, "never-ready")
    add(there, "fewer-devices", devices={"nvidia.com/gpu": 7})
    machine = bought(there)
    made = node(there.config, machine)
    assert (made["metadata"]["labels"][RACK], made["metadata"]["labels"][BLOCK]) == ("r3", "b2")
    assert made["metadata"]["annotations"] == {}
    assert with_devices(machine.devices)["status"]["allocatable"] == {"nvidia.com/gpu": "7"}


def test_a_node_goes_through_its_life_step_by_step() -> None:
    there = world()
    machine = bought(there)

    def what(seconds: float) -> list[str]:
        work = due(there, after(seconds))
        return [name for name in ("join", "await_plugin", "publish", "remove") if getattr(work, name)]

    assert [what(s) for s in (0, 1.9, 2, 9)] == [[], [], ["join"], ["join"]]
    there.progress(machine.id, joined=True)
    assert what(9) == ["await_plugin"]
    there.progress(machine.id, plugin_at=after(10))
    assert [what(s) for s in (10.9, 11)] == [[], ["publish"]]
    there.progress(machine.id, devices_published=True)
    assert what(12) == []
    there.terminate([machine.id], after(20))
    assert [what(s) for s in (20.9, 21)] == [[], ["remove"]]
    there.progress(machine.id, node_removed=True)
    assert what(22) == []


@pytest.mark.parametrize("kind", ["never-joins", "late"])
def test_a_machine_that_does_not_join_in_time_but_is_terminated(kind: str) -> None:
    there = world()
    add(there, kind, **({"delay": "1m"} if kind == "late" else {}))
    machine = bought(there)
    assert not due(there, after(30)).join
    there.terminate([machine.id], after(30))
    work = due(there, after(99))
    assert (work.join, [each.id for each in work.remove]) == ((), [machine.id])


def test_machines_without_devices_await_nothing() -> None:
    there = world()
    (machine,) = there.launch(on_demand("t", shape="m7i.4xlarge"), START)
    there.progress(machine.id, joined=True)
    assert due(there, after(9)) == due(world(), START)


def test_plugin_must_be_of_the_daemon_set_and_running() -> None:
    def pod(node_name: str, owner: str, phase: str, kind: str = "DaemonSet") -> dict[str, Any]:
        owners = [{"kind": kind, "name": owner}]
        return {"metadata": {"ownerReferences": owners}, "spec": {"nodeName": node_name}, "status": {"phase": phase}}

    pods = [
        pod("n1", "nvidia-device-plugin", "Running"),
        pod("n2", "nvidia-device-plugin", "Pending"),
        pod("n3", "other", "Running"),
        pod("n4", "nvidia-device-plugin", "Running", kind="ReplicaSet"),
        {"metadata": {}, "spec": {"nodeName": "n5"}, "status": {"phase": "Running"}},
    ]
    assert plugin_nodes("nvidia-device-plugin", pods) == {"n1"}


def test_startup_taints_are_removed_under_the_nodes_version() -> None:
    there = tainted()
    machine = bought(there)
    now = {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [GPU_TAINT, STARTING, {"key": "x", "effect": "NoExecute"}]}}
    gone = startup_taints(there.config, machine)
    assert without_taints(gone, now) == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"taints": [GPU_TAINT, {"key": "x", "effect": "NoExecute"}]},
    }
    assert without_taints(gone, {"metadata": {}, "spec": {"taints": [GPU_TAINT]}}) is None
    assert without_taints(gone, {"metadata": {}, "spec": {}}) is None
