"""The stage and the players of the demo: the cloud, nodes that were there before, and the objects that users write."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.stack import Stack

MANIFESTS = Path(__file__).parent / "manifests"
ADOPTED = tuple(f"platform-{number}" for number in (1, 2, 3))
GANGS = ("llm", "ranker", "mesh", "giant")

CLOUD: Mapping[str, Any] = {
    "kind": "SimulatedCloud",
    "name": "demo",
    "shapes": [{"name": "p5.48xlarge", "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}],
    "zones": [
        {
            "name": "us-a",
            "racks": [{"name": f"rack-{n}", "block": "block-1", "slots": {"p5.48xlarge": 4}} for n in (1, 2)],
        },
        {
            "name": "us-b",
            "racks": [{"name": "rack-9", "block": "block-9", "slots": {"p5.48xlarge": 4}}],
            "onDemand": [{"shape": "p5.48xlarge", "count": 4}],
        },
    ],
    "reservations": [{"id": "cr-h100", "shape": "p5.48xlarge", "zone": "us-a", "racks": {"rack-1": 4, "rack-2": 4}}],
    "delays": {"launch": "2s", "join": "2s", "devices": "2s", "terminate": "1s"},
}


def offline_files(directory: Path) -> list[Path]:
    """The same gangs and pools as files for `corral plan`."""
    nodes = directory / "nodes.yaml"
    nodes.write_text(yaml.safe_dump_all([adopted_node(name) for name in ADOPTED]))
    group = directory / "group.yaml"
    group.write_text(yaml.safe_dump_all(group_pods()))
    return [MANIFESTS / "jobs.yaml", group, MANIFESTS / "offline.yaml", MANIFESTS / "policy.yaml", nodes]


def adopted_node(name: str) -> dict[str, Any]:
    """A CPU node of the platform team, played by kwok."""
    room = {"cpu": "62", "memory": "240Gi", "pods": "110", "ephemeral-storage": "400Gi"}
    labels = {"kubernetes.io/hostname": name, "team": "platform", "topology.kubernetes.io/zone": "us-b"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def group_pods() -> list[dict[str, Any]]:
    """The eight pods of the group: six workers, two parameter servers."""
    worker, server = yaml.safe_load_all((MANIFESTS / "group.yaml").read_text())
    return [_numbered(worker, n) for n in range(6)] + [_numbered(server, n) for n in range(2)]


def set_up(stack: Stack) -> None:
    """Everything that stands before the first job comes, and waits until it does."""
    for name in ADOPTED:
        stack.plane.kubectl("create", "-f", "-", stdin=json.dumps(adopted_node(name)))
    stack.plane.kubectl("apply", "-f", str(MANIFESTS / "cluster.yaml"))
    stack.plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s", timeout=70)
    stack.plane.kubectl("apply", "-f", str(MANIFESTS / "policy.yaml"))
    stack.plane.kubectl(
        "apply", "-f", "-", stdin=(MANIFESTS / "pools.yaml").read_text().replace("ENDPOINT", stack.cloud.endpoint)
    )
    stack.plane.kubectl("apply", "-f", str(MANIFESTS / "queues.yaml"))
    stack.plane.kubectl("wait", "--for=condition=Ready", "cpool", "--all", "--timeout=60s", timeout=70)
    stack.plane.kubectl("wait", "--for=condition=Active", "clusterqueue/training", "--timeout=60s", timeout=70)


def submit(stack: Stack) -> None:
    """The four gangs."""
    stack.plane.kubectl("apply", "-f", str(MANIFESTS / "jobs.yaml"))
    stack.plane.kubectl("create", "-f", "-", stdin="---\n".join(json.dumps(pod) + "\n" for pod in group_pods()))


def _numbered(pod: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{number}"}}
