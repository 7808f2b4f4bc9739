"""The simulated cloud's own state machine in this process, and the kubelets of its machines."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from provisioner.clouds.base import Instance, InstanceState, Order
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.faults import FaultRequest
from provisioner.clouds.simulated.nodes import due, node
from provisioner.clouds.simulated.records import Machine, Memory
from provisioner.clouds.simulated.world import World
from provisioner.state import TAG_INSTALLATION
from tests.faults.objects import Objects
from tests.provisioner.clouds.in_process import InProcess

READY = [
    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": "2026-09-01T10:00:00Z"}
]


class CloudTwin(InProcess):
    """`before_launch`, `after_launch` and `before_end` are called at these moments. `world`: given if others are in it, too."""

    def __init__(
        self, config: Config, objects: Objects, now: Callable[[], datetime], installation: str, world: World | None = None
    ) -> None:
        super().__init__(world or World(config, Memory()), now)
        self.objects, self.installation = objects, installation
        self.world.seed(now(), fresh=True)
        self.before_launch: Callable[[Order], None] = lambda _: None
        self.after_launch: Callable[[Order], None] = lambda _: None
        self.before_end: Callable[[Sequence[str]], None] = lambda _: None
        self._faults = 0

    # --- what the provisioner asks ---

    def launch(self, order: Order, *, short: bool = False) -> tuple[Instance, ...]:
        if short and order.token not in self.world.memory.tokens and order.count > 1:
            self.spoil(kind="partial", deliver=order.count - 1, times=1)
        found = super().launch(order)
        self.after_launch(order)
        return found

    def terminate(self, ids: Sequence[str]) -> None:
        self.before_end(ids)
        super().terminate(ids)

    # --- what happens to it ---

    def spoil(self, **fault: Any) -> None:
        """One of the simulated cloud's own faults."""
        self._faults += 1
        self.world.add_fault(msgspec.convert(fault, FaultRequest), f"f{self._faults}", self.now())

    def machines(self) -> list[Machine]:
        """Those of the installation."""
        return self._own(self.world.memory.machines.values())

    def _own(self, machines: Iterable[Machine]) -> list[Machine]:
        return [each for each in machines if each.order.tags[TAG_INSTALLATION] == self.installation]

    def alive(self) -> list[Machine]:
        """Those that cost: not told to end yet."""
        return [each for each in self.machines() if each.stopping_at is None]

    def lose(self, machine: str) -> None:
        """The machine dies, and its node with it."""
        self.world.memory.machines.change(machine, stopping_at=self.now(), gone_at=self.now() + timedelta(seconds=1))

    def step(self) -> None:
        """Kubelets do what is due."""
        now = self.now()
        self.world.advance(now)
        work = due(self.world, now)
        for each in self._own(work.join):
            body = node(self.world.config, each)
            conditions = READY if each.becomes_ready else []
            self.objects.put("nodes", {**body, "status": {**body["status"], "conditions": conditions}})
            self.world.progress(each.id, joined=True, plugin_at=now)
        for each in self._own(work.publish):
            self._publish(each)
        for each in self._own(work.remove):
            self._remove(each)

    def _publish(self, machine: Machine) -> None:
        found = self.objects.get("nodes", machine.id)
        self.world.progress(machine.id, devices_published=True)
        if found:
            counts = {name: str(count) for name, count in machine.devices.items()}
            room = {**found["status"]["allocatable"], **counts}
            self.objects.put("nodes", {**found, "status": {**found["status"], "allocatable": room, "capacity": room}})

    def _remove(self, machine: Machine) -> None:
        if self.objects.get("nodes", machine.id):
            self.objects.remove("nodes", ("", machine.id))
        for pod in list(self.objects.bodies("pods")):
            if pod["spec"].get("nodeName") == machine.id:
                self.objects.remove("pods", (pod["metadata"]["namespace"], pod["metadata"]["name"]))
        self.world.progress(machine.id, node_removed=True)


def running(machine: Machine, now: datetime) -> bool:
    return machine.state(now) in (InstanceState.PENDING, InstanceState.RUNNING)
