"""Leadership in virtual time: never two leaders, whatever the API server does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from runtime.client import Client
from runtime.errors import Conflict, ServerError, TransportError
from runtime.lease import LEASES, ApiLease, Elector, Guard, LeadershipLost, Record
from runtime.wire import Reply
from tests.conftest import WallClock
from tests.runtime.fakes import Wire, json, status

pytestmark = pytest.mark.looptime

Log = list[tuple[float, str, str]]


def now() -> float:
    return asyncio.get_running_loop().time()


class Memory:
    """A lease in memory with optimistic locking; `fault` makes every call of one candidate fail as told."""

    def __init__(self, shared: "Memory | None" = None) -> None:
        self.shared = shared or self
        self.record: Record | None = None
        self.writes = 0
        self.fault = ""

    async def _call(self) -> None:
        match self.fault:
            case "silence":
                await asyncio.sleep(1e9)
            case "reset":
                raise TransportError("connection reset")
            case "error":
                raise ServerError("etcd is down")

    async def read(self) -> Record | None:
        await self._call()
        return self.shared.record

    async def write(self, record: Record) -> Record:
        await self._call()
        at = self.shared
        if at.record and record.body != at.record.body:
            raise Conflict("stale")
        at.writes += 1
        at.record = replace(record, renewed=str(at.writes), body={"version": at.writes})
        return at.record


class Fuse(Guard):
    """Records instead of ending the process."""

    def __init__(self) -> None:
        self.burns_at = float("inf")

    def feed(self, seconds: float) -> None:
        self.burns_at = now() + seconds

    def dismiss(self) -> None:
        self.burns_at = float("inf")


def elector(store: Memory, name: str, **options: Any) -> Elector:
    return Elector(store, name, **{"guard": Fuse(), **options})


def worker(log: Log, name: str) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        log.append((now(), name, "start"))
        try:
            await asyncio.sleep(1e9)
        finally:
            log.append((now(), name, "stop"))

    return work


def words(log: Log) -> list[str]:
    return [f"{name} {what}" for _, name, what in log]


async def end(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("fault", ["silence", "reset", "error"])
async def test_a_leader_that_is_cut_off_stops_before_another_may_start(fault: str) -> None:
    lease, log = Memory(), []
    cut = Memory(lease)
    first = asyncio.create_task(elector(cut, "a").run(worker(log, "a")))
    await asyncio.sleep(5)
    second = asyncio.create_task(elector(lease, "b").run(worker(log, "b")))
    await asyncio.sleep(30)
    assert words(log) == ["a start"]
    cut.fault, at = fault, now()
    await asyncio.sleep(60)
    assert words(log) == ["a start", "a stop", "b start"]
    assert log[1][0] - at <= 10.1  # the renew deadline
    assert log[2][0] - log[1][0] >= 2.9  # 15 s until another may, less 10 s and at most a retry period
    with pytest.raises(LeadershipLost, match="no renewal for 10"):
        await first
    await end(second)


async def test_work_that_crashes_frees_the_lease_at_once() -> None:
    lease = Memory()

    async def crash() -> None:
        await asyncio.sleep(3)
        raise ValueError("bug")

    with pytest.raises(ValueError, match="bug"):
        await elector(lease, "a").run(crash)
    assert lease.record
    assert lease.record.holder == ""


async def test_work_that_ends_frees_the_lease_for_the_next_within_half_a_retry_period() -> None:
    """With the times that services start with, so that a rolling update takes less than 2 s."""
    lease, log = Memory(), []

    async def short() -> None:
        await asyncio.sleep(20)

    first = asyncio.create_task(elector(lease, "a").run(short))
    await asyncio.sleep(1)
    second = asyncio.create_task(elector(lease, "b").run(worker(log, "b")))
    await first
    ended = now()
    await asyncio.sleep(5)
    assert log[0][0] - ended <= 1.2
    await end(second)


@pytest.mark.parametrize("died", [4.0, 4.7, 5.3, 5.9])
async def test_a_leader_that_dies_is_succeeded_within_twenty_seconds(died: float) -> None:
    """Wherever between two renewals it dies; nothing is given back."""
    lease, log = Memory(), []
    first = asyncio.create_task(elector(Memory(lease), "a").run(worker([], "a")))
    await asyncio.sleep(1)
    second = asyncio.create_task(elector(lease, "b").run(worker(log, "b")))
    await asyncio.sleep(died - 1)
    held = lease.record
    await end(first)
    lease.record = held
    await asyncio.sleep(30)
    assert 15 - 2.4 <= log[0][0] - died <= 17.5
    await end(second)


async def test_a_dead_holder_is_succeeded_after_the_duration_it_wrote_seen_by_our_clock() -> None:
    lease, log = Memory(), []
    lease.record = Record("dead", 15, "long ago", 4, {"version": 0})
    start = now()
    task = asyncio.create_task(elector(lease, "b").run(worker(log, "b")))
    await asyncio.sleep(30)
    assert 15 <= log[0][0] - start <= 15 + 1.2
    assert (lease.record.holder, lease.record.transitions) == ("b", 5)
    await end(task)


async def test_a_holder_that_renews_is_never_succeeded() -> None:
    lease, log = Memory(), []
    first = asyncio.create_task(elector(lease, "a").run(worker(log, "a")))
    await asyncio.sleep(1)
    second = asyncio.create_task(elector(lease, "b").run(worker(log, "b")))
    await asyncio.sleep(300)
    assert words(log) == ["a start"]
    assert lease.record
    assert lease.record.transitions == 1
    await end(first, second)


async def test_a_lease_taken_by_another_ends_the_work_at_once() -> None:
    lease, log = Memory(), []
    task = asyncio.create_task(elector(lease, "a").run(worker(log, "a")))
    await asyncio.sleep(5)
    lease.record = Record("b", 15, "new", 2, {"version": 99})
    await asyncio.sleep(3)
    assert words(log) == ["a start", "a stop"]
    with pytest.raises(LeadershipLost, match="held by b"):
        await task
    assert lease.record.holder == "b"


async def test_a_fault_shorter_than_the_deadline_is_survived() -> None:
    lease, log = Memory(), []
    task = asyncio.create_task(elector(lease, "a").run(worker(log, "a")))
    await asyncio.sleep(5)
    lease.fault = "reset"
    await asyncio.sleep(7)
    lease.fault = ""
    await asyncio.sleep(60)
    assert words(log) == ["a start"]
    await end(task)


async def test_the_guard_would_end_the_process_before_another_may_lead() -> None:
    lease, fuse = Memory(), Fuse()
    task = asyncio.create_task(elector(lease, "a", guard=fuse).run(worker([], "a")))
    await asyncio.sleep(100)
    assert now() + 15 - 2.1 <= fuse.burns_at <= now() + 15
    await end(task)
    assert fuse.burns_at == float("inf")


async def test_times_that_could_make_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="leaseDuration > renewDeadline"):
        Elector(Memory(), "a", duration=10, renew_deadline=10)


class TestApiLease:
    @staticmethod
    def answer(**spec: Any) -> Reply:
        return Reply(200, json({"metadata": {"name": "l", "namespace": "ns", "resourceVersion": "5"}, "spec": spec}))

    async def test_an_absent_lease_is_created(self, clock: WallClock) -> None:
        wire = Wire(status(404, "NotFound"), self.answer(holderIdentity="me", leaseDurationSeconds=15))
        lease = ApiLease(Client(wire), "l", "ns", clock)
        assert await lease.read() is None
        await lease.write(Record("me", 15, "", 1, {}))
        sent = wire.requests[1]
        assert (sent.method, sent.path) == ("POST", LEASES.path("", "ns"))
        assert sent.body == json(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "l", "namespace": "ns"},
                "spec": {
                    "holderIdentity": "me",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "2026-11-30T12:00:00.000000Z",
                    "renewTime": "2026-11-30T12:00:00.000000Z",
                    "leaseTransitions": 1,
                },
            }
        )

    async def test_a_renewal_keeps_the_time_of_acquisition_and_carries_the_version(self, clock: WallClock) -> None:
        wire = Wire(self.answer(holderIdentity="me", leaseDurationSeconds=15, acquireTime="2026-11-30T10:00:00.000000Z"))
        lease = ApiLease(Client(wire), "l", "ns", clock)
        found = await lease.read()
        assert found
        await lease.write(found)
        assert wire.requests[1].method == "PUT"
        body = wire.requests[1].body or b""
        assert b'"acquireTime":"2026-11-30T10:00:00.000000Z"' in body
        assert b'"resourceVersion":"5"' in body

    async def test_a_lease_without_spec_is_free(self) -> None:
        found = await ApiLease(Client(Wire(Reply(200, b'{"metadata":{"name":"l"}}'))), "l", "ns").read()
        assert found
        assert (found.holder, found.duration) == ("", 0)
