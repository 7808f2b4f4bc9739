"""Keeps a Store equal to one collection of the API server: streaming list, then watch; the whole again when the server forgot
or was away.

A version is not resumed from after the server was away: it may have come back with an older etcd snapshot. Kubernetes 1.36 takes
a version from its future without an error, and sends nothing that is written until its own has passed it.

Kubernetes' WatchList (KEP-3157) is used where it is on: one watch sends the present objects first, up to a bookmark annotated
`k8s.io/initial-events-end`. Where it is off (answer 400 or 422) a paged list and a plain watch take its place. That is asked anew
after a while: of several API servers one may be older than the others, or this one be upgraded.
"""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import msgspec

from runtime.client import Resource
from runtime.errors import ApiError, Gone, Invalid, NotFound, TransportError, from_status
from runtime.logging import get_logger
from runtime.store import Key, Object, Store, key_of

__all__ = ["Key", "Object", "Reflector", "Store", "key_of"]

T = TypeVar("T", bound=Object)

SILENCE = 70.0
"""Seconds without a byte after which the peer is taken for dead: bookmarks come every minute."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Seconds before a reconnect, doubling, with jitter; progress resets it: a whole list, or an event after it."""
ABSENT_PAUSE = 30.0
"""Seconds until a kind that the server does not serve is asked for again."""
PAGED = 600.0
"""Seconds from a refusal on in which streaming lists are not asked for."""
BATCH = 64
"""Events decoded before other tasks get their turn."""
INITIAL_END = "k8s.io/initial-events-end"


class Source(Protocol):
    """The part of the client that a reflector needs."""

    def watch(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]: ...
    async def page(self, resource: Resource, namespace: str, query: Mapping[str, str], token: str = "") -> bytes: ...


class _Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Bare(msgspec.Struct, gc=False):
    """What is known of an object that doesn't fit its type."""

    metadata: _Meta = _Meta()
    code: int = 0
    reason: str = ""
    message: str = ""


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "token": "continue"}):
    resource_version: str = ""
    token: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_envelope = msgspec.json.Decoder(_Envelope)
_bare = msgspec.json.Decoder(_Bare)
_page = msgspec.json.Decoder(_Page)


