"""The simulated cloud's own state machine in this process, and the kubelets of its machines, on an API server in memory."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from capacity.model import Labels
from kube.times import stamp
from provisioner.clouds.base import EVERYTHING, Instance, Inventory, Order, Wanted
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.nodes import due, node
from provisioner.clouds.simulated.records import Machine, Memory
from provisioner.clouds.simulated.world import World
from tests.provisioner.clouds.in_process import InProcess
from tests.provisioner.fake_api import Api


class Machines:
    """A Cloud. `step` lets the kubelets do what is due."""

    def __init__(self, config: Config, api: Api, now: Callable[[], datetime]) -> None:
        self.world, self._api, self._now = World(config, Memory()), api, now
        self._cloud = InProcess(self.world, now)
        self.world.seed(now(), fresh=True)

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:  # noqa: ARG002 the protocol's
        return self._cloud.inventory()

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        return self._cloud.launch(order)

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return self._cloud.instances(tags)

    async def terminate(self, ids: Sequence[str]) -> None:
        self._cloud.terminate(ids)

    async def close(self) -> None: ...

    def step(self) -> None:
        now = self._now()
        self.world.advance(now)
        work = due(self.world, now)
        for each in work.join:
            self._api.put("nodes", _registered(self.world.config, each, now))
            self.world.progress(each.id, joined=True, plugin_at=now)
        for each in work.publish:
            self._publish(each)
        for each in work.remove:
            self._remove(each)

    def _publish(self, machine: Machine) -> None:
        self.world.progress(machine.id, devices_published=True)
        there = self._api.objects["nodes", "", machine.id]
        room = {**there["status"]["allocatable"], **{name: str(count) for name, count in machine.devices.items()}}
        self._api.put("nodes", {**there, "status": {**there["status"], "allocatable": room}})

    def _remove(self, machine: Machine) -> None:
        self.world.progress(machine.id, node_removed=True)
        if ("nodes", "", machine.id) in self._api.objects:
            self._api.remove("nodes", machine.id)


def _registered(config: Config, machine: Machine, now: datetime) -> dict[str, Any]:
    """The Node, Ready at once if its kubelet works."""
    made = node(config, machine)
    ready = {"type": "Ready", "status": str(machine.becomes_ready), "lastTransitionTime": stamp(now)}
    conditions = [ready, *made["status"].get("conditions", [])]
    return {**made, "status": {**made["status"], "conditions": conditions}}
