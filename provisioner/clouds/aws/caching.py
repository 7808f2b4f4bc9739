"""Answers that are kept for a while, and longer when the cloud can't be reached: what it said yesterday beats nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from provisioner.clouds.base import CloudError, ErrorKind

T = TypeVar("T")
STALE = 24 * 3600.0
"""Seconds that an answer may still serve while fresh ones fail."""
RETRY = 30.0


class Cached(Generic[T]):
    """The result of `read`, no older than `seconds` unless the cloud doesn't answer. Those who ask at once share one call."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._read, self._seconds = read, seconds
        self._lock = asyncio.Lock()
        self._value: tuple[T, float] | None = None
        self._due, self._drops = 0.0, 0

    async def get(self) -> T:
        """Raises CloudError when there is no answer, and none from earlier that would do."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._value is not None and now < self._due:
                return self._value[0]
            drops = self._drops
            try:
                self._value = (await self._read(), now)
                self._due = now + self._seconds if drops == self._drops else 0.0
            except CloudError as error:
                if self._value is None or error.kind is ErrorKind.CONFIG or now - self._value[1] > STALE:
                    raise
                self._due = now + RETRY
            return self._value[0]

    def drop(self) -> None:
        """Who asks from now on gets an answer that was asked for after now."""
        self._due, self._drops = 0.0, self._drops + 1
