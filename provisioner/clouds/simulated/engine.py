"""One call after the other: do it in memory, put it on the disk, and only then answer."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from provisioner.clouds.simulated.store import CallRecord, Store
from provisioner.clouds.simulated.world import World
from runtime.logging import get_logger

T = TypeVar("T")
Now = Callable[[], datetime]

_log = get_logger("simulated-cloud")


class Engine:
    """Runs work on the world. What `do` returned is durable; work that a kill interrupts has never happened."""

    def __init__(self, world: World, store: Store, now: Now) -> None:
        self.world = world
        self.now = now
        self._store = store
        self._lock = asyncio.Lock()
        self._number = store.last_call()
        self._noted: CallRecord | None = None

    async def do(self, work: Callable[[World, datetime], T]) -> T:
        """The result of the work, or the Refused that it raised, once its changes are on the disk."""
        async with self._lock:
            now = self.now()
            try:
                self.world.advance(now)
                return work(self.world, now)
            finally:
                await self._save()

    def note(self, call: str, outcome: str, **fields: Any) -> None:
        """Called by work: puts the call into the log, together with its changes."""
        self._number += 1
        self._noted = CallRecord(number=self._number, at=self.now(), call=call, outcome=outcome, **fields)

    async def calls(self, after: int) -> list[CallRecord]:
        async with self._lock:
            return await asyncio.to_thread(self._store.calls, after)

    async def _save(self) -> None:
        rows, noted, self._noted = list(self.world.memory.take_changes()), self._noted, None
        if not rows and noted is None:
            return
        try:
            await asyncio.shield(asyncio.to_thread(self._store.save, rows, noted))
        except sqlite3.Error:
            # The memory is ahead of the disk and nothing was answered: the disk is right, a restart goes on from it.
            _log.exception("state can't be written")
            os._exit(74)
