"""What speaks against a node: conditions of either polarity, and devices that its kubelet offers no more."""

from typing import Any

import pytest

from kube import core, ours
from kube.meta import decode
from kube.times import seconds
from provisioner.nodes.health import ailment, lost_devices
from provisioner.nodes.verify import Expected, Facts, bare
from tests.provisioner import fake_api, make
from tests.provisioner.test_bookings import Setting
from tests.provisioner.world import purchase

KEY = "b.booking.corral.dev/main"
GPU = "nvidia.com/gpu"


def pool(*unhealthy: dict[str, Any]) -> ours.CapacityPool:
    return make.pool(readiness={"unhealthyConditions": list(unhealthy)})


XID = {"type": "AcceleratedHardwareReady", "status": "False", "reasons": ["NvidiaXID*", "DCGMFieldError"]}


@pytest.mark.parametrize(
    ("of", "type_", "status", "reason", "bad"),
    [
        pytest.param(make.pool(), "GPUMissing", "True", "", True, id="by default: AKS"),
        pytest.param(make.pool(), "SysLogsXIDError", "True", "", True, id="by default: NVSentinel"),
        pytest.param(make.pool(), "AcceleratedHardwareReady", "False", "NvidiaXID79Error", True, id="by default: EKS"),
        pytest.param(make.pool(), "AcceleratedHardwareReady", "True", "", False, id="EKS, well"),
        pytest.param(make.pool(), "XIDErrors", "True", "", False, id="not by default: any Xid"),
        pytest.param(pool({"type": "GpuXid"}), "GpuXid", "True", "", True, id="one of the pool's own"),
        pytest.param(
            pool({"type": "GpuXid"}), "KernelDeadlock", "True", "", False, id="the pool's take the place of the default"
        ),
        pytest.param(pool({"type": "Ready", "status": "Unknown"}), "Ready", "Unknown", "", True, id="unknown is bad here"),
        pytest.param(pool(XID), XID["type"], "False", "NvidiaXID79Error", True, id="any ending"),
        pytest.param(pool(XID), XID["type"], "False", "DCGMFieldError", True, id="just this reason"),
        pytest.param(pool(XID), XID["type"], "False", "DCGMFieldErrors", False, id="not what begins like it"),
        pytest.param(pool(XID), XID["type"], "False", "DCGMError", False, id="another reason"),
        pytest.param(pool(XID), XID["type"], "True", "NvidiaXID79Error", False, id="the other status"),
    ],
)
def test_ailment(of: ours.CapacityPool, type_: str, status: str, reason: str, bad: bool) -> None:
    conditions = [{"type": type_, "status": status, "reason": reason}]
    found = ailment(decode({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, core.Node), of)
    assert bool(found) is bad


@pytest.mark.parametrize(
    ("room", "left", "words"),
    [
        pytest.param({GPU: 8}, {GPU: 8}, "", id="all there"),
        pytest.param({GPU: 8}, {GPU: 7}, f"devices were lost: 7 of 8 {GPU} left", id="one lost"),
        pytest.param({GPU: 4}, {GPU: 7}, "", id="enough for the pods"),
        pytest.param({GPU: 8}, {GPU: 0}, "", id="none: its plugin restarts"),
        pytest.param({GPU: 8}, {}, "", id="none told of"),
        pytest.param({"cpu": 8000}, {"cpu": 7000}, "", id="no device"),
        pytest.param({}, {GPU: 7}, "", id="nothing planned"),
    ],
)
def test_lost_devices(room: dict[str, int], left: dict[str, int], words: str) -> None:
    assert lost_devices(room, left) == words


@pytest.mark.parametrize(
    ("devices", "room", "left", "none"),
    [
        pytest.param({GPU: 8}, {GPU: 8}, {}, True, id="none left"),
        pytest.param({GPU: 8}, {GPU: 8}, {GPU: 1}, False, id="one left"),
        pytest.param({GPU: 8}, {"cpu": 1}, {}, False, id="none needed"),
        pytest.param(None, {GPU: 8}, {}, False, id="unknown shape"),
        pytest.param({}, {GPU: 8}, {}, False, id="no device of the shape"),
    ],
)
def test_bare(devices: dict[str, int] | None, room: dict[str, int], left: dict[str, int], none: bool) -> None:
    assert bare(Expected(devices=devices, room=room), Facts(ready=True, labels={}, allocatable=left)) is none


def offer(here: Setting, node: str, gpus: int) -> None:
    found = here.api.objects["nodes", "", node]
    status = {**found["status"], "allocatable": {**found["status"]["allocatable"], GPU: str(gpus)}}
    here.api.put("nodes", {**found, "status": status})


async def turns(here: Setting, number: int = 12) -> None:
    for _ in range(number):
        await here.turn()


def quarantined(here: Setting, node: str) -> bool:
    found = here.api.of("nodes", node)
    return "corral.dev/quarantined" in found.metadata.labels and found.spec.unschedulable


@pytest.mark.parametrize("node", ["a", "n-i0"], ids=["a node that was there", "a machine"])
async def test_a_device_lost_under_a_running_gang_quarantines_its_node_and_harms_no_pod(node: str) -> None:
    here = Setting()
    await here.until("Provisioned")
    here.api.put("pods", fake_api.pod("w", node, selector={KEY: "true"}))
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    await turns(here, 3)

    offer(here, node, 7)
    await turns(here)
    assert quarantined(here, node)
    assert not quarantined(here, "n-i1")
    assert here.cloud.terminated == []
    assert [each.state for each in here.status.instances if each.node == "n-i0"] == ["Joined" if node == "n-i0" else "Ready"]

    here.api.remove("pods", "w", "team")  # the job's controller makes it anew, elsewhere
    await turns(here)
    assert here.cloud.terminated == (["i0"] if node == "n-i0" else [])


async def test_a_machine_without_any_device_is_replaced_when_no_pod_is_left_and_no_plugin_comes_back() -> None:
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Provisioned")
    for each in ("n-i0", "n-i1"):
        here.api.put("pods", fake_api.pod(f"w-{each}", each, selector={KEY: "true"}))
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Admitted"))
    await turns(here, 3)

    offer(here, "n-i0", 0)
    began = here.clock()
    while (here.clock() - began).total_seconds() < seconds("10m"):
        await here.turn()
    assert len(here.cloud.orders) == 1
    assert {each.state for each in here.status.instances} == {"Joined", "Ready"}

    here.api.remove("pods", "w-n-i0", "team")
    await turns(here)
    assert here.cloud.terminated == ["i0"]
