"""One process's way to the twins of API server and cloud. It takes time, breaks on command, and ends with its process."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec

from capacity.model import Labels
from kube.ours import Provider
from provisioner.clouds.base import DEFAULT_TIMEOUTS, EVERYTHING, Cloud, CloudError, ErrorKind, Instance, Inventory, Order, Wanted
from provisioner.clouds.registry import Clouds
from runtime.errors import TransportError, from_response
from runtime.wire import Reply, Request
from tests.faults.cloud import CloudTwin
from tests.faults.kinds import ERRORS, REFUSED, STATUSES, Script
from tests.faults.server import Address, Server, line_of, status

T = TypeVar("T")

LATENCY = 0.01
LAG = 0.02
SLOW = 8.0
UNAUTHORIZED = Reply(401, status(401, STATUSES["401"], "Unauthorized"))
FORGOTTEN = line_of("ERROR", status(410, "Expired", "too old resource version"))
RUNS_ON = {"runs-on": 30.0, "runs-on-long": 240.0}
"""Seconds from the moment the caller gave up on a call until it is done after all."""
READING = re.compile("api (get|list|watch) |cloud (inventory|instances)|.* leases$")
READ, WRITE = DEFAULT_TIMEOUTS.read, DEFAULT_TIMEOUTS.launch
BEHIND, MISLED = 5.0, 60.0
"""Seconds that a lagging watch is late, and for which a first list without anything on it is believed."""


class Process:
    """One life of the service: when it dies, nothing that it has begun goes on, but what runs at the other end. `identity` is
    what it writes into the Lease, `acting` is called with the name of each call that it makes to change something.
    """

    def __init__(self, script: Script) -> None:
        self.script, self.dead = script, asyncio.Event()
        self.identity = ""
        self.acting: Callable[[Process, str], None] = lambda *_: None
        self.elsewhere: set[asyncio.Task[None]] = set()
        """What this process began and gave up on, and what will be done all the same."""

    async def begin(self, call: str) -> str:
        """What is to befall this call. A dead process makes none."""
        if self.dead.is_set():
            raise asyncio.CancelledError
        if not READING.match(call):
            self.acting(self, call)
        kind = self.script.strikes(call)
        await asyncio.sleep(LATENCY)
        if kind == "crash-before":
            await self._die()
        return kind

    async def act(self, kind: str, work: Callable[[], T], lost: Callable[[str], Exception], patience: float) -> T:
        """Does the work, or not, and tells of it, or not."""
        if kind == "lost-request":
            raise lost("reset before it was read")
        if kind in ("no-answer", *RUNS_ON):
            self._later(kind, patience, work)
            await asyncio.sleep(patience)
            raise lost("no answer")
        done = work()
        if kind == "crash-after":
            await self._die()
        if kind in ("lost-reply", "late-reply"):
            await asyncio.sleep(patience if kind == "late-reply" else 0)
            raise lost("reset before the answer")
        if kind == "slow":
            await asyncio.sleep(SLOW)
        return done

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.Event().wait()

    def _later(self, kind: str, patience: float, work: Callable[[], Any]) -> None:
        async def go() -> None:
            await asyncio.sleep(patience + RUNS_ON[kind])
            with contextlib.suppress(CloudError):
                work()

        if kind in RUNS_ON:
            task = asyncio.ensure_future(go())
            self.elsewhere.add(task)
            task.add_done_callback(self.elsewhere.discard)


LIVING: ContextVar[Process] = ContextVar("living")
"""The process whose work goes on."""


class Guard:
    """What ends a leader whose event loop hangs (runtime.lease.Guard), by virtual time."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, seconds: float) -> None:
        self.dismiss()
        self._timer = asyncio.get_running_loop().call_later(seconds, LIVING.get().dead.set)

    def dismiss(self) -> None:
        if self._timer:
            self._timer.cancel()


