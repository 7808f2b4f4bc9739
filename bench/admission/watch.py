"""When each workload got how far, as a watch shows it, and the instant provisioner that both controllers wait for."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from kube import resources
from kube.meta import ObjectMeta
from kube.request_marks import WORKLOAD
from runtime.client import Client, Resource
from runtime.errors import Conflict, NotFound
from runtime.reflector import Reflector

REQUESTS = Resource(*resources.PROVISIONING_REQUESTS)
_WORKLOADS = Resource(*resources.WORKLOADS)
_AT_ONCE = 16
_PATIENCE = 120.0
"""Seconds without any progress after which a run has failed."""

Clock = Callable[[], float]


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _Check(msgspec.Struct, frozen=True, gc=False):
    state: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    admission_checks: tuple[_Check, ...] = ()


class _Workload(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()

    def is_true(self, kind: str) -> bool:
        return any(each.type == kind and each.status == "True" for each in self.status.conditions)


class _Request(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()

    @property
    def workload(self) -> str:
        return self.metadata.annotations.get(WORKLOAD) or self.metadata.owner_references[0].name


@dataclass(slots=True)
class Times:
    """Moments of the monotonic clock at which a workload was first seen in each state, in the order of the states."""

    created: float | None = None
    reserved: float | None = None
    requested: float | None = None
    provisioned: float | None = None  # when the API server had taken the provisioner's answer
    ready: float | None = None
    admitted: float | None = None


@dataclass
class Watcher:
    """Follows the workloads and requests of one namespace. As a context manager it watches while it is open."""

    client: Client
    namespace: str
    times: dict[str, Times] = field(default_factory=dict)
    clock: Clock = time.monotonic

    async def __aenter__(self) -> Self:
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        workloads = Reflector(self.client, _WORKLOADS, _Workload, namespace=self.namespace)
        requests = Reflector(self.client, REQUESTS, _Request, namespace=self.namespace)
        workloads.store.on_change(lambda _, new: self._workload(new))
        requests.store.on_change(lambda old, new: self._request(new) if old is None and new is not None else None)
        self._spawn(workloads.run())
        self._spawn(requests.run())
        await workloads.store.synced.wait()
        await requests.store.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, state: str, count: int) -> None:
        """Until so many workloads have been seen in that state. Raises TimeoutError when nothing moves any more."""
        while len(self.moments(state)) < count:
            self._changed.clear()
            async with asyncio.timeout(_PATIENCE):
                await self._changed.wait()
            await asyncio.sleep(0.05 if count > 1 else 0)

    def moments(self, state: str) -> list[float]:
        """When workloads were first seen in that state."""
        return sorted(moment for each in self.times.values() if (moment := getattr(each, state)) is not None)

    def spans(self, first: str, last: str) -> list[float]:
        """Seconds that each workload took from one state to another."""
        pairs = ((getattr(each, first), getattr(each, last)) for each in self.times.values())
        return sorted(end - begin for begin, end in pairs if begin is not None and end is not None)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note(self, workload: str, state: str) -> None:
        times = self.times.setdefault(workload, Times())
        if getattr(times, state) is None:
            setattr(times, state, self.clock())
            self._changed.set()

    def _workload(self, seen: _Workload | None) -> None:
        if seen is None:
            return
        self._note(seen.metadata.name, "created")
        for kind, state in (("QuotaReserved", "reserved"), ("Admitted", "admitted")):
            if seen.is_true(kind):
                self._note(seen.metadata.name, state)
        checks = seen.status.admission_checks
        if checks and all(each.state == "Ready" for each in checks):
            self._note(seen.metadata.name, "ready")

    def _request(self, seen: _Request) -> None:
        self._note(seen.workload, "requested")
        if not seen.status.conditions:
            self._spawn(self._provision(seen))

    async def _provision(self, seen: _Request) -> None:
        meta = seen.metadata
        async with self._gate:
            with suppress(Conflict, NotFound):
                await self.client.patch(REQUESTS, meta.name, provisioned(), meta.namespace, subresource="status")
        self._note(seen.workload, "provisioned")


def provisioned() -> dict[str, Any]:
    """A status that says in one patch that the request is accepted and its capacity there."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    both = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": now}
        for each in ("Accepted", "Provisioned")
    ]
    return {"status": {"conditions": both, "provisioningClassDetails": {"Booking": "wl-0123456789"}}}
