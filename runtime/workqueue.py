"""A keyed work queue for one event loop, with the contract of client-go's and controller-runtime's.

A key that is being worked on is never handed out twice; adds meanwhile collapse into one more turn. The soonest of several
due times wins and the highest priority wins; equal priorities are first in, first out. Failures back off per key.
"""

import asyncio
import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):  # noqa: N818
    """The queue hands out no more keys."""


class WorkQueue(Generic[K]):
    """`base` and `ceiling` are the first and the longest backoff in seconds: base · 2ⁿ⁻¹ after the n-th failure in a row."""

    def __init__(self, *, base: float = 0.005, ceiling: float = 300.0) -> None:
        self._base, self._ceiling = base, ceiling
        self._ready: list[tuple[int, int, K]] = []  # heap of (-priority, order, key)
        self._wanted: dict[K, tuple[int, int, float]] = {}  # key -> its live heap entry (-priority, order) and since when
        self._working: set[K] = set()
        self._timers: dict[K, tuple[asyncio.TimerHandle, int]] = {}  # key -> its due time and priority
        self._failures: dict[K, int] = {}
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._closed = False
        self.adds = 0
        """Adds that put a key into the queue, since the start; collapsed ones don't count."""
        self.retries = 0
        """Keys put back by `retry`, since the start."""
        self.waited = 0.0
        """Seconds that the last key given out had been waiting."""

    def __len__(self) -> int:
        """Keys that wait for a worker now: neither delayed ones nor those being worked on, unless added again."""
        return len(self._wanted)

    def add(self, key: K, *, priority: int = 0, after: float = 0.0) -> None:
        """Asks for a turn of `key`, now or `after` seconds."""
        if after > 0:
            self._delay(key, priority, after)
            return
        if timer := self._timers.pop(key, None):
            timer[0].cancel()
            priority = max(priority, timer[1])
        entry = self._wanted.get(key)
        if entry and entry[0] <= -priority:
            return
        self.adds += entry is None
        since = entry[2] if entry else asyncio.get_running_loop().time()
        entry = self._wanted[key] = (-priority, next(self._order), since)
        if key not in self._working:
            self._push(key, entry)

    def _delay(self, key: K, priority: int, after: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + after
        if entry := self._wanted.get(key):
            if entry[0] > -priority:
                self.add(key, priority=priority)
            return
        if timer := self._timers.get(key):
            timer[0].cancel()
            when, priority = min(when, timer[0].when()), max(priority, timer[1])
        self._timers[key] = loop.call_at(when, self._due, key), priority

    def _due(self, key: K) -> None:
        self.add(key, priority=self._timers.pop(key)[1])

    def _push(self, key: K, entry: tuple[int, int, float]) -> None:
        heapq.heappush(self._ready, (entry[0], entry[1], key))
        self._wake.set()

    async def get(self) -> K:
        """The next key; the caller owns it until `done`. Raises QueueClosed after `close`."""
        while not self._closed:
            while self._ready:
                neg, order, key = heapq.heappop(self._ready)
                entry = self._wanted.get(key)
                if entry and entry[:2] == (neg, order):  # else a stale entry, raised in priority since
                    del self._wanted[key]
                    self._working.add(key)
                    self.waited = asyncio.get_running_loop().time() - entry[2]
                    return key
            self._wake.clear()
            await self._wake.wait()
        raise QueueClosed

    def done(self, key: K) -> None:
        """Ends the turn; the key becomes ready again if it was added meanwhile."""
        self._working.discard(key)
        if entry := self._wanted.get(key):
            self._push(key, entry)

    def retry(self, key: K, *, priority: int = 0) -> float:
        """Puts the key back after its backoff; returns that delay in seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(self._ceiling, self._base * float(2 ** min(count - 1, 40)))
        self.retries += 1
        self.add(key, priority=priority, after=delay)
        return delay

    def forget(self, key: K) -> None:
        """Ends the row of failures: the next one starts at `base` again."""
        self._failures.pop(key, None)

    def close(self) -> None:
        """No more keys are given out: `get` raises QueueClosed, in waiting workers too."""
        self._closed = True
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake.set()
