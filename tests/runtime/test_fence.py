"""Who may act: nobody before it leads, nor from the moment when its lease is over, whichever thread asks."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.client import Client
from runtime.fence import FOREVER, Deposed, Fence
from runtime.wire import Reply
from tests.runtime.fakes import PODS, Wire
from tests.runtime.test_lease import Memory, elector, end, now

pytestmark = pytest.mark.looptime
POD = {"metadata": {"name": "a", "namespace": "ns"}}


def allowed(fence: Fence) -> bool:
    with contextlib.suppress(Deposed):
        fence.check()
        return True
    return False


def test_it_is_shut_until_opened_and_from_the_instant_on() -> None:
    fence, clock = Fence(), [100.0]
    assert not allowed(fence)
    fence.open(110.0, lambda: clock[0])
    assert allowed(fence)
    clock[0] = 109.9
    assert allowed(fence)
    clock[0] = 110.0
    assert not allowed(fence)
    fence.open(FOREVER, lambda: clock[0])
    assert allowed(fence)
    fence.shut()
    assert not allowed(fence)


async def test_only_the_leader_may_act_and_only_until_its_renew_deadline() -> None:
    lease, fences = Memory(), [Fence(), Fence()]
    cut = Memory(lease)

    async def work() -> None:
        await asyncio.sleep(1e9)

    first = asyncio.create_task(elector(cut, "a", fence=fences[0]).run(work))
    await asyncio.sleep(5)
    second = asyncio.create_task(elector(lease, "b", fence=fences[1]).run(work))
    await asyncio.sleep(20)
    assert [*map(allowed, fences)] == [True, False]
    cut.fault, at = "silence", now()
    seen = []
    for _ in range(300):
        seen.append(tuple(map(allowed, fences)))
        await asyncio.sleep(0.1)
    assert (True, True) not in seen
    assert seen.index((False, False)) <= 101, "10 s after the last renewal"
    assert seen[-1] == (False, True)
    assert seen.index((False, True)) * 0.1 + at - now() < 0
    await end(first, second)


async def test_work_that_goes_on_when_its_process_wakes_after_the_lease_makes_no_call() -> None:
    """The loop stood still for a minute: what was ready to run runs before any timer of the elector."""
    lease, fence, tried = Memory(), Fence(), []
    frozen = asyncio.Event()

    async def work() -> None:
        await frozen.wait()
        tried.append(allowed(fence))

    task = asyncio.create_task(elector(lease, "a", fence=fence).run(work))
    await asyncio.sleep(5)
    real = asyncio.get_running_loop().time
    fence._clock = lambda: real() + 60
    frozen.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert tried == [False]
    await end(task)


async def test_a_lease_given_back_shuts_it_first() -> None:
    lease, fence = Memory(), Fence()
    at_release = []
    write = lease.write

    async def watched(record):  # type: ignore[no-untyped-def]
        if not record.holder:
            at_release.append(allowed(fence))
        return await write(record)

    lease.write = watched  # type: ignore[method-assign]
    await elector(lease, "a", fence=fence).run(lambda: asyncio.sleep(3))
    assert at_release == [False]


async def test_a_client_writes_only_while_the_fence_is_open_and_reads_always() -> None:
    wire, fence = Wire(Reply(200, b"{}")), Fence()
    client = Client(wire).fenced(fence)
    with pytest.raises(Deposed):
        await client.create(PODS, POD)
    await client.get(PODS, "a", "ns")
    fence.open(FOREVER, now)
    await client.create(PODS, POD)
    assert [each.method for each in wire.requests] == ["GET", "POST"]


async def test_a_retry_of_a_write_is_refused_too() -> None:
    fence = Fence()
    fence.open(FOREVER, now)

    class Busy(Wire):
        async def send(self, request):  # type: ignore[no-untyped-def]
            fence.shut()
            return await super().send(request)

    wire = Busy(Reply(429, b"{}"))
    with pytest.raises(Deposed):
        await Client(wire).fenced(fence).patch(PODS, "a", {"metadata": {}}, "ns")
    assert len(wire.requests) == 1


def test_any_thread_may_ask() -> None:
    fence, clock = Fence(), [0.0]
    fence.open(1.0, lambda: clock[0])
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(allowed, fence).result()
        clock[0] = 2.0
        assert not threads.submit(allowed, fence).result()
