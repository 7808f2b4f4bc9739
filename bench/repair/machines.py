"""The simulated cloud's own state machine in this process, and the kubelets of its machines, on an API server in memory."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from capacity.model import Labels
from kube.times import stamp
from provisioner.clouds.base import EVERYTHING, CloudError, Instance, Inventory, Order, Wanted
from provisioner.clouds.simulated import client, views
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.errors import CODES, Refused
from provisioner.clouds.simulated.nodes import due, node
from provisioner.clouds.simulated.records import Machine, Memory
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World
from tests.provisioner.fake_api import Api

T = TypeVar("T")


class Machines:
    """A Cloud. `step` lets the kubelets do what is due."""

    def __init__(self, config: Config, api: Api, now: Callable[[], datetime]) -> None:
        self.world, self._api, self._now = World(config, Memory()), api, now
        self.world.seed(now(), fresh=True)

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:  # noqa: ARG002 the protocol's
        return self._do(lambda now: client._inventory(views.inventory(self.world.room(now))))  # noqa: SLF001 the very reading of its answers

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        wanted = msgspec.convert(client._launch(order), LaunchRequest)  # noqa: SLF001
        return self._do(lambda now: self._told(self.world.launch(wanted, now), now))

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return self._do(lambda now: self._told(self.world.described(now, tags=tags), now))

    async def terminate(self, ids: Sequence[str]) -> None:
        self._do(lambda now: self.world.terminate(ids, now))

    async def close(self) -> None: ...

    def _told(self, machines: Sequence[Machine], now: datetime) -> tuple[Instance, ...]:
        return tuple(client._instance(views.instance(self.world.config, each, now)) for each in machines)  # noqa: SLF001

    def _do(self, work: Callable[[datetime], T]) -> T:
        now = self._now()
        self.world.advance(now)
        try:
            return work(now)
        except Refused as refused:
            raise CloudError(CODES[refused.code].kind, refused.message) from None

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