class Reflector(Generic[T]):
    """One watch of one kind. `type_` is a msgspec struct of the fields that are read; selectors narrow at the source.

    `optional`: the server may not serve the kind, and then there are no objects of it.
    """

    def __init__(
        self,
        client: Source,
        resource: Resource,
        type_: type[T],
        *,
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        streaming: bool = True,
        optional: bool = False,
    ) -> None:
        self.store: Store[T] = Store()
        self.resource = resource
        self.relists = self.reconnects = self.events = self.undecodable = 0
        self._client, self._namespace = client, namespace
        self._optional = optional
        self._paged_until = 0.0 if streaming else math.inf
        self._decoder = msgspec.json.Decoder(type_)
        narrow = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._narrow = {key: value for key, value in narrow.items() if value}
        self._version = ""  # what the next watch resumes from; "" for the whole
        self._fresh: dict[Key, T] | None = None  # the initial part of a streaming list as far as it has come
        self._pause = FIRST_PAUSE
        self._complained: set[Key] = set()
        self._log = get_logger("reflector").bind(resource=resource.plural)

    @property
    def streaming(self) -> bool:
        """Whether the next list is asked for as a stream; False for PAGED after a refusal, for ever if none is wanted."""
        return asyncio.get_running_loop().time() >= self._paged_until

    async def run(self) -> None:
        """Until cancelled: no answer of the server and no object ends it."""
        while True:
            try:
                await self._follow()
            except Gone:
                self._version = ""
            except (ApiError, TransportError, TimeoutError) as error:
                if not isinstance(error, ApiError) or isinstance(error, Invalid):
                    self._version = ""
                if self._optional and isinstance(error, NotFound):
                    await self._without_it()
                    continue
                self._log.warning("watch failed; trying again", error=str(error) or "silence", pause=round(self._pause, 1))
            except msgspec.DecodeError as error:
                self._version = ""
                self._log.warning("watch sent what is not an event; listing again", error=str(error))
            self.reconnects += 1
            await asyncio.sleep(self._pause * random.uniform(0.5, 1.5))  # noqa: S311 also after a clean end: never a hot loop
            self._pause = min(LONGEST_PAUSE, self._pause * 2)

    async def _without_it(self) -> None:
        """The server knows no such kind, which is as good as an empty list; it may come to know it."""
        self._version, self._pause = "", FIRST_PAUSE
        self.store.replace({})
        await asyncio.sleep(ABSENT_PAUSE)

    async def _follow(self) -> None:
        query = {**self._narrow, "allowWatchBookmarks": "true", "timeoutSeconds": str(random.randint(300, 600))}  # noqa: S311
        if self._version:
            await self._consume({**query, "resourceVersion": self._version})
            return
        self.relists += 1
        if self.streaming:
            try:
                await self._consume({**query, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
            except Invalid:
                self._paged_until = asyncio.get_running_loop().time() + PAGED
                self._log.info("the server has no streaming list; listing in pages")
            return
        await self._list()

    async def _list(self) -> None:
        """A consistent paged list: resourceVersion 0 would be cheaper, but may go back in time after a restart."""
        fresh: dict[Key, T] = {}
        token = ""
        while True:
            async with asyncio.timeout(SILENCE):
                page = _page.decode(await self._client.page(self.resource, self._namespace, self._narrow, token))
            for at, raw in enumerate(page.items or ()):
                self._collect(fresh, raw)
                if at % BATCH == BATCH - 1:
                    await asyncio.sleep(0)
            token = page.metadata.token
            if not token:
                break
        self.store.replace(fresh)
        self._version, self._pause = page.metadata.resource_version, FIRST_PAUSE

    async def _consume(self, query: Mapping[str, str]) -> None:
        self._fresh = None if "resourceVersion" in query else {}
        rest = b""
        async with aclosing(self._client.watch(self.resource, self._namespace, query)) as chunks:
            while True:
                async with asyncio.timeout(SILENCE):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for at, line in enumerate(lines):
                    self._event(line)
                    if at % BATCH == BATCH - 1:
                        await asyncio.sleep(0)

    def _event(self, line: bytes) -> None:
        event = _envelope.decode(line)
        self.events += 1
        match event.type:
            case "BOOKMARK":
                self._bookmark(_bare.decode(event.object).metadata)
            case "ERROR":
                status = _bare.decode(event.object)
                raise from_status(msgspec.to_builtins(status), status.code)
            case _ if self._fresh is not None:
                self._collect(self._fresh, event.object)  # a version inside the initial list can't be resumed from
            case kind:
                self._version, self._pause = self._change(kind, event.object) or self._version, FIRST_PAUSE

    def _bookmark(self, meta: _Meta) -> None:
        if self._fresh is not None:
            if meta.annotations.get(INITIAL_END) != "true":
                return
            self.store.replace(self._fresh)
            self._fresh = None
        self._version, self._pause = meta.resource_version, FIRST_PAUSE

    def _collect(self, fresh: dict[Key, T], raw: msgspec.Raw) -> None:
        key, item, _ = self._decode(raw)
        kept = item if item is not None else self.store.get(key)
        if kept is not None:
            fresh[key] = kept

    def _change(self, kind: str, raw: msgspec.Raw) -> str:
        key, item, version = self._decode(raw)
        if kind == "DELETED":
            self._complained.discard(key)
            self.store.put(key, None)
        elif item is not None:
            self.store.put(key, item)
        return version

    def _decode(self, raw: msgspec.Raw) -> tuple[Key, T | None, str]:
        """Key, object and version. The object is None when it doesn't fit its type: then its last good state stays, because
        unknown isn't absent; that is logged once an object."""
        try:
            item = self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            meta = _bare.decode(raw).metadata
            key = (meta.namespace, meta.name)
            self.undecodable += 1
            if key not in self._complained:
                self._complained.add(key)
                self._log.error("an object can't be read and is skipped", namespace=key[0], name=key[1], error=str(error))
            return key, None, meta.resource_version
        return key_of(item), item, item.metadata.resource_version
