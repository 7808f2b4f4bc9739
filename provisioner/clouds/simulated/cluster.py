"""Brings a cloud's machines into a Kubernetes cluster: Nodes, their devices, and their end.

Each step asks the site what is due, does it at the API server and notes it; after a kill the next step finds the same
work and does it again without harm. A Node that somebody deletes stays away, as with a real kubelet, and its machine runs on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Generic, Literal, Protocol

from kube.resources import NODES, PODS
from provisioner.clouds.simulated.nodes import M, TaintKey, Work, plugin_nodes, with_devices, without_taints
from runtime.client import Client, Resource
from runtime.errors import AlreadyExists, ApiError, Invalid, NotFound, TransportError
from runtime.logging import get_logger

PERIOD = 0.5
AT_ONCE = 16

_log = get_logger("simulated-cloud")
_NODES = Resource(*NODES)
_PODS = Resource(*PODS)


Step = Literal["joined", "refused", "plugged", "published", "removed"]
"""How far a machine's Node has come; one that is refused never joins."""


class Site(Protocol[M]):
    """Where the machines stand. `device_plugin` is namespace/name of the DaemonSet that devices wait for."""

    @property
    def device_plugin(self) -> str: ...

    async def due(self) -> Work[M]: ...

    def name(self, machine: M) -> str:
        """Of its Node."""
        ...

    def node(self, machine: M) -> dict[str, Any]: ...

    def devices(self, machine: M) -> Mapping[str, int]: ...

    def startup_taints(self, machine: M) -> AbstractSet[TaintKey]:
        """Those that go once the devices are there."""
        ...

    async def note(self, machine: M, step: Step) -> None: ...


class Cluster(Generic[M]):
    """Machines of a site as Nodes of the client's cluster."""

    def __init__(self, site: Site[M], client: Client) -> None:
        self._site = site
        self._client = client

    async def run(self) -> None:
        """Steps until cancelled; a cluster that can't be reached is tried again."""
        while True:
            await self.step()
            await asyncio.sleep(PERIOD)

    async def step(self) -> None:
        """Does all that is due now."""
        work = await self._site.due()
        await self._each(self._join, work.join)
        await self._each(self._publish, work.publish)
        await self._each(self._remove, work.remove)
        if work.await_plugin:
            await self._each(self._see_plugin, await self._plugged(work.await_plugin))

    async def _join(self, machine: M) -> None:
        try:
            await self._client.create(_NODES, self._site.node(machine))
        except AlreadyExists:
            _log.info("node is there already", node=self._site.name(machine))
        except Invalid as error:
            _log.error("node refused, it never joins", node=self._site.name(machine), error=str(error))
            await self._site.note(machine, "refused")
            return
        await self._site.note(machine, "joined")

    async def _plugged(self, waiting: Iterable[M]) -> list[M]:
        namespace, _, name = self._site.device_plugin.partition("/")
        try:
            pods = await self._client.list(_PODS, namespace)
        except (ApiError, TransportError) as error:
            _log.warning("pods can't be listed", error=str(error))
            return []
        names = plugin_nodes(name, pods)
        return [machine for machine in waiting if self._site.name(machine) in names]

    async def _see_plugin(self, machine: M) -> None:
        await self._site.note(machine, "plugged")

    async def _publish(self, machine: M) -> None:
        name = self._site.name(machine)
        try:
            await self._client.patch(_NODES, name, with_devices(self._site.devices(machine)), subresource="status")
            there = await self._client.get(_NODES, name)
            if (patch := without_taints(self._site.startup_taints(machine), there)) is not None:
                await self._client.patch(_NODES, name, patch)
        except NotFound:
            _log.info("node was deleted, its machine runs on", node=name)
        await self._site.note(machine, "published")

    async def _remove(self, machine: M) -> None:
        """The Node first, so that no DaemonSet puts a new pod there; then what ran on it."""
        name = self._site.name(machine)
        await _gone(self._client.delete(_NODES, name))
        for pod in await self._client.list(_PODS, field_selector=f"spec.nodeName={name}"):
            meta = pod["metadata"]
            await _gone(self._client.delete(_PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace=0))
        await self._site.note(machine, "removed")

    async def _each(self, act: Callable[[M], Awaitable[None]], machines: Iterable[M]) -> None:
        """Acts on all, some at once; one that fails is left to the next step."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(machine: M) -> None:
            async with slots:
                try:
                    await act(machine)
                except (ApiError, TransportError) as error:
                    _log.warning("tried again later", node=self._site.name(machine), error=str(error))

        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(one(machine))


async def _gone(deletion: Awaitable[None]) -> None:
    try:
        await deletion
    except NotFound:
        return
