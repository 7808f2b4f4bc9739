"""Events for people, through events.k8s.io/v1: never the same twice in two minutes, never a flood, never an error."""

import asyncio
import hashlib
import socket
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from runtime.client import Resource
from runtime.errors import ApiError, TransportError
from runtime.logging import get_logger

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
NOTE_LIMIT = 1024
"""Longest note in bytes that the API server takes (events.k8s.io/v1 validation)."""
SAME = 120.0
"""Seconds in which an event with the same object, type, reason and note isn't sent again."""
BURST, REFILL = 25, 300.0
"""Events about one object at once, and seconds until it may have one more: client-go's spam filter."""
TIME_LIMIT = 5.0
LANES, ROOM = 4, 10_000
"""Events that an Outbox sends at once, and that may wait in it."""
_log = get_logger("events")


class Creator(Protocol):
    """The part of the client that a recorder needs."""

    async def create(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]: ...


class Recorder:
    """`component` is the reporting controller, e.g. corral.dev/provisioner."""

    def __init__(self, client: Creator, component: str, now: Callable[[], datetime]) -> None:
        self._client, self._component, self._now = client, component, now
        self._instance = f"{component.rpartition('/')[2]}-{socket.gethostname()}"[:128]
        self._sent: dict[bytes, float] = {}  # fingerprint -> loop time when it was sent; oldest first
        self._buckets: dict[str, tuple[float, float]] = {}  # object -> (tokens left, loop time of that count); oldest first

    async def event(
        self,
        regarding: Mapping[str, Any],
        type: Literal["Normal", "Warning"],  # noqa: A002 the field's own name
        reason: str,
        message: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        """Tells about `regarding` (any object's JSON, or at least apiVersion, kind and metadata). Never raises on what the
        server does; takes up to 5 s."""
        meta = regarding["metadata"]
        about = f"{regarding.get('kind')}/{meta.get('namespace')}/{meta.get('name')}/{meta.get('uid')}"
        if not self._fresh(f"{about}/{type}/{reason}/{message}") or not self._allowed(about):
            return
        try:
            async with asyncio.timeout(TIME_LIMIT):
                await self._client.create(EVENTS, self._body(regarding, type, reason, message, action))
        except (ApiError, TransportError, TimeoutError) as error:
            _log.warning("an event could not be written", reason=reason, regarding=about, error=str(error))

    def _fresh(self, content: str) -> bool:
        now = asyncio.get_running_loop().time()
        fingerprint = hashlib.sha256(content.encode()).digest()
        _drop_until(self._sent, lambda at: at <= now - SAME)
        if fingerprint in self._sent:
            return False
        self._sent[fingerprint] = now
        return True

    def _allowed(self, about: str) -> bool:
        now = asyncio.get_running_loop().time()
        _drop_until(self._buckets, lambda entry: entry[1] <= now - BURST * REFILL)
        tokens, at = self._buckets.pop(about, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - at) / REFILL)
        allowed = tokens >= 1
        self._buckets[about] = (tokens - allowed, now)
        return allowed

    def _body(self, regarding: Mapping[str, Any], type: str, reason: str, message: str, action: str) -> dict[str, Any]:  # noqa: A002
        meta = regarding["metadata"]
        reference = {"apiVersion": regarding.get("apiVersion"), "kind": regarding.get("kind")}
        reference |= {key: meta.get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
        return {
            "metadata": {
                "name": f"{meta['name'][:200]}.{uuid.uuid4().hex[:16]}",
                "namespace": meta.get("namespace") or "default",
            },
            "eventTime": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "regarding": {key: value for key, value in reference.items() if value},
            "type": type,
            "reason": reason[:128],
            "action": action[:128],
            "note": _cut(message),
        }


class Outbox(Recorder):
    """A recorder whose caller doesn't wait for the server: an event tells of what is done, and must not hold up what comes next.

    `run` sends them, four at a time, so their order isn't kept. Those that wait at the end are lost.
    """

    def __init__(self, client: Creator, component: str, now: Callable[[], datetime]) -> None:
        super().__init__(client, component, now)
        self._waiting: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue(ROOM)

    async def event(
        self,
        regarding: Mapping[str, Any],
        type: Literal["Normal", "Warning"],  # noqa: A002 the field's own name
        reason: str,
        message: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        try:
            self._waiting.put_nowait((regarding, type, reason, message, action))
        except asyncio.QueueFull:
            _log.warning("too many events wait; one is dropped", reason=reason)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(self._send())

    async def _send(self) -> None:
        while True:
            regarding, kind, reason, message, action = await self._waiting.get()
            await super().event(regarding, kind, reason, message, action=action)


def _drop_until(entries: dict[Any, Any], old: Callable[[Any], bool]) -> None:
    while entries:
        first = next(iter(entries))
        if not old(entries[first]):
            return
        del entries[first]


def _cut(message: str) -> str:
    raw = message.encode()
    return message if len(raw) <= NOTE_LIMIT else raw[: NOTE_LIMIT - 3].decode(errors="ignore") + "…"
