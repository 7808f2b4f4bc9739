"""Read your own writes: after a write, a reconciler waits until its store shows that write, or for five seconds at most.

Without it a reconciler that runs again at once would decide on the state from before its own write, and act twice.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

PATIENCE = 5.0
"""Seconds after which a store that still lags is believed again: the write may have been undone meanwhile."""


class Expectations:
    """Remembers by UID which resourceVersion the store must reach. Versions of one kind are compared as integers (KEP-5504)."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._due: dict[str, tuple[int, float]] = {}  # uid -> (version, loop time until which to wait)

    def wrote(self, answer: Mapping[str, Any]) -> None:
        """Takes note of the API server's answer to a write."""
        meta = answer["metadata"]
        self._due[meta["uid"]] = int(meta["resourceVersion"]), asyncio.get_running_loop().time() + self._patience

    def lag(self, uid: str, resource_version: str) -> float:
        """Seconds until it's worth looking again at this object, of which the store has that version; 0 to go on now."""
        version, until = self._due.get(uid, (0, 0.0))
        left = until - asyncio.get_running_loop().time()
        if int(resource_version or 0) >= version or left <= 0:
            self._due.pop(uid, None)
            return 0.0
        return min(left, 0.1)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._due.pop(uid, None)
