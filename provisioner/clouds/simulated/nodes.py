"""The Node of a machine, as its kubelet would register it, and what is to be done to Nodes: pure."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from capacity.model import HOSTNAME
from provisioner.clouds.base import InstanceState
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.records import Machine
from provisioner.clouds.simulated.wire import seconds
from provisioner.clouds.simulated.world import World

FAKE = "kwok.x-k8s.io/node"
"""With this annotation kwok plays kubelet: it reports Ready, renews the lease and runs the pods."""


TaintKey = tuple[str, str]
"""Key and effect of a taint."""
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Work(Generic[M]):
    """Machines whose Node is to be created, waits for its device plugin, is to get devices, or is to go."""

    join: tuple[M, ...] = ()
    await_plugin: tuple[M, ...] = ()
    publish: tuple[M, ...] = ()
    remove: tuple[M, ...] = ()


def due(world: World, now: datetime) -> Work[Machine]:
    machines = list(world.memory.machines.values())
    running = [machine for machine in machines if machine.state(now) is InstanceState.RUNNING]
    bare = [machine for machine in running if machine.joined and machine.devices and not machine.devices_published]
    delay = timedelta(seconds=seconds(world.config.delays.devices))
    return Work(
        join=tuple(each for each in running if not each.joined and each.joins_at is not None and each.joins_at <= now),
        await_plugin=tuple(each for each in bare if each.plugin_at is None),
        publish=tuple(each for each in bare if each.plugin_at is not None and each.plugin_at + delay <= now),
        # Also one not noted as joined: a kill between its creation and the note leaves a Node that must not stay.
        remove=tuple(each for each in machines if not each.node_removed and each.state(now) is InstanceState.TERMINATED),
    )


def node(config: Config, machine: Machine) -> dict[str, Any]:
    """The Node at registration: zero devices, whatever the shape has."""
    shape, order = config.shape(machine.order.shape), machine.order
    assert shape is not None, "checked at launch"
    places = config.place_labels(order.zone, machine.said_rack)
    taints = [each.to_json() for each in (*shape.taints, *shape.startup_taints, *order.taints)]
    return {
        "metadata": {
            "name": machine.id,
            "labels": {**order.labels, **config.shape_labels(shape), **places, HOSTNAME: machine.id},
            "annotations": {**order.annotations, **({FAKE: "fake"} if machine.becomes_ready else {})},
        },
        "spec": {"providerID": views.provider_id(machine), "taints": taints},
        "status": {"capacity": dict(shape.allocatable), "allocatable": dict(shape.allocatable), **_conditions(machine)},
    }


def _conditions(machine: Machine) -> dict[str, Any]:
    return {"conditions": [machine.condition.to_json()]} if machine.condition else {}


def plugin_nodes(daemon_set: str, pods: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the nodes on which a pod of this DaemonSet (its bare name) runs."""
    return {
        pod.get("spec", {}).get("nodeName", "")
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running"
        and any(
            owner["kind"] == "DaemonSet" and owner["name"] == daemon_set for owner in pod["metadata"].get("ownerReferences", ())
        )
    }


def with_devices(devices: Mapping[str, int]) -> dict[str, Any]:
    """The patch of Node.status that publishes a machine's devices."""
    counts = {name: str(count) for name, count in devices.items()}
    return {"status": {"capacity": counts, "allocatable": counts}}


def startup_taints(config: Config, machine: Machine) -> set[TaintKey]:
    shape = config.shape(machine.order.shape)
    return {(taint.key, taint.effect) for taint in shape.startup_taints} if shape else set()


def without_taints(gone: AbstractSet[TaintKey], there: Mapping[str, Any]) -> dict[str, Any] | None:
    """The patch that removes these taints from a Node, None when it has none of them."""
    taints = there.get("spec", {}).get("taints", [])
    kept = [taint for taint in taints if (taint["key"], taint["effect"]) not in gone]
    if len(kept) == len(taints):
        return None
    return {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}, "spec": {"taints": kept}}
