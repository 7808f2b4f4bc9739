"""The simulated cloud's own state machine in this process, and the kubelets of its machines."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from capacity.model import Labels
from provisioner.clouds.base import CloudError, Instance, InstanceState, Inventory, Order
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.client import _instance, _inventory, _launch
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.errors import CODES, Refused
from provisioner.clouds.simulated.faults import FaultRequest
from provisioner.clouds.simulated.nodes import due, node
from provisioner.clouds.simulated.records import Machine, Memory
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World
from provisioner.state import TAG_INSTALLATION
from tests.faults.objects import Objects

T = TypeVar("T")
READY = [
    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": "2026-09-01T10:00:00Z"}
]


class CloudTwin:
    """`before_launch`, `after_launch` and `before_end` are called at these moments. `world`: given if others are in it, too."""

    def __init__(
        self, config: Config, objects: Objects, now: Callable[[], datetime], installation: str, world: World | None = None
    ) -> None:
        self.world, self.objects, self.now = world or World(config, Memory()), objects, now
        self.installation = installation
        self.world.seed(now(), fresh=True)
        self.before_launch: Callable[[Order], None] = lambda _: None
        self.after_launch: Callable[[Order], None] = lambda _: None
        self.before_end: Callable[[Sequence[str]], None] = lambda _: None
        self._faults = 0

    # --- what the provisioner asks ---

    def inventory(self) -> Inventory:
        return self._do(lambda now: _inventory(views.inventory(self.world.room(now))))

    def launch(self, order: Order, *, short: bool = False) -> tuple[Instance, ...]:
        if short and order.token not in self.world.memory.tokens and order.count > 1:
            self.spoil(kind="partial", deliver=order.count - 1, times=1)
        wanted = msgspec.convert(_launch(order), LaunchRequest)
        found = self._do(lambda now: self._told(self.world.launch(wanted, now), now))
        self.after_launch(order)
        return found

    def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return self._do(lambda now: self._told(self.world.described(now, tags=tags), now))

    def terminate(self, ids: Sequence[str]) -> None:
        self.before_end(ids)
        self._do(lambda now: self.world.terminate(ids, now))

    def _told(self, machines: Sequence[Machine], now: datetime) -> tuple[Instance, ...]:
        return tuple(_instance(views.instance(self.world.config, each, now)) for each in machines)

    def _do(self, work: Callable[[datetime], T]) -> T:
        now = self.now()
        self.world.advance(now)
        try:
            return work(now)
        except Refused as refused:
            raise CloudError(CODES[refused.code].kind, refused.message) from None

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
