"""The API server's verbs on plain JSON: paths, retries and typed errors over a Transport.

What is tried again, and when: a busy server (429) did nothing, so any verb; a failing one (5xx) may have acted, so only the
idempotent verbs (all but create and JSON patch); no answer at all, only reads. On a 401 the client reads its credentials
again, once.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import tenacity

from runtime import metrics, telemetry
from runtime.errors import ApiError, Gone, ServerError, TooManyRequests, TransportError, Unauthorized, from_response
from runtime.fence import Fence
from runtime.settings import ClientSettings
from runtime.wire import Lane, Reply, Request, Transport

PAGE = 500
"""Objects a page of a list."""
LONGEST_WAIT = 10.0
"""Seconds at most between two attempts; a server that asks for more gets its error passed on after the last attempt."""
_READS = frozenset({"get", "list"})
_IDEMPOTENT = _READS | {"apply", "patch", "update", "delete"}
_BACKOFF = tenacity.wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT)
_APPLY = "application/apply-patch+yaml"
_PATCH_TYPES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


Objects = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Resource:
    """Where a kind lives. `group` is "" for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path; without a name that of the collection, without a namespace that of all namespaces."""
        root = "/apis/" if self.group else "/api/"
        parts = [self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return root + "/".join(parts)


class Client:
    """One cluster's API. Values are plain dicts; every call has a time limit and raises the errors of runtime.errors."""

    def __init__(
        self,
        transport: Transport,
        *,
        lane: Lane = "request",
        timeout: float = 30.0,
        attempts: int = 4,
        fence: Fence | None = None,
    ) -> None:
        self._transport, self._lane, self._timeout, self._attempts, self._fence = transport, lane, timeout, attempts, fence

    @classmethod
    async def connect(cls, settings: ClientSettings) -> "Client":
        """From a kubeconfig or from inside a pod. Raises SettingsError when neither can be used."""
        from runtime.transport import HttpTransport  # aiohttp takes 0.3 s of CPU to import: only who connects pays

        transport = await HttpTransport.connect(settings)
        return cls(transport, timeout=settings.timeout, attempts=settings.attempts)

    def narrowed(self, lane: Lane, timeout: float, attempts: int = 1) -> "Client":
        """The same connection with a pool, time limit (seconds) and patience of its own."""
        return Client(self._transport, lane=lane, timeout=timeout, attempts=attempts)

    def fenced(self, fence: Fence) -> "Client":
        """The same, but each attempt to write raises Deposed, and is not made, while the fence is shut."""
        return Client(self._transport, lane=self._lane, timeout=self._timeout, attempts=self._attempts, fence=fence)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        return _object(await self._send("get", resource, Request("GET", resource.path(name, namespace))))

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects as of one moment, read in pages; starts anew, once, if the server forgets that moment meanwhile."""
        query = _given(labelSelector=label_selector, fieldSelector=field_selector)
        try:
            return await self._pages(resource, namespace, query)
        except Gone:
            return await self._pages(resource, namespace, query)

    async def _pages(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Objects:
        items: Objects = []
        token = ""
        while True:
            page = _object(Reply(200, await self.page(resource, namespace, query, token)))
            items += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in page.get("items") or ()]
            token = page["metadata"].get("continue") or ""
            if not token:
                return items

    async def page(self, resource: Resource, namespace: str, query: Mapping[str, str], token: str = "") -> bytes:
        """One page of a list, undecoded. `token` is the `continue` of the page before."""
        sent = {**query, "limit": str(PAGE), **_given(**{"continue": token})}
        return (await self._send("list", resource, Request("GET", resource.path("", namespace), sent))).body

    async def watch(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The bytes of a watch as they come, newline-separated JSON events. Raises ApiError, TransportError; never retries."""
        async with aclosing(self._transport.stream(resource.path("", namespace), {**query, "watch": "true"})) as chunks:
            try:
                async for chunk in chunks:
                    yield chunk
            except Unauthorized:
                await self._transport.renew_credentials()
                raise

    async def create(self, resource: Resource, body: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """POST into the namespace that the body's metadata names. Raises AlreadyExists."""
        query = _given(dryRun="All" if dry_run else "")
        path = resource.path("", body["metadata"].get("namespace") or "")
        return _object(await self._send("create", resource, Request("POST", path, query, _encoded(resource, body))))

    async def evict(self, name: str, namespace: str, uid: str) -> None:
        """Asks a pod to leave by its eviction subresource. Raises TooManyRequests at once while a PodDisruptionBudget forbids."""
        pods = Resource("", "v1", "pods", "Pod")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        encoded = _encoded(pods, {**body, "deleteOptions": {"preconditions": {"uid": uid}}})
        await self._send("evict", pods, Request("POST", pods.path(name, namespace, "eviction"), {}, encoded))

    async def apply(
        self, resource: Resource, body: Mapping[str, Any], *, manager: str, subresource: str = "", force: bool = True
    ) -> dict[str, Any]:
        """Server-side apply: afterwards `manager` owns exactly the fields in `body`. Raises Conflict, without force on a field
        that another manager owns, and always when the body carries a stale resourceVersion."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        request = Request("PATCH", _path(resource, body, subresource), query, _encoded(resource, body), _APPLY)
        return _object(await self._send("apply", resource, request))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        namespace: str = "",
        *,
        subresource: str = "",
        kind: Literal["merge", "json"] = "merge",
        manager: str = "",
    ) -> dict[str, Any]:
        """A merge patch, or a JSON patch whose body is a list. A stale metadata.resourceVersion in it raises Conflict."""
        path = resource.path(name, namespace, subresource)
        request = Request("PATCH", path, _given(fieldManager=manager), msgspec.json.encode(body), _PATCH_TYPES[kind])
        return _object(await self._send("patch" if kind == "merge" else "json-patch", resource, request))

    async def replace(self, resource: Resource, body: Mapping[str, Any], *, subresource: str = "") -> dict[str, Any]:
        """PUT. The body's resourceVersion is the lock: a stale one raises Conflict."""
        request = Request("PUT", _path(resource, body, subresource), {}, _encoded(resource, body))
        return _object(await self._send("update", resource, request))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace: int | None = None,
    ) -> None:
        """Asks for deletion; `uid` pins one incarnation (another one raises Conflict), `grace` is in seconds. Raises NotFound."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._send("delete", resource, Request("DELETE", resource.path(name, namespace), {}, msgspec.json.encode(options)))

    async def close(self) -> None:
        await self._transport.close()

    async def _send(self, verb: str, resource: Resource, request: Request) -> Reply:
        if request.method != "GET":
            telemetry.acted()
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=_pause,
            retry=tenacity.retry_if_exception(lambda error: _worth_retrying(verb, error)),
            reraise=True,
        )
        return await retrying(self._exchange, verb, resource, replace(request, lane=self._lane, timeout=self._timeout))

    async def _exchange(self, verb: str, resource: Resource, request: Request) -> Reply:
        if self._fence and request.method != "GET":
            self._fence.check()
        started = asyncio.get_running_loop().time()
        code = "none"
        try:
            reply = await self._transport.send(request)
            if reply.status == 401:
                await self._transport.renew_credentials()
                reply = await self._transport.send(request)
            code = str(reply.status)
        finally:
            took = asyncio.get_running_loop().time() - started
            metrics.API_REQUEST_DURATION.record(took, {"verb": verb, "resource": resource.plural, "code": code})
        if not 200 <= reply.status < 300:
            raise from_response(reply.status, reply.body, reply.retry_after)
        return reply


def _worth_retrying(verb: str, error: BaseException) -> bool:
    match error:
        case TooManyRequests():
            return verb != "evict"
        case ServerError():
            return verb in _IDEMPOTENT
        case TransportError():
            return verb in _READS
    return False


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next attempt: random within a doubling span, but never sooner than the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ApiError) else 0.0
    return min(LONGEST_WAIT, asked + _BACKOFF(state))


def _object(reply: Reply) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(reply.body)
    except msgspec.DecodeError as error:
        raise TransportError(f"the answer is not JSON: {reply.body[:100]!r}") from error
    if not isinstance(value, dict):
        raise TransportError(f"the answer is not a JSON object: {reply.body[:100]!r}")
    return value


def _encoded(resource: Resource, body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, **body})


def _path(resource: Resource, body: Mapping[str, Any], subresource: str) -> str:
    meta = body["metadata"]
    return resource.path(meta["name"], meta.get("namespace") or "", subresource)


def _given(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}
