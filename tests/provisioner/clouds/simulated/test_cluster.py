"""The cluster side in virtual time, against an API server that is a dictionary and fails on demand."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioner.clouds.simulated.cluster import Cluster
from provisioner.clouds.simulated.engine import Engine
from provisioner.clouds.simulated.server import clusters
from provisioner.clouds.simulated.site import EngineSite
from provisioner.clouds.simulated.store import Store
from provisioner.clouds.simulated.world import World
from runtime.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, ServerError, TransportError
from tests.conftest import WallClock
from tests.provisioner.clouds.simulated.worlds import H100, START, after, on_demand, world


class FakeClient:
    """Nodes and pods by name. `failures` holds errors for the next calls of a verb."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, list[Exception]] = {}
        self.log: list[tuple[str, str]] = []

    async def create(self, resource: Any, body: dict[str, Any]) -> None:
        self._enter("create", body["metadata"]["name"])
        if body["metadata"]["name"] in self.nodes:
            raise AlreadyExists("there")
        self.nodes[body["metadata"]["name"]] = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    async def get(self, resource: Any, name: str) -> dict[str, Any]:
        return self._node(name)

    async def patch(self, resource: Any, name: str, body: dict[str, Any], *, subresource: str = "") -> None:
        self._enter(f"patch {subresource}".strip(), name)
        there = self._node(name)
        for part in ("status", "spec"):
            for key, value in body.get(part, {}).items():
                old = there[part].get(key, {})
                there[part][key] = {**old, **value} if isinstance(value, dict) else value

    async def list(self, resource: Any, namespace: str = "", *, field_selector: str = "") -> list[dict[str, Any]]:
        self._enter("list", namespace or field_selector)
        wanted = field_selector.removeprefix("spec.nodeName=")
        return [pod for pod in self.pods.values() if wanted in ("", pod["spec"]["nodeName"])]

    async def delete(
        self, resource: Any, name: str, namespace: str = "", *, uid: str | None = None, grace: int | None = None
    ) -> None:
        self._enter("delete", name)
        if (self.pods if namespace else self.nodes).pop(name, None) is None:
            raise NotFound(name)

    def run_plugin(self, node: str) -> None:
        owners = [{"kind": "DaemonSet", "name": "nvidia-device-plugin"}]
        meta = {"name": f"plugin-{node}", "namespace": "kube-system", "uid": "u", "ownerReferences": owners}
        self.pods[f"plugin-{node}"] = {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}}

    def _node(self, name: str) -> dict[str, Any]:
        if name not in self.nodes:
            raise NotFound(name)
        return self.nodes[name]

    def _enter(self, verb: str, name: str) -> None:
        self.log.append((verb, name))
        if self.failures.get(verb):
            raise self.failures[verb].pop(0)


class Scene:
    def __init__(self, there: World, store: Store, clock: WallClock) -> None:
        self.world, self.clock, self.client = there, clock, FakeClient()
        self.cluster = Cluster(EngineSite(Engine(there, store, clock)), self.client)  # type: ignore[arg-type]

    async def at(self, seconds: float) -> None:
        """One step at this time."""
        self.clock.at = after(seconds)
        await self.cluster.step()

    def gpus(self, name: str) -> str:
        found: str = self.client.nodes[name]["status"]["allocatable"].get("nvidia.com/gpu", "0")
        return found


@pytest.fixture
def scene(tmp_path: Path, clock: WallClock) -> Iterator[Scene]:
    store = Store(str(tmp_path / "cloud.db"))
    shapes = [{"name": H100, "startupTaints": [{"key": "starting", "effect": "NoSchedule"}]}]
    yield Scene(world(shapes=shapes), store, clock)
    store.close()


