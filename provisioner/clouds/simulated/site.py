"""The simulated cloud's machines, as those who bring them into a cluster see them."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

from provisioner.clouds.simulated.cluster import Step
from provisioner.clouds.simulated.engine import Engine
from provisioner.clouds.simulated.nodes import TaintKey, Work, due, node, startup_taints
from provisioner.clouds.simulated.records import Machine
from provisioner.clouds.simulated.world import World


class EngineSite:
    """The site of an engine's world: how far a Node is stands in the machine's own record. Only those for which `joins` holds
    are seen.
    """

    def __init__(self, engine: Engine, joins: Callable[[Machine], bool] = lambda _: True) -> None:
        self._engine = engine
        self._config = engine.world.config
        self._joins = joins

    @property
    def device_plugin(self) -> str:
        return self._config.device_plugin

    async def due(self) -> Work[Machine]:
        work = await self._engine.do(due)
        return Work(*(tuple(filter(self._joins, part)) for part in (work.join, work.await_plugin, work.publish, work.remove)))

    def name(self, machine: Machine) -> str:
        return machine.id

    def node(self, machine: Machine) -> dict[str, Any]:
        return node(self._config, machine)

    def devices(self, machine: Machine) -> Mapping[str, int]:
        return machine.devices

    def startup_taints(self, machine: Machine) -> AbstractSet[TaintKey]:
        return startup_taints(self._config, machine)

    async def note(self, machine: Machine, step: Step) -> None:
        def work(world: World, now: datetime) -> None:
            fields: dict[Step, dict[str, Any]] = {
                "joined": {"joined": True},
                "refused": {"joins_at": None},
                "plugged": {"plugin_at": now},
                "published": {"devices_published": True},
                "removed": {"node_removed": True},
            }
            world.progress(machine.id, **fields[step])

        await self._engine.do(work)
