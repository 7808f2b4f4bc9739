"""What is measured on one control plane: the API server's own rate, latency one by one, and a load all at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.admission import audit, scene
from bench.admission.plane import Plane, cpu_seconds, peak_mib
from bench.admission.scene import Side
from bench.admission.watch import REQUESTS, Watcher, provisioned
from e2e.stack import Program
from kube import resources
from runtime.client import Client, Resource
from runtime.settings import ClientSettings

_WORKLOADS, _JOBS = Resource(*resources.WORKLOADS), Resource(*resources.JOBS)
_TEMPLATES = Resource(*resources.POD_TEMPLATES)
_LANES = 8
"""Writes at once: as many as the admission service has workers by default."""
SINGLES = 30
"""Workloads of one measure of latency, one after another."""


@dataclass(slots=True)
class Pace:
    """How fast the API server takes status patches of ProvisioningRequests, which pass no webhook."""

    per_second: float
    p50: float  # seconds of one alone


@dataclass(slots=True)
class Latency:
    """Seconds of workloads that come one by one, each list sorted; the floor is the same writes by a trivial client."""

    pod_sets: int
    created_to_ready: list[float]
    reserved_to_ready: list[float]
    floor: list[float]


@dataclass(slots=True)
class Load:
    """Of `count` workloads at once: spans in seconds, sorted; `seconds` from the first to the last step of the check."""

    count: int
    seconds: float
    writes: audit.Writes
    reserved_to_requested: list[float]
    provisioned_to_ready: list[float]
    peak_mib: dict[str, int] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)


@asynccontextmanager
async def connected(plane: Plane) -> AsyncIterator[Client]:
    """A client as administrator: no flow control holds it back."""
    client = await Client.connect(ClientSettings(kubeconfig=str(plane.kubeconfig)))
    try:
        yield client
    finally:
        await client.close()


async def pace(client: Client, count: int = 1000) -> Pace:
    """Patches the status of a few requests, one at a time and then several at once."""
    namespace = "pace"
    await client.create(Resource(*resources.NAMESPACES), {"metadata": {"name": namespace}})
    names = [f"request-{number}" for number in range(64)]
    await _each([client.create(REQUESTS, scene.request(namespace, name, ["none"])) for name in names])

    def patch(number: int) -> Awaitable[Any]:
        body = provisioned()
        body["status"]["provisioningClassDetails"]["Number"] = str(number)
        return client.patch(REQUESTS, names[number % len(names)], body, namespace, subresource="status")

    alone = sorted([await _timed(patch(number)) for number in range(100)])
    began = time.monotonic()
    await _each([patch(number) for number in range(100, 100 + count)])
    return Pace(count / (time.monotonic() - began), alone[50])


async def latency(client: Client, side: Side, pod_sets: int) -> Latency:
    """Of bare Workloads, each made when the one before is Ready."""
    namespace = f"{side.key}-single-{pod_sets}"
    await scene.set_up(client, side, namespace)
    async with Watcher(client, namespace) as watcher:
        for number in range(SINGLES):
            await client.create(_WORKLOADS, scene.workload(namespace, f"w-{number}", pod_sets))
            await watcher.until("ready", number + 1)
        spans = watcher.spans("created", "ready"), watcher.spans("reserved", "ready")
    return Latency(pod_sets, *spans, await _floor(client, namespace, pod_sets))


async def _floor(client: Client, namespace: str, pod_sets: int) -> list[float]:
    """What the API demands, one write after another: n templates, a request, the provisioner's answer, the check's entry."""
    await client.create(_WORKLOADS, scene.workload(namespace, "floor", 1, queue="none"))

    async def writes(number: int) -> None:
        templates = [f"floor-{number}-{each}" for each in range(pod_sets)]
        for name in templates:
            await client.create(_TEMPLATES, scene.pod_template(namespace, name))
        await client.create(REQUESTS, scene.request(namespace, f"floor-{number}", templates))
        await client.patch(REQUESTS, f"floor-{number}", provisioned(), namespace, subresource="status")
        entry = {"name": "floor", "state": "Ready", "message": str(number), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        body = {"metadata": {"name": "floor", "namespace": namespace}, "status": {"admissionChecks": [entry]}}
        await client.apply(_WORKLOADS, body, manager=scene.MANAGER, subresource="status")

    return sorted([await _timed(writes(number)) for number in range(SINGLES)])


async def load(plane: Plane, client: Client, side: Side, count: int, service: Program | None) -> Load:
    """Jobs that wait in a held queue, all let go at once; until Kueue has admitted the last."""
    namespace = f"{side.key}-load"
    await scene.set_up(client, side, namespace, held=True)
    async with Watcher(client, namespace) as watcher:
        await _submit(client, watcher, namespace, count)
        since, before, began = _instant(), _processors(plane, service), time.monotonic()
        await scene.release(client, namespace)
        await watcher.until("admitted", count)
        return _load(plane, watcher, service, before, since, time.monotonic() - began)


async def backlog(plane: Plane, client: Client, side: Side, count: int, service: Program) -> Load:
    """Jobs whose quota is reserved already when the service starts: what the check does where Kueue doesn't hold it up."""
    namespace = f"{side.key}-backlog"
    await scene.set_up(client, side, namespace, held=True)
    await scene.active(client, namespace)
    await asyncio.to_thread(service.stop)
    async with Watcher(client, namespace) as watcher:
        await _submit(client, watcher, namespace, count)
        await scene.release(client, namespace)
        await watcher.until("reserved", count)
        await asyncio.to_thread(service.start)
        since, before = _instant(), _processors(plane, service)
        await watcher.until("ready", count)
        seconds = watcher.moments("ready")[-1] - watcher.moments("requested")[0]
        return _load(plane, watcher, service, before, since, seconds)


async def _submit(client: Client, watcher: Watcher, namespace: str, count: int) -> None:
    await _each([client.create(_JOBS, scene.job(namespace, number)) for number in range(count)])
    await watcher.until("created", count)


def _load(plane: Plane, watcher: Watcher, service: Program | None, before: dict[str, float], since: str, seconds: float) -> Load:
    after = _processors(plane, service)
    with plane.audit.open("rb") as lines:
        writes = audit.writes(lines, watcher.namespace, since)
    return Load(
        len(watcher.times),
        seconds,
        writes,
        watcher.spans("reserved", "requested"),
        watcher.spans("provisioned", "ready"),
        {name: peak_mib(pid) for name, pid in _pids(plane, service).items()},
        {name: after[name] - before[name] for name in after},
    )


def _instant() -> str:
    """Now, as the audit log writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _pids(plane: Plane, service: Program | None) -> dict[str, int]:
    alive = plane.alive()
    found = {"Kueue": alive["kueue"], "API server": alive["kube-apiserver"]}
    return found | {"admission": service.pid} if service else found


def _processors(plane: Plane, service: Program | None) -> dict[str, float]:
    return {name: cpu_seconds(pid) for name, pid in _pids(plane, service).items()}


async def _each(calls: Sequence[Awaitable[Any]]) -> None:
    """All of them, several at a time."""
    waiting = iter(calls)

    async def lane() -> None:
        for call in waiting:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(_LANES):
            group.create_task(lane())


async def _timed(call: Awaitable[Any]) -> float:
    began = time.monotonic()
    await call
    return time.monotonic() - began
