"""The simulated cloud's machines on the real control plane: Nodes, devices that come late or never, and their end."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl
from e2e.simcloud import SimCloud

GPU = "nvidia.com/gpu"
BOOKED = {"key": "corral.dev/booked", "effect": "NoSchedule"}


@pytest.fixture
def cloud(tmp_path: Path, kubeconfig: Path, namespace: str, kubectl: Kubectl) -> Iterator[SimCloud]:
    """Two racks of two H100 machines; the device plugin is a DaemonSet of the test's own namespace."""
    config = {
        "zones": [
            {
                "name": "sim-1a",
                "racks": [{"name": f"rack-{n}", "block": "block-1", "slots": {"p5.48xlarge": 2}} for n in (1, 2)],
                "onDemand": [{"shape": "p5.48xlarge"}],
            },
            {"name": "sim-1b", "racks": [{"name": "rack-9", "slots": {}}]},
        ],
        "shapes": [
            {
                "name": "p5.48xlarge",
                "taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
            }
        ],
        "delays": {"launch": "500ms", "join": "500ms", "devices": "1s", "terminate": "500ms"},
        "devicePlugin": f"{namespace}/nvidia-device-plugin",
    }
    with SimCloud(tmp_path, config, kubeconfig=kubeconfig) as server:
        yield server
        for machine in server.machines().values():
            server.terminate(machine["id"])
        eventually(lambda: all(machine.get("nodeRemoved") for machine in server.machines().values()))


def launch(cloud: SimCloud, count: int = 1) -> list[str]:
    """Names of the new nodes. They register with the label and the taint of an order."""
    token = uuid.uuid4().hex
    order = {"labels": {"corral.dev/pool": "p", "order": token}, "annotations": {"a": "b"}, "taints": [BOOKED]}
    return [each["node"] for each in cloud.launch(token, shape="p5.48xlarge", zone="sim-1a", count=count, **order)]


def install_plugin(kubectl: Kubectl, namespace: str, *tolerations: dict[str, str]) -> None:
    pod = {
        "metadata": {"labels": {"app": "plugin"}},
        "spec": {"containers": [{"name": "plugin", "image": "plugin"}], "tolerations": list(tolerations)},
    }
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": pod},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(daemon_set))


def node(kubectl: Kubectl, name: str) -> dict[str, Any] | None:
    text = kubectl("get", "node", name, "--ignore-not-found", "-o", "json")
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def is_ready(kubectl: Kubectl, name: str) -> bool:
    there = node(kubectl, name)
    conditions = there["status"].get("conditions", []) if there else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def devices(kubectl: Kubectl, name: str) -> str:
    """Allocatable GPUs, "0" also when there is no such entry."""
    there = node(kubectl, name)
    assert there is not None
    allocatable: dict[str, str] = there["status"]["allocatable"]
    return allocatable.get(GPU, "0")


def eventually(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.2)


def tolerating(*keys: str) -> list[dict[str, str]]:
    return [{"key": key, "operator": "Exists"} for key in keys]


def test_a_machine_becomes_a_node_and_gets_devices_once_its_plugin_runs(
    cloud: SimCloud, kubectl: Kubectl, namespace: str
) -> None:
    (name,) = launch(cloud)
    eventually(lambda: is_ready(kubectl, name))
    there = node(kubectl, name)
    assert there is not None
    place = cloud.machines()[name]["domain"]
    assert place.items() <= there["metadata"]["labels"].items()
    assert {"topology.corral.dev/rack", "topology.corral.dev/block", "topology.kubernetes.io/zone"} == place.keys()
    assert there["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5.48xlarge"
    assert there["metadata"]["labels"]["corral.dev/pool"] == "p"
    assert there["spec"]["providerID"] == f"simulated:///sim-1a/{name}"
    assert {taint["key"] for taint in there["spec"]["taints"]} >= {GPU, "corral.dev/booked", "example.com/starting"}
    assert devices(kubectl, name) == "0"

    install_plugin(kubectl, namespace, *tolerating(GPU, "corral.dev/booked", "example.com/starting"))
    eventually(lambda: devices(kubectl, name) == "8")
    eventually(lambda: is_ready(kubectl, name))
    there = node(kubectl, name)
    assert there is not None
    eventually(lambda: {taint["key"] for taint in (node(kubectl, name) or {})["spec"]["taints"]} == {GPU, "corral.dev/booked"})

    cloud.terminate(name)
    eventually(lambda: node(kubectl, name) is None)
    pods = f"--field-selector=spec.nodeName={name}"
    eventually(lambda: not json.loads(kubectl("get", "pods", "-A", pods, "-o", "json"))["items"])


def test_no_devices_come_while_the_plugin_does_not_tolerate_the_orders_taint(
    cloud: SimCloud, kubectl: Kubectl, namespace: str
) -> None:
    install_plugin(kubectl, namespace, *tolerating(GPU, "example.com/starting"))
    (name,) = launch(cloud)
    eventually(lambda: is_ready(kubectl, name))
    time.sleep(4)  # plugin and devices would be there after 2 s
    assert devices(kubectl, name) == "0"

    install_plugin(kubectl, namespace, *tolerating(GPU, "example.com/starting", "corral.dev/booked"))
    eventually(lambda: devices(kubectl, name) == "8")


def test_bad_machines(cloud: SimCloud, kubectl: Kubectl, namespace: str) -> None:
    install_plugin(kubectl, namespace, *tolerating(GPU, "example.com/starting", "corral.dev/booked"))
    cloud.fault("fewer-devices", devices={GPU: 6}, times=1)
    (poor,) = launch(cloud)
    cloud.fault("never-ready", times=1)
    (sick,) = launch(cloud)
    cloud.fault("never-joins", times=1)
    (lost,) = launch(cloud)
    cloud.fault("wrong-rack", rack="rack-9", times=1)
    (astray,) = launch(cloud)

    eventually(lambda: is_ready(kubectl, astray) and devices(kubectl, poor) == "6")
    assert (node(kubectl, astray) or {})["metadata"]["labels"]["topology.corral.dev/rack"] == "rack-9"
    assert node(kubectl, sick) is not None
    assert not is_ready(kubectl, sick)
    assert node(kubectl, lost) is None
    assert cloud.machines()[lost]["state"] == "running"


def test_a_kill_at_any_moment_changes_nothing(cloud: SimCloud, kubectl: Kubectl, namespace: str) -> None:
    install_plugin(kubectl, namespace, *tolerating(GPU, "example.com/starting", "corral.dev/booked"))
    names = launch(cloud, count=4)
    for _ in range(3):
        cloud.restart()
        time.sleep(0.3)
    eventually(lambda: all(node(kubectl, name) is not None and devices(kubectl, name) == "8" for name in names))
    cloud.terminate(*names)
    cloud.restart()
    eventually(lambda: all(node(kubectl, name) is None for name in names))


def test_a_deleted_node_ends_no_machine_and_stays_away(cloud: SimCloud, kubectl: Kubectl) -> None:
    (name,) = launch(cloud)
    eventually(lambda: is_ready(kubectl, name))
    kubectl("delete", "node", name)
    time.sleep(2)
    assert node(kubectl, name) is None
    assert cloud.machines()[name]["state"] == "running"
