"""The twin of the API server: its verbs over `Objects`, as far as Corral relies on them (test_contract.py)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from kube.bookings import MENDED
from runtime.errors import from_response
from runtime.wire import Reply, Request
from tests.faults.merging import Path, applied, leaves, merged, without
from tests.faults.objects import BUILT_IN, KINDS, Body, Change, Key, Objects, Stored

BOOKMARKS = 50.0
"""Seconds between bookmarks of a quiet watch; the real server sends one a minute."""
Line = bytes
Due = tuple[float, Line]
"""Loop time from which on a line may be seen."""


class Refusal(Exception):  # noqa: N818 an answer, not a failure
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.reply = Reply(code, status(code, reason, message))


def status(code: int, reason: str, message: str) -> bytes:
    """A metav1.Status."""
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return msgspec.json.encode({**head, "code": code, "reason": reason, "message": message})


NOT_SERVED = status(404, "NotFound", "the server could not find the requested resource")


class Address:
    """What a path names. `name` and `sub` are "" where it has none."""

    def __init__(self, path: str) -> None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        self.group = parts[1] if parts[0] == "apis" else ""
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        self.namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            self.namespace, rest = rest[1], rest[2:]
        self.plural, self.name, self.sub = (*rest, "", "")[:3]
        self.key: Key = (self.namespace, self.name)

    @property
    def what(self) -> str:
        return f"{self.plural}.{self.group}".rstrip(".") + f' "{self.name}"'


OFF = status(422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")


class Server:
    """Requests take effect at once; the wire adds the time. `streaming`: whether it has streaming lists."""

    def __init__(self, objects: Objects, *, streaming: bool = True) -> None:
        self.objects, self._streaming = objects, streaming
        self._owned: dict[tuple[str, Key, str, str], frozenset[Path]] = {}  # plural, key, manager, subresource
        self._watchers: list[Callable[[Change], None]] = []
        self.before_evict: Callable[[Body], None] = lambda _: None
        objects.told.append(self._tell)

    def handle(self, request: Request) -> Reply:
        at = Address(request.path)
        if at.plural not in KINDS:
            return Reply(404, NOT_SERVED)
        try:
            return self._verb(request, at)
        except Refusal as refusal:
            return refusal.reply

    def _verb(self, request: Request, at: Address) -> Reply:
        body = msgspec.json.decode(request.body) if request.body else None
        match request.method:
            case "GET" if at.name:
                return Reply(200, self._there(at).raw)
            case "GET":
                return Reply(200, self._list(at, request.query))
            case "POST" if at.sub == "eviction":
                return self._delete(at, body.get("deleteOptions", {}), self.before_evict)
            case "POST":
                return self._create(at, body)
            case "PUT":
                return self._replace(at, body)
            case "DELETE":
                return self._delete(at, body or {})
            case "PATCH" if "apply" in request.content_type:
                return self._apply(at, body, request.query["fieldManager"])
        return self._patch(at, body)

    def _there(self, at: Address) -> Stored:
        found = self.objects.stored(at.plural, at.key)
        if found is None:
            raise Refusal(404, "NotFound", f"{at.what} not found")
        return found

    # --- reading ---

    def _list(self, at: Address, query: Mapping[str, str]) -> bytes:
        wanted = selected(at, query)
        items = b",".join(each.raw for each in self.objects.all(at.plural) if wanted(each.body))
        return b'{"kind":"List","metadata":{"resourceVersion":"%d"},"items":[%b]}' % (self.objects.version, items)

    async def stream(self, path: str, query: Mapping[str, str], lag: float) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, each `lag` seconds late. Raises ApiError."""
        at = Address(path)
        self._check_stream(at, query)
        since = int(query.get("resourceVersion") or 0)
        if since and since < self.objects.compacted:
            yield line_of("ERROR", status(410, "Expired", f"too old resource version: {since} ({self.objects.compacted})"))
            return
        wanted = selected(at, query)
        waiting: asyncio.Queue[Due] = asyncio.Queue()
        clock = asyncio.get_running_loop().time

        def tell(change: Change) -> None:
            if change.plural == at.plural and (line := event(change, wanted)):
                waiting.put_nowait((clock() + lag, line))

        if query.get("sendInitialEvents") == "true":
            for line in self._initial(at, wanted):
                waiting.put_nowait((clock(), line))
        for change in self.objects.history if since else ():
            if change.version > since:
                tell(change)
        self._watchers.append(tell)
        try:
            while True:
                due, line = await self._next(at, waiting)
                await asyncio.sleep(due - clock())
                yield line
        finally:
            self._watchers.remove(tell)

    def _check_stream(self, at: Address, query: Mapping[str, str]) -> None:
        if at.plural not in KINDS:
            raise from_response(404, NOT_SERVED)
        if "sendInitialEvents" in query and not self._streaming:
            raise from_response(422, OFF)

    def _initial(self, at: Address, wanted: Callable[[Body], bool]) -> list[Line]:
        there = [line_of("ADDED", each.raw) for each in self.objects.all(at.plural) if wanted(each.body)]
        return [*there, self._bookmark(at, end=True)]

    async def _next(self, at: Address, waiting: asyncio.Queue[Due]) -> Due:
        try:
            async with asyncio.timeout(BOOKMARKS):
                return await waiting.get()
        except TimeoutError:
            return 0.0, self._bookmark(at)

    def _bookmark(self, at: Address, *, end: bool = False) -> Line:
        meta: Body = {"resourceVersion": str(self.objects.version)}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return line_of("BOOKMARK", msgspec.json.encode({"kind": KINDS[at.plural].kind, "metadata": meta}))

    def _tell(self, change: Change) -> None:
        for each in list(self._watchers):
            each(change)

    # --- writing ---

    def _create(self, at: Address, body: Body) -> Reply:
        at.name = body["metadata"]["name"]
        at.key = (at.namespace, at.name)
        if self.objects.stored(at.plural, at.key):
            raise Refusal(409, "AlreadyExists", f"{at.what} already exists")
        kept = body if at.plural == "nodes" else {key: value for key, value in body.items() if key != "status"}
        if at.plural == "pods":
            kept["status"] = {"phase": "Pending"}
        return Reply(201, self.objects.put(at.plural, kept).raw)

    def _replace(self, at: Address, body: Body) -> Reply:
        old = self._there(at).body
        self._check(at, old, body)
        return self._store(at, old, body)

    def _patch(self, at: Address, body: Body) -> Reply:
        old = self._there(at).body
        self._check(at, old, body)
        return self._store(at, old, merged(old, body))

    def _apply(self, at: Address, body: Body, manager: str) -> Reply:
        found = self.objects.stored(at.plural, at.key)
        if found is None and (at.sub or body["metadata"].get("uid")):
            raise Refusal(404, "NotFound", f"{at.what} not found")
        self._check(at, found.body if found else {"metadata": {}}, body)
        old = found.body if found else {"metadata": {"name": at.name, "namespace": at.namespace}}
        slot = (at.plural, at.key, manager, at.sub)
        named = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
        mine = frozenset(leaves(named))
        others = {path for key, paths in self._owned.items() if key[:2] == slot[:2] and key != slot for path in paths}
        new = old
        for path in sorted(self._owned.get(slot, frozenset()) - mine - others, key=str):
            new = without(new, path)
        self._owned[slot] = mine
        new = applied(new, named)
        return self._store(at, old, new) if found else Reply(201, self.objects.put(at.plural, new).raw)

    def _check(self, at: Address, old: Body, body: Body) -> None:
        """What the body says of version and uid must be so; at /status nobody looks at the uid."""
        meta = body.get("metadata", {})
        there = old["metadata"]
        if there and meta.get("resourceVersion", there.get("resourceVersion")) != there.get("resourceVersion"):
            raise Refusal(409, "Conflict", f"Operation cannot be fulfilled on {at.what}: the object has been modified")
        if there and not at.sub and meta.get("uid", there.get("uid")) != there.get("uid"):
            raise Refusal(422, "Invalid", f"{at.what} is invalid: metadata.uid: field is immutable")

    def _store(self, at: Address, old: Body, new: Body) -> Reply:
        """The part that the address may change: /status the status alone, the object itself all else."""
        if at.plural == "bookings" and not at.sub:
            _keep_plan(at, old, new)
        if at.sub == "status":
            new = {**old, "status": new.get("status", {})}
        elif at.plural not in BUILT_IN or at.plural in ("nodes", "pods"):
            new = {**new, "status": old["status"]} if "status" in old else {k: v for k, v in new.items() if k != "status"}
        stored = self.objects.put(at.plural, new)
        meta = stored.body["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.objects.remove(at.plural, at.key)
        return Reply(200, stored.raw)

    def _delete(self, at: Address, options: Body, before: Callable[[Body], None] = lambda _: None) -> Reply:
        """`before` is told what is about to go, once nothing forbids it."""
        old = self._there(at).body
        wanted = options.get("preconditions", {}).get("uid")
        if wanted and wanted != old["metadata"]["uid"]:
            raise Refusal(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}")
        before(old)
        self.objects.delete(at.plural, at.name, at.namespace)
        for slot in [slot for slot in self._owned if slot[:2] == (at.plural, at.key)]:
            del self._owned[slot]
        return Reply(200, b'{"kind":"Status","status":"Success"}')


def _keep_plan(at: Address, old: Body, new: Body) -> None:
    """The CRD's rules (`kube.rules`)."""
    changed = {key for key in {*old["spec"], *new["spec"]} if old["spec"].get(key) != new["spec"].get(key)}
    if changed and (changed - {*MENDED} or old.get("status", {}).get("phase") != "Provisioned"):
        raise Refusal(422, "Invalid", f"{at.what} is invalid: spec: of a booking's plan only the nodes change: {sorted(changed)}")


def line_of(kind: str, raw: bytes) -> Line:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), raw)


def event(change: Change, wanted: Callable[[Body], bool]) -> Line | None:
    """How a watch tells of a change: by what its selector saw before and sees now."""
    before = change.old if change.old and wanted(change.old.body) else None
    after = change.new if change.new and wanted(change.new.body) else None
    if after:
        return line_of("MODIFIED" if before else "ADDED", after.raw)
    if before and change.old:
        gone = change.old if change.new is None else change.new
        return line_of("DELETED", gone.raw)
    return None


def selected(at: Address, query: Mapping[str, str]) -> Callable[[Body], bool]:
    """Namespace and field selector; labels are selected by no caller."""
    terms = [term.partition("!=") if "!=" in term else term.partition("=") for term in query.get("fieldSelector", "").split(",")]
    tests = [(name.split("."), "!" not in sign, value) for name, sign, value in terms if name]

    def matches(body: Body) -> bool:
        if at.namespace and body["metadata"].get("namespace") != at.namespace:
            return False
        return all((_field(body, path) == value) is equal for path, equal, value in tests)

    return matches


def _field(body: Any, path: list[str]) -> str:
    for step in path:
        body = body.get(step, {}) if isinstance(body, Mapping) else {}
    return body if isinstance(body, str) else ""
