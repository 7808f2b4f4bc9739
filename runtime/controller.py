"""Runs a reconciler over keys, level-based, with the semantics of controller-runtime (v0.25).

One key is never in two hands, and what happens after a reconcile depends on how it ended:

    returns DONE                 success: the row of failures ends
    returns Result(after)        the same, and the key comes back after that time
    raises Terminal              counted and logged, no requeue: only a change brings the key back
    raises TimeoutError          or runs longer than `timeout`: counted as such, then as an error
    raises any other Exception   logged with its traceback, comes back after the key's backoff
    CancelledError               passes: the process is ending
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from runtime import metrics, telemetry
from runtime.errors import Terminal
from runtime.logging import get_logger
from runtime.store import Object, Store
from runtime.workqueue import K, QueueClosed, WorkQueue

T = TypeVar("T", bound=Object)

FAILURES = ("error", "timeout", "terminal")
RESULTS = ("success", "requeue_after", *FAILURES)
AFTER_RESTART = -100
"""Priority of keys that come from a first list: a restart among 50,000 objects must not bury fresh work."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a reconcile ended. `requeue_after` is in seconds."""

    requeue_after: float | None = None


DONE = Result()


class Controller(Generic[K]):
    """`workers` keys are worked on at once, each for `timeout` seconds at most; backoff in seconds per key."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        workers: int = 1,
        timeout: float = 60.0,
        backoff_base: float = 0.005,
        backoff_ceiling: float = 300.0,
    ) -> None:
        self.name, self.workers, self.active = name, workers, 0
        self.results = dict.fromkeys(RESULTS, 0)
        """How many reconciles ended how, since the start."""
        self.queue: WorkQueue[K] = WorkQueue(base=backoff_base, ceiling=backoff_ceiling)
        self._reconcile, self._timeout = reconcile, timeout
        self._seeds: list[Callable[[], None]] = []
        self._running = False
        self._log = get_logger("controller").bind(controller=name)

    def enqueue(self, key: K, *, priority: int = 0, after: float = 0.0) -> None:
        """Asks for a reconcile of `key`, `after` seconds from now."""
        self.queue.add(key, priority=priority, after=after)

    def watch(self, store: Store[T], keys: Callable[[T], Iterable[K]], *, priority: int = 0) -> None:
        """Changes in the store enqueue the keys of the old and of the new object. All objects that are there when the controller
        starts are enqueued too, after everything fresh; before that (in a follower) changes only fill the store."""

        def changed(old: T | None, new: T | None) -> None:
            if self._running:
                for key in _union(keys, old, new):
                    self.enqueue(key, priority=priority + (0 if store.synced.is_set() else AFTER_RESTART))

        def seed() -> None:
            for item in store.values():
                for key in keys(item):
                    self.enqueue(key, priority=priority + AFTER_RESTART)

        store.on_change(changed)
        self._seeds.append(seed)

    async def run(self) -> None:
        """Works until cancelled, or until `stop` and the keys in hand are done."""
        self._running = True
        for seed in self._seeds:
            seed()
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.name}/{number}")

    def stop(self) -> None:
        """Takes no more keys; `run` returns when those in hand are done."""
        self._running = False
        self.queue.close()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            metrics.QUEUE_TIME.record(self.queue.waited, {"controller": self.name})
            self.active += 1
            try:
                await self._turn(key)
            finally:
                self.active -= 1
                self.queue.done(key)
            await asyncio.sleep(0)  # a row of keys whose reconciles never wait must not hold up the loop

    async def _turn(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with structlog.contextvars.bound_contextvars(controller=self.name, reconcileID=str(uuid.uuid4()), **_named(key)):
            result = await self._outcome(key)
        self.results[result] += 1
        metrics.RECONCILE_TIME.record(loop.time() - started, {"controller": self.name})

    async def _outcome(self, key: K) -> str:
        try:
            with telemetry.reconcile_span(self.name, key):
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(key)
        except Terminal as error:
            self.queue.forget(key)
            self._log.error("gave up on this object until it changes", error=str(error))
            return "terminal"
        except TimeoutError as error:
            delay = self.queue.retry(key)
            self._log.warning("reconcile took too long", error=str(error), timeout=self._timeout, retry_in=delay)
            return "timeout"
        except Exception:
            delay = self.queue.retry(key)
            self._log.exception("reconcile failed", retry_in=delay)
            return "error"
        self.queue.forget(key)
        if result.requeue_after is None:
            return "success"
        self.queue.add(key, after=result.requeue_after)
        return "requeue_after"


def _union(keys: Callable[[T], Iterable[K]], *objects: T | None) -> set[K]:
    return {key for each in objects if each is not None for key in keys(each)}


def _named(key: Any) -> dict[str, str]:
    match key:
        case (str(namespace), str(name)):
            return {"namespace": namespace, "name": name}
    return {"name": str(key)}