class Wire:
    """The transport of a process's client."""

    def __init__(self, server: Server, process: Process) -> None:
        self._server, self._process = server, process
        self._unknown: Request | None = None  # refused with 401; the client sends just this once more
        self._lies: set[tuple[str, str]] = set()  # kind and version of lists that told of nothing

    async def send(self, request: Request) -> Reply:
        if request is self._unknown:
            self._unknown = None
            return UNAUTHORIZED
        at = Address(request.path)
        name = f"api {_verb(request, at)} {at.plural}" + (f"/{at.sub}" if at.sub else "")
        if at.plural == "leases" and request.body:
            self._process.identity = msgspec.json.decode(request.body)["spec"]["holderIdentity"] or self._process.identity
        kind = await self._process.begin(name)
        if kind == "401":
            self._unknown = request
            return UNAUTHORIZED
        if kind in STATUSES:
            return Reply(int(kind), status(int(kind), STATUSES[kind], "the server says so"))
        reply = await self._process.act(kind, lambda: self._server.handle(request), TransportError, request.timeout)
        if kind == "500-done":
            return Reply(500, status(500, "InternalError", "etcdserver: request timed out"))
        if kind == "empty":
            version = self._server.objects.version
            self._lies.add((at.plural, str(version)))
            return Reply(200, b'{"kind":"List","metadata":{"resourceVersion":"%d"},"items":[]}' % version)
        return reply

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        plural = Address(path).plural
        kind = self._process.script.strikes(f"api watch {plural}")
        await asyncio.sleep(LATENCY)
        if (plural, query.get("resourceVersion", "")) in self._lies:
            await asyncio.sleep(MISLED)
            yield FORGOTTEN
            return
        if kind in REFUSED:
            raise from_response(int(kind), status(int(kind), STATUSES[kind], "the server says so"))
        seen = 0
        async with aclosing(self._server.stream(path, query, BEHIND if kind == "lag" else LAG)) as lines:
            async for line in lines:
                seen += b"BOOKMARK" in line[:20] or seen > 0
                if kind == "bare" and not seen:
                    continue
                if seen > 2 and kind == "cut":
                    return
                if seen > 1 and kind == "410":
                    yield FORGOTTEN
                    return
                if seen > 1 and kind == "silent":
                    await asyncio.sleep(3600)
                yield line
                if kind == "bare":
                    await asyncio.sleep(MISLED)
                    yield FORGOTTEN
                    return

    async def renew_credentials(self) -> None: ...

    async def close(self) -> None: ...


def _verb(request: Request, at: Address) -> str:
    match request.method:
        case "GET":
            return "get" if at.name else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "DELETE":
            return "delete"
    return "apply" if "apply" in request.content_type else "patch"


class FaultyCloud:
    """The cloud as one process reaches it."""

    def __init__(self, cloud: CloudTwin, process: Process) -> None:
        self._cloud, self._process = cloud, process

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:
        return await self._call("inventory", lambda _: self._cloud.inventory(), Inventory(), READ)

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        self._cloud.before_launch(order)
        return await self._call("launch", lambda kind: self._cloud.launch(order, short=kind == "partial"), (), WRITE)

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return await self._call("instances", lambda _: self._cloud.instances(tags), (), READ)

    async def terminate(self, ids: Sequence[str]) -> None:
        await self._call("terminate", lambda _: self._cloud.terminate(ids), None, WRITE)

    async def close(self) -> None: ...

    async def _call(self, name: str, work: Callable[[str], T], nothing: T, patience: float) -> T:
        kind = await self._process.begin(f"cloud {name}")
        if kind in ERRORS:
            raise CloudError(ErrorKind(kind), "the cloud says so")
        done = await self._process.act(kind, lambda: work(kind), _unknown, patience)
        return nothing if kind == "empty" else done


def _unknown(words: str) -> CloudError:
    return CloudError(ErrorKind.UNKNOWN, words)


class OneCloud(Clouds):
    """Every simulated endpoint is the twin; adopted nodes have none, as ever."""

    def __init__(self, cloud: CloudTwin, process: Process) -> None:
        super().__init__()
        self._twin = FaultyCloud(cloud, process)

    def connect(self, provider: Provider) -> Cloud:
        return super().connect(provider) if provider.simulated is None else self._twin
