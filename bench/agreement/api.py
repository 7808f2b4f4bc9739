"""A keep-alive client of the API server and of the scheduler's metrics, a few requests at a time."""

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bench.agreement.cases import Json
from e2e.controlplane.layout import Layout

MERGE = "application/merge-patch+json"
_IN_FLIGHT = 8
_PLURALS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
}


class RefusedError(Exception):
    """The API server doesn't take the object: the text is its own."""


class GoneError(RefusedError):
    """There is no such object."""


def path(kind: str, namespace: str = "", name: str = "") -> str:
    """Of a collection, or of one object in it."""
    collection = _PLURALS[kind].format(namespace)
    return f"{collection}/{name}" if name else collection


class Api:
    """The administrator's session. `metrics_url` is the scheduler's."""

    def __init__(self, session: aiohttp.ClientSession, server: str, metrics_url: str) -> None:
        self._session, self._server, self._metrics_url = session, server, metrics_url
        self._slots = asyncio.Semaphore(_IN_FLIGHT)

    @classmethod
    @asynccontextmanager
    async def open(cls, layout: Layout) -> AsyncIterator["Api"]:
        config = json.loads(layout.kubeconfig().read_text())
        headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        context = ssl.create_default_context(cafile=str(layout.authority))
        connector = aiohttp.TCPConnector(limit=_IN_FLIGHT + 4, ssl=context)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
        async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout) as session:
            yield cls(session, layout.server, f"https://127.0.0.1:{layout.ports.scheduler}/metrics")

    async def call(self, method: str, target: str, body: Any = None, *, content_type: str = "application/json") -> Json:
        """One request; raises RefusedError for any answer above 299, GoneError for 404. A 409 on creation counts as done."""
        data = json.dumps(body) if body is not None else None
        headers = {"Content-Type": content_type} if data else {}
        async with self._slots, self._session.request(method, self._server + target, data=data, headers=headers) as reply:
            text = await reply.text()
            if reply.status >= 300 and not (method == "POST" and reply.status == 409):
                raise (GoneError if reply.status == 404 else RefusedError)(f"{method} {target}: {reply.status} {_message(text)}")
            answer: Json = json.loads(text)
            return answer

    async def create(self, item: Json) -> Json:
        meta = item["metadata"]
        return await self.call("POST", path(item["kind"], meta.get("namespace", "")), item)

    async def patch(self, kind: str, name: str, change: Json) -> Json:
        return await self.call("PATCH", path(kind, name=name), change, content_type=MERGE)

    async def delete_pod(self, namespace: str, name: str) -> None:
        with contextlib.suppress(GoneError):
            await self.call("DELETE", path("Pod", namespace, name), {"gracePeriodSeconds": 0})

    async def release_pod(self, namespace: str, name: str) -> None:
        """Take the finalizers off."""
        with contextlib.suppress(GoneError):
            await self.call("PATCH", path("Pod", namespace, name), {"metadata": {"finalizers": None}}, content_type=MERGE)

    async def watch(self, target: str, since: str) -> AsyncIterator[Json]:
        """Events of a collection after a resource version, until the server ends the stream."""
        query = f"?watch=1&resourceVersion={since}&allowWatchBookmarks=true&timeoutSeconds=3000"
        async with self._session.get(self._server + target + query) as reply:
            async for line in reply.content:
                yield json.loads(line)

    async def gauges(self) -> dict[str, float]:
        """The scheduler's pending pods by queue (active, backoff, …) and cache sizes by type (nodes, pods, …)."""
        async with self._session.get(self._metrics_url, ssl=False) as reply:
            text = await reply.text()
        found = re.findall(
            r'^scheduler_(?:pending_pods|cache_size|scheduler_cache_size)\{[^}]*"(\w+)"\} (\S+)$', text, re.MULTILINE
        )
        return {name: float(number) for name, number in found}


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))
    except ValueError:
        return text[:300]
