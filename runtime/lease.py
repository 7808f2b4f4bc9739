"""Leadership through a coordination.k8s.io Lease, by the holder's own monotonic clock.

The work runs only while a renewal younger than `renew_deadline` stands. Whatever the API server does (errors, resets, silence),
by then its fence is shut and the work is cancelled, and a guard outside the event loop ends the process at `lease_duration` if
work or loop hang: so never two leaders, as long as clocks run at the same speed. Wall-clock times in the Lease are for people.
"""

import asyncio
import contextlib
import faulthandler
import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from runtime.client import Client, Resource
from runtime.errors import ApiError, NotFound, TransportError
from runtime.fence import Fence
from runtime.logging import get_logger

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


class LeadershipLost(Exception):  # noqa: N818
    """The lease is gone while the work was running: the process must end, with an exit code that isn't 0."""


@dataclass(frozen=True, slots=True)
class Record:
    """The parts of a Lease's spec that decide, and the object that they came from."""

    holder: str
    duration: float
    renewed: str
    """renewTime as it stands: any change of it shows that the holder is alive."""
    transitions: int
    body: dict[str, Any]


class LeaseStore(Protocol):
    """Where the record is kept. Both methods raise ApiError or TransportError; `write` raises Conflict on a stale record."""

    async def read(self) -> Record | None: ...
    async def write(self, record: Record) -> Record: ...


class ApiLease:
    """The record as a Lease object. `client` should have a lane, time limit and attempts of its own (Client.narrowed)."""

    def __init__(
        self, client: Client, name: str, namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client, self._name, self._namespace, self._now = client, name, namespace, now

    async def read(self) -> Record | None:
        try:
            return _record(await self._client.get(LEASES, self._name, self._namespace))
        except NotFound:
            return None

    async def write(self, record: Record) -> Record:
        now = self._now().strftime(_MICRO_TIME)
        old = record.body.get("spec") or {}
        same = old.get("holderIdentity") == record.holder
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": max(1, round(record.duration)),
            "acquireTime": old["acquireTime"] if same and old.get("acquireTime") else now,
            "renewTime": now,
            "leaseTransitions": record.transitions,
        }
        metadata = record.body.get("metadata") or {"name": self._name, "namespace": self._namespace}
        verb = self._client.replace if record.body else self._client.create
        return _record(await verb(LEASES, {"metadata": metadata, "spec": spec}))


def _record(body: dict[str, Any]) -> Record:
    spec = body.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or 0),
        renewed=spec.get("renewTime") or "",
        transitions=int(spec.get("leaseTransitions") or 0),
        body=body,
    )


class Guard:
    """Ends the process, with all stacks on stderr and exit code 1, unless it is fed again in time. Works from a thread of the
    interpreter's own, so that neither a blocked event loop nor a busy lock holds it up."""

    def feed(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(max(0.001, seconds), exit=True, file=sys.__stderr__ or sys.stderr)

    def dismiss(self) -> None:
        faulthandler.cancel_dump_traceback_later()


class Elector:
    """Seconds: `duration` until others may take over, `renew_deadline` until the leader stops, `retry` between renewals.

    Followers look twice as often: what they miss of a holder's last sign of life, and of its giving the lease back, is added to
    every hand-over.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
        guard: Guard | None = None,
        fence: Fence | None = None,
    ) -> None:
        if not duration > renew_deadline > retry * 1.2:
            raise ValueError("leader election needs leaseDuration > renewDeadline > 1.2 x retryPeriod")
        self._store, self._me, self._guard, self._fence = store, identity, guard or Guard(), fence or Fence()
        self._duration, self._deadline, self._retry = duration, renew_deadline, retry
        self._seen = Record("", duration, "", 0, {})
        self._seen_at = float("-inf")
        self._log = get_logger("lease").bind(identity=identity)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease, then runs `work` under it, and gives the lease back when `work` is over, however it ended.

        Raises LeadershipLost after the work has been cancelled; whatever `work` raised otherwise.
        """
        try:
            while not await self._try():  # noqa: ASYNC110 another process moves the lease
                await asyncio.sleep(self._retry * random.uniform(0.5, 0.6))  # noqa: S311
            self._log.info("leading")
            await self._lead(work)
        finally:
            self._fence.shut()
            await self._release()
            self._guard.dismiss()

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        job, keep = asyncio.ensure_future(work()), asyncio.ensure_future(self._keep())
        try:
            done, _ = await asyncio.wait({job, keep}, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: task is job):  # the lost lease is the cause when both have ended
                task.result()
        finally:
            await _end(keep, job)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._seen_at + self._deadline):
                    await asyncio.sleep(self._retry)
                    while not await self._try():
                        if self._seen.holder not in ("", self._me):
                            raise LeadershipLost(f"the lease is held by {self._seen.holder}")
                        await asyncio.sleep(self._retry)
            except TimeoutError:
                raise LeadershipLost(f"no renewal for {loop.time() - self._seen_at:.1f} s") from None

    async def _try(self) -> bool:
        """One attempt to acquire or renew: True if the lease is ours now."""
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(1.0, self._deadline / 2)):
                found = await self._store.read() or Record("", self._duration, "", 0, {})
                if not self._free(found, started):
                    return False
                took = found.holder != self._me
                wanted = replace(found, holder=self._me, duration=self._duration, transitions=found.transitions + took)
                self._seen = await self._store.write(wanted)
        except (ApiError, TransportError, TimeoutError) as error:
            self._log.debug("attempt failed", error=str(error))
            return False
        self._seen_at = started  # from before the request: never optimistic
        self._fence.open(started + self._deadline, asyncio.get_running_loop().time)
        self._guard.feed(started + self._duration - asyncio.get_running_loop().time())
        return True

    def _free(self, found: Record, started: float) -> bool:
        if (found.holder, found.renewed) != (self._seen.holder, self._seen.renewed):
            self._seen, self._seen_at = found, started
        return found.holder in ("", self._me) or asyncio.get_running_loop().time() >= self._seen_at + found.duration

    async def _release(self) -> None:
        if self._seen.holder != self._me:
            return
        with contextlib.suppress(ApiError, TransportError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._store.write(replace(self._seen, holder="", duration=1.0))
                self._log.info("lease released")


async def _end(*tasks: asyncio.Future[None]) -> None:
    """Cancels the tasks and waits for them; their errors are the caller's business already."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