async def test_node_devices_and_end(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    await scene.at(1.9)
    assert scene.client.log == []
    await scene.at(2)
    assert scene.gpus(machine.id) == "0"
    await scene.at(60)
    assert scene.gpus(machine.id) == "0"
    scene.client.run_plugin(machine.id)
    await scene.at(61)
    await scene.at(61.9)
    assert scene.gpus(machine.id) == "0"
    await scene.at(62)
    assert scene.gpus(machine.id) == "8"
    assert scene.client.nodes[machine.id]["spec"]["taints"] == []
    scene.client.log.clear()
    await scene.at(70)
    assert scene.client.log == [], "nothing is asked of the API server while nothing is due"
    scene.world.terminate([machine.id], after(80))
    await scene.at(81)
    assert (scene.client.nodes, scene.client.pods) == ({}, {})
    assert scene.client.log[:2] == [("delete", machine.id), ("list", f"spec.nodeName={machine.id}")]


@pytest.mark.parametrize(
    "error",
    [ServerError("busy"), TransportError("reset"), ApiError("odd", status=418)],
    ids=["server error", "no answer", "anything else"],
)
async def test_each_step_is_tried_again_and_one_failure_stops_no_other(scene: Scene, error: Exception) -> None:
    machines = scene.world.launch(on_demand(count=3), START)
    scene.client.failures = {verb: [error] for verb in ("create", "patch status", "patch", "list", "delete")}
    await scene.at(2)
    assert len(scene.client.nodes) == 2
    for second in range(3, 9):
        await scene.at(second)
        for machine in machines:
            if machine.id in scene.client.nodes:
                scene.client.run_plugin(machine.id)
    assert [scene.gpus(machine.id) for machine in machines] == ["8"] * 3
    scene.world.terminate([machine.id for machine in machines], after(10))
    await scene.at(11)
    assert len(scene.client.nodes) == 1
    await scene.at(12)
    assert (scene.client.nodes, scene.client.pods) == ({}, {})


async def test_node_that_was_made_before_a_kill_is_taken_as_it_is(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    await scene.at(2)
    scene.world.progress(machine.id, joined=False)  # as if killed between the creation and its note
    await scene.at(3)
    assert scene.world.memory.machines.get(machine.id).joined  # type: ignore[union-attr]


async def test_node_made_before_a_kill_does_not_outlive_its_machine(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    await scene.at(2)
    scene.world.progress(machine.id, joined=False)
    scene.world.terminate([machine.id], after(3))
    await scene.at(4)
    assert scene.client.nodes == {}


async def test_node_that_the_api_server_refuses_never_joins(scene: Scene) -> None:
    scene.world.launch(on_demand(), START)
    scene.client.failures["create"] = [Invalid("label")]
    await scene.at(2)
    await scene.at(3)
    assert [verb for verb, _ in scene.client.log] == ["create"]


async def test_deleted_node_stays_away(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    await scene.at(2)
    scene.client.run_plugin(machine.id)
    await scene.at(3)
    scene.client.nodes.clear()
    await scene.at(9)
    await scene.at(10)
    assert scene.client.nodes == {}
    assert scene.world.memory.machines.get(machine.id).devices_published  # type: ignore[union-attr]


async def test_taints_that_changed_meanwhile_are_read_again(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    await scene.at(2)
    scene.client.run_plugin(machine.id)
    await scene.at(3)
    scene.client.failures["patch"] = [Conflict("stale")]
    await scene.at(4)
    assert scene.client.nodes[machine.id]["spec"]["taints"] != []
    await scene.at(5)
    assert scene.client.nodes[machine.id]["spec"]["taints"] == []


async def test_run_steps_until_cancelled(scene: Scene) -> None:
    (machine,) = scene.world.launch(on_demand(), START)
    scene.clock.at = after(2)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(scene.cluster.run())
        while machine.id not in scene.client.nodes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()


async def test_only_machines_of_an_installation_join_the_cluster_of_its_kubeconfig(tmp_path: Path, clock: WallClock) -> None:
    """Those that no other kubeconfig is for join the first one."""
    there, store = world(), Store(str(tmp_path / "cloud.db"))
    tags: list[dict[str, str]] = [{"corral.dev/installation": "b"}, {"corral.dev/installation": "c"}, {}]
    [[theirs], [ours], [other]] = [there.launch(on_demand(token=f"t{n}", tags=each), START) for n, each in enumerate(tags)]
    clock.at = after(2)
    joined = {}
    for path, joins in clusters("own", {"b": "neighbour"}):
        client = FakeClient()
        await Cluster(EngineSite(Engine(there, store, clock), joins), client).step()  # type: ignore[arg-type]
        joined[path] = set(client.nodes)
    assert joined == {"own": {ours.id, other.id}, "neighbour": {theirs.id}}
    store.close()
