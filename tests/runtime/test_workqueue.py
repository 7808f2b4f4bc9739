"""The contract of client-go's and controller-runtime's work queue, line by line."""

import asyncio

import pytest

from runtime.workqueue import QueueClosed, WorkQueue

pytestmark = pytest.mark.looptime


async def take(queue: WorkQueue[str], count: int) -> list[str]:
    return [await queue.get() for _ in range(count)]


async def test_one_key_is_never_worked_on_twice_at_once_and_adds_collapse_into_one_more_turn() -> None:
    queue: WorkQueue[str] = WorkQueue()
    busy: set[str] = set()
    turns: list[str] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(1)
            busy.discard(key)
            turns.append(key)
            queue.done(key)

    tasks = [asyncio.create_task(worker()) for _ in range(8)]
    for _ in range(100):
        queue.add("a")
    await asyncio.sleep(0.5)
    for _ in range(100):
        queue.add("a")
        queue.add("b")
    await asyncio.sleep(10)
    assert sorted(turns) == ["a", "a", "b"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_equal_priorities_are_first_in_first_out() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "c"):
        queue.add(key)
    assert await take(queue, 3) == ["a", "b", "c"]


async def test_higher_priorities_come_first_and_the_highest_of_several_adds_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("old", priority=-100)
    queue.add("one")
    queue.add("two")
    queue.add("old", priority=5)
    queue.add("two", priority=-100)  # a lower one never pushes back
    assert await take(queue, 3) == ["old", "one", "two"]
    assert len(queue) == 0


async def test_the_soonest_of_several_due_times_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    start = asyncio.get_running_loop().time()
    for after in (60.0, 5.0, 30.0):
        queue.add("x", after=after)
    assert await queue.get() == "x"
    assert asyncio.get_running_loop().time() - start == pytest.approx(5.0, abs=0.01)
    queue.done("x")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_an_add_without_delay_replaces_a_delayed_one_and_keeps_its_priority() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("x", after=60, priority=7)
    queue.add("y", priority=3)
    queue.add("x")
    assert await take(queue, 2) == ["x", "y"]
    queue.done("x")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_a_delayed_add_of_a_waiting_key_is_lost_in_the_turn_that_comes_anyway() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("x")
    queue.add("x", after=60)
    assert await queue.get() == "x"
    queue.done("x")
    await asyncio.sleep(100)
    assert len(queue) == 0


async def test_backoff_doubles_up_to_the_ceiling_and_starts_anew_once_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(base=1, ceiling=8)
    assert [queue.retry("r") for _ in range(5)] == [1, 2, 4, 8, 8]
    queue.forget("r")
    assert queue.retry("r") == 1
    assert WorkQueue[str](base=0.005).retry("x") == 0.005


async def test_counts_adds_and_retries_and_the_time_waited() -> None:
    queue: WorkQueue[str] = WorkQueue(base=1)
    queue.add("x")
    queue.add("x")
    await asyncio.sleep(3)
    await queue.get()
    queue.done("x")
    assert (queue.adds, queue.waited) == (1, pytest.approx(3.0, abs=0.01))
    queue.retry("x")
    assert queue.retries == 1


async def test_a_closed_queue_sends_waiting_workers_home() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    with pytest.raises(QueueClosed):
        await waiting
    queue.add("x")
    with pytest.raises(QueueClosed):
        await queue.get()
