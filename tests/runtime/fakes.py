"""In-memory twins of the seams of runtime: a wire that answers from a script, and a clusterful of leases."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from runtime.client import Resource
from runtime.wire import Reply, Request

PODS = Resource("", "v1", "pods", "Pod")


def json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def status(code: int, reason: str = "", message: str = "", retry_after: str = "") -> Reply:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Reply(code, json(body), retry_after)


class Wire:
    """A Transport that gives its answers in turn: a Reply, or an exception to raise; the last one again and again."""

    def __init__(self, *answers: Reply | Exception) -> None:
        self.answers = list(answers) or [Reply(200, b"{}")]
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.renewals = 0
        self.chunks: list[bytes | Exception] = []

    async def send(self, request: Request) -> Reply:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def renew_credentials(self) -> None:
        self.renewals += 1

    async def close(self) -> None: ...


Step = bytes | Exception | float
"""Of a scripted watch: bytes to send, an exception to raise, or seconds of silence."""


def event(kind: str, name: str, version: int, **fields: Any) -> bytes:
    """One event of a watch as a line."""
    return json({"type": kind, "object": pod(name, version, **fields)}) + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if end else {}
    return (
        json({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version), "annotations": annotations}}}) + b"\n"
    )


def pod(name: str, version: int, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)}, **fields}


class Script:
    """A Source whose watches follow scripts in turn, then stay silent; pages likewise."""

    def __init__(self, *watches: Iterable[Step], pages: Iterable[Any] = ()) -> None:
        self.watches, self.pages = [list(each) for each in watches], list(pages)
        self.queries: list[Mapping[str, str]] = []
        self.tokens: list[str] = []
        self.on_watch: Callable[[], None] = lambda: None

    @property
    def versions(self) -> list[str]:
        """What each watch asked for: a version, or "" for the whole."""
        return [query.get("resourceVersion", "") for query in self.queries]

    async def watch(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        self.queries.append(query)
        self.on_watch()
        for step in self.watches.pop(0) if self.watches else [1e9]:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                yield step

    async def page(self, resource: Resource, namespace: str, query: Mapping[str, str], token: str = "") -> bytes:
        self.tokens.append(token)
        answer = self.pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json(answer)
