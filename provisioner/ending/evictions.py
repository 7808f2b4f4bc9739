"""Asks the pods of a node to leave, by the eviction API alone: PodDisruptionBudgets hold, and nobody is forced."""

import asyncio
from collections.abc import Collection

from kube import core
from provisioner import live
from provisioner.ending.disruption import is_stranger, undisturbed
from runtime.client import Client
from runtime.errors import Conflict, NotFound, TooManyRequests

_AT_ONCE = 16


async def empty(client: Client, node: str, spared: Collection[str] = (), *, home: str) -> list[str]:
    """Asks all pods that run on the node, live, but those of DaemonSets, static ones, health checks of namespace `home` and those
    that select a key of the `spared` bookings. Where some are spared, the machine is ours to end: it waits for those that must
    not be disturbed, too. Returns namespace/name of those that stay: a budget holds them, or an annotation. Raises ApiError and
    TransportError.
    """
    pods = [pod for pod in await live.pods_on(client, node) if is_stranger(pod, frozenset(spared), home=home)]
    gate = asyncio.Semaphore(_AT_ONCE)
    asked = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    kept = [pod for pod in asked if spared and undisturbed(pod)]
    asked = [pod for pod in asked if pod not in kept]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(client, pod, gate)) for pod in asked]
    kept += [pod for pod, task in zip(asked, tasks, strict=True) if not task.result()]
    return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in kept]


async def _ask(client: Client, pod: core.Pod, gate: asyncio.Semaphore) -> bool:
    """Whether it goes."""
    meta = pod.metadata
    async with gate:
        try:
            await client.evict(meta.name, meta.namespace, meta.uid)
        except TooManyRequests:
            return False
        except (NotFound, Conflict):
            return True
    return True
