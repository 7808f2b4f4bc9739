"""Brings the simulated machines into a Kubernetes cluster: Nodes, their devices, and their end.

Each step asks the world what is due, does it at the API server and notes it; after a kill the next step finds the same
work and does it again without harm. A Node that somebody deletes stays away, as with a real kubelet, and its machine runs on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kube.resources import NODES, PODS
from provisioner.clouds.simulated.engine import Engine
from provisioner.clouds.simulated.nodes import due, node, plugin_nodes, with_devices, without_startup_taints
from provisioner.clouds.simulated.records import Machine
from runtime.client import Client, Resource
from runtime.errors import AlreadyExists, ApiError, Invalid, NotFound, TransportError
from runtime.logging import get_logger

PERIOD = 0.5
AT_ONCE = 16

_log = get_logger("simulated-cloud")
_NODES = Resource(*NODES)
_PODS = Resource(*PODS)


class Cluster:
    """Machines of the engine's world as Nodes of the client's cluster."""

    def __init__(self, engine: Engine, client: Client) -> None:
        self._engine = engine
        self._client = client
        self._config = engine.world.config

    async def run(self) -> None:
        """Steps until cancelled; a cluster that can't be reached is tried again."""
        while True:
            await self.step()
            await asyncio.sleep(PERIOD)

    async def step(self) -> None:
        """Does all that is due now."""
        work = await self._engine.do(due)
        await self._each(self._join, work.join)
        await self._each(self._publish, work.publish)
        await self._each(self._remove, work.remove)
        if work.await_plugin:
            await self._each(self._see_plugin, await self._plugged(work.await_plugin))

    async def _join(self, machine: Machine) -> None:
        try:
            await self._client.create(_NODES, node(self._config, machine))
        except AlreadyExists:
            _log.info("node is there already", instance=machine.id)
        except Invalid as error:
            _log.error("node refused, it never joins", instance=machine.id, error=str(error))
            await self._note(machine, joins_at=None)
            return
        await self._note(machine, joined=True)

    async def _plugged(self, waiting: Iterable[Machine]) -> list[Machine]:
        try:
            pods = await self._client.list(_PODS, self._config.device_plugin.partition("/")[0])
        except (ApiError, TransportError) as error:
            _log.warning("pods can't be listed", error=str(error))
            return []
        names = plugin_nodes(self._config, pods)
        return [machine for machine in waiting if machine.id in names]

    async def _see_plugin(self, machine: Machine) -> None:
        await self._note(machine, plugin_at=self._engine.now())

    async def _publish(self, machine: Machine) -> None:
        try:
            await self._client.patch(_NODES, machine.id, with_devices(machine), subresource="status")
            there = await self._client.get(_NODES, machine.id)
            if (patch := without_startup_taints(self._config, machine, there)) is not None:
                await self._client.patch(_NODES, machine.id, patch)
        except NotFound:
            _log.info("node was deleted, its machine runs on", instance=machine.id)
        await self._note(machine, devices_published=True)

    async def _remove(self, machine: Machine) -> None:
        """The Node first, so that no DaemonSet puts a new pod there; then what ran on it."""
        await _gone(self._client.delete(_NODES, machine.id))
        for pod in await self._client.list(_PODS, field_selector=f"spec.nodeName={machine.id}"):
            meta = pod["metadata"]
            await _gone(self._client.delete(_PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace=0))
        await self._note(machine, node_removed=True)

    async def _note(self, machine: Machine, **fields: Any) -> None:
        await self._engine.do(lambda world, _: world.progress(machine.id, **fields))

    async def _each(self, act: Callable[[Machine], Awaitable[None]], machines: Iterable[Machine]) -> None:
        """Acts on all, some at once; one that fails is left to the next step."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(machine: Machine) -> None:
            async with slots:
                try:
                    await act(machine)
                except (ApiError, TransportError) as error:
                    _log.warning("tried again later", instance=machine.id, error=str(error))

        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(one(machine))


async def _gone(deletion: Awaitable[None]) -> None:
    try:
        await deletion
    except NotFound:
        return
