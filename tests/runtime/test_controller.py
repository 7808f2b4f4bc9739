"""What happens after a reconcile, by how it ended; and the turns of workers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runtime.controller import DONE, Controller, Result
from runtime.errors import Terminal
from runtime.store import Store
from tests.runtime.test_store import Pod, pod

pytestmark = pytest.mark.looptime

Times = list[float]


def now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(reconcile: Callable[[str], Awaitable[Result]], **options: Any) -> AsyncIterator[Controller[str]]:
    controller = Controller("test", reconcile, **options)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    yield controller
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def scripted(*outcomes: Result | Exception) -> tuple[Callable[[str], Awaitable[Result]], Times]:
    """A reconciler that ends as told, then with DONE, and the times of its turns."""
    times: Times = []
    left = list(outcomes)

    async def reconcile(key: str) -> Result:
        times.append(now())
        outcome = left.pop(0) if left else DONE
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return reconcile, times


async def turns(*outcomes: Result | Exception, seconds: float = 1000.0, **options: Any) -> Times:
    """When the turns came, counted from the first."""
    reconcile, times = scripted(*outcomes)
    async with running(reconcile, **options) as controller:
        controller.enqueue("k")
        await asyncio.sleep(seconds)
    return [round(at - times[0], 3) for at in times]


async def test_success_is_the_end_of_it() -> None:
    assert await turns(DONE) == [0]


async def test_an_error_backs_off_and_success_ends_the_row() -> None:
    error = ValueError("no")
    assert await turns(error, error, error, DONE, backoff_base=1) == [0, 1, 3, 7]


async def test_backoff_starts_at_five_milliseconds_and_has_a_ceiling() -> None:
    assert await turns(*[ValueError("no")] * 3) == [0, 0.005, 0.015, 0.035]
    assert await turns(*[ValueError("no")] * 5, backoff_base=1, backoff_ceiling=2) == [0, 1, 3, 5, 7, 9]


async def test_terminal_is_not_requeued_and_forgets_the_failures() -> None:
    assert await turns(ValueError("no"), Terminal("never"), backoff_base=1) == [0, 1]


async def test_requeue_after_forgets_the_failures_then_comes_back() -> None:
    outcomes = (ValueError("no"), ValueError("no"), Result(requeue_after=100), ValueError("no"))
    assert await turns(*outcomes, backoff_base=1) == [0, 1, 3, 103, 104]


async def test_a_reconcile_that_hangs_is_ended_and_comes_back() -> None:
    calls: Times = []

    async def hang(key: str) -> Result:
        calls.append(now())
        await asyncio.sleep(3600 if len(calls) == 1 else 0)
        return DONE

    async with running(hang, timeout=60, backoff_base=1) as controller:
        controller.enqueue("k")
        await asyncio.sleep(100)
    assert [at - calls[0] for at in calls] == [0, pytest.approx(61, abs=0.01)]


async def test_a_failing_key_holds_up_no_other() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> Result:
        seen.append(key)
        if key == "bad":
            raise ValueError("no")
        return DONE

    async with running(reconcile, backoff_base=10) as controller:
        controller.enqueue("bad")
        controller.enqueue("good")
        await asyncio.sleep(1)
    assert seen == ["bad", "good"]


async def test_one_key_is_never_in_two_hands_and_workers_work_side_by_side() -> None:
    busy: set[str] = set()
    most = 0

    async def reconcile(key: str) -> Result:
        nonlocal most
        assert key not in busy
        busy.add(key)
        most = max(most, len(busy))
        await asyncio.sleep(1)
        busy.discard(key)
        return DONE

    async with running(reconcile, workers=4) as controller:
        for at in range(40):
            controller.enqueue(f"k{at % 10}")
        await asyncio.sleep(0.5)
        assert controller.active == 4
        controller.enqueue("k0")
        await asyncio.sleep(20)
    assert most == 4


async def test_stop_lets_what_is_under_way_end_and_takes_nothing_new() -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> Result:
        await asyncio.sleep(10)
        ended.append(key)
        return DONE

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    controller.enqueue("a")
    controller.enqueue("b")
    await asyncio.sleep(1)
    controller.stop()
    await asyncio.wait_for(task, 9.5)
    assert ended == ["a"]


class Bug(BaseException): ...


async def test_a_bug_that_is_no_exception_ends_the_run() -> None:
    async def reconcile(key: str) -> Result:
        raise Bug

    controller = Controller("test", reconcile)
    controller.enqueue("k")
    with pytest.raises(BaseExceptionGroup) as caught:
        await controller.run()
    assert caught.group_contains(Bug)


class TestWatch:
    @staticmethod
    def store(*names: str) -> Store[Pod]:
        store: Store[Pod] = Store()
        store.replace({("ns", name): pod(name, node=f"n-{name}") for name in names})
        return store

    async def test_what_is_there_at_the_start_comes_after_fresh_work(self) -> None:
        seen: list[str] = []

        async def reconcile(key: str) -> Result:
            seen.append(key)
            return DONE

        controller = Controller("test", reconcile)
        controller.watch(self.store("a", "b"), lambda each: [each.metadata.name])
        controller.enqueue("fresh")
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert seen == ["fresh", "a", "b"]

    async def test_a_change_brings_the_keys_of_the_old_and_of_the_new_object(self) -> None:
        seen: list[str] = []

        async def reconcile(key: str) -> Result:
            seen.append(key)
            return DONE

        store = self.store("a")
        async with running(reconcile) as controller:
            controller.watch(store, lambda each: [each.node])
            store.put(("ns", "a"), pod("a", "2", node="other"))
            store.put(("ns", "a"), None)
            await asyncio.sleep(1)
        assert sorted(seen) == ["n-a", "other"]

    async def test_a_follower_keeps_no_keys_of_objects_that_come_and_go(self) -> None:
        reconcile, times = scripted()
        store = self.store()
        controller = Controller("test", reconcile)
        controller.watch(store, lambda each: [each.metadata.name])
        store.put(("ns", "a"), pod("a"))
        store.put(("ns", "a"), None)
        assert len(controller.queue) == 0
        assert times == []


async def test_a_long_row_of_quick_keys_holds_up_nothing_else() -> None:
    reconcile, times = scripted()
    async with running(reconcile) as controller:
        for at in range(1000):
            controller.enqueue(f"k{at}")
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(times) < 10


async def test_how_reconciles_ended_is_counted() -> None:
    reconcile, _ = scripted(ValueError("no"), Terminal("never"), Result(requeue_after=1e6), TimeoutError())
    async with running(reconcile) as controller:
        for key in ("a", "b", "c", "d"):
            controller.enqueue(key)
        await asyncio.sleep(10)
        assert controller.results == {"success": 2, "requeue_after": 1, "error": 1, "timeout": 1, "terminal": 1}
