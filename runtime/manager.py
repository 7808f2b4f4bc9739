"""Puts a service together and runs it to its end.

Order of the start: health and metrics server, reflectors (also in followers, so that a new leader starts warm), election, then
controllers and background work. Order of the end on SIGTERM: not ready, no more keys, up to 25 s for what is under way, release
of the lease, connections. The failure of any part ends all of it, with its traceback: nothing runs on half alive.
"""

import asyncio
import gc
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from runtime import metrics, telemetry
from runtime.client import Client, Resource
from runtime.controller import Controller
from runtime.fence import FOREVER, Fence
from runtime.health import serving
from runtime.lease import ApiLease, Elector
from runtime.logging import get_logger
from runtime.published import publish
from runtime.reflector import Object, Reflector, Store
from runtime.settings import Settings
from runtime.version import VERSION

T = TypeVar("T", bound=Object)

SYNC_LIMIT = 120.0
"""Seconds that the first lists may take before the process gives up and says which are missing."""
GRACE = 25.0
"""Seconds for reconciles under way at the end; the pod's terminationGracePeriodSeconds must be longer (30)."""
LAG_PERIOD = 1.0


class NeverReady(TimeoutError):  # noqa: N818
    """The first lists didn't come in time; the message names them."""


class Stopped(Exception):  # noqa: N818
    """Ends the root task group in order: SIGTERM came and the work is done."""


class Manager:
    """One process of a service. Register everything, then `run` it once. `name` is also the default name of the Lease.

    Work must act through `client`, which refuses to write outside of leadership, and check `fence` before other calls that act.
    """

    def __init__(self, settings: Settings, client: Client, name: str, fence: Fence | None = None) -> None:
        self._settings, self._client, self._name = settings, client, name
        self.fence = fence or Fence()
        self.client = client.fenced(self.fence)
        self._reflectors: list[Reflector[Any]] = []
        self._controllers: list[Controller[Any]] = []
        self._background: dict[str, Callable[[], Awaitable[None]]] = {}
        self._leading = False
        self._stopping = asyncio.Event()
        self._lag = 0.0
        self._log = get_logger("manager")

    def reflector(
        self,
        resource: Resource,
        type_: type[T],
        *,
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        optional: bool = False,
    ) -> Store[T]:
        """The store of one kind, kept up to date while the manager runs; an `optional` one may not be served."""
        new = Reflector(
            self._client,
            resource,
            type_,
            field_selector=field_selector,
            label_selector=label_selector,
            namespace=namespace,
            optional=optional,
        )
        self._reflectors.append(new)
        return new.store

    def controller(self, controller: Controller[Any]) -> None:
        """A controller that works while this process leads."""
        self._controllers.append(controller)

    def background(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Long-running work of the leader. It is cancelled at the end; if it ends before that, the process ends with an error."""
        self._background[name] = run

    def stop(self) -> None:
        """Begins the orderly end, as SIGTERM does."""
        self._stopping.set()

    async def run(self) -> None:
        """Until SIGTERM or SIGINT. Raises an ExceptionGroup when a part fails: in it are LeadershipLost when the lease is lost,
        NeverReady when the first lists don't come."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        told = telemetry.setup(self._name, self._settings)
        self._publish()
        try:
            async with serving(self._settings, self._unready, told.render):
                await self._run_parts()
        finally:
            await self._client.close()
            await asyncio.to_thread(told.flush)

    async def _run_parts(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"reflector/{reflector.resource.plural}")
                group.create_task(self._measure_lag(), name="loop-lag")
                group.create_task(self._lead_until_stopped(), name="main")
        except* Stopped:
            self._log.info("stopped")

    async def _lead_until_stopped(self) -> None:
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(self._synced_then_lead(), name="lead")
            await self._stopping.wait()
            if not self._leading:
                leading.cancel()
        raise Stopped

    async def _synced_then_lead(self) -> None:
        try:
            async with asyncio.timeout(SYNC_LIMIT):
                for reflector in self._reflectors:
                    await reflector.store.synced.wait()
        except TimeoutError:
            raise NeverReady(
                f"after {SYNC_LIMIT:.0f} s {self._unready()}: does the API server answer, are these kinds installed, and may "
                "this account list them? The warnings before this line have its words"
            ) from None
        _settle_memory()
        election = self._settings.leader_election
        if not election.leader_elect:
            self.fence.open(FOREVER, asyncio.get_running_loop().time)
            await self._work()
            return
        await self._elect().run(self._work)

    def _elect(self) -> Elector:
        election = self._settings.leader_election
        namespace = election.namespace
        client = self._client.narrowed("lease", election.renew_deadline / 2)
        return Elector(
            ApiLease(client, election.resource_name or self._name, namespace),
            f"{socket.gethostname()}_{uuid.uuid4()}",
            duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry=election.retry_period,
            fence=self.fence,
        )

    async def _work(self) -> None:
        """The leader's part. Returns after `stop`, when what was under way is done."""
        self._leading = True
        async with asyncio.TaskGroup() as group:
            controllers = [group.create_task(each.run(), name=each.name) for each in self._controllers]
            background = [group.create_task(self._forever(name, run), name=name) for name, run in self._background.items()]
            await self._stopping.wait()
            for each in self._controllers:
                each.stop()
            if controllers:
                await asyncio.wait(controllers, timeout=GRACE)
            for task in [*controllers, *background]:
                task.cancel()

    async def _forever(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        await run()
        if not self._stopping.is_set():
            raise RuntimeError(f"background work {name!r} ended by itself")

    def _unready(self) -> str:
        if self._stopping.is_set():
            return "shutting down"
        missing = [each.resource.plural for each in self._reflectors if not each.store.synced.is_set()]
        return f"no complete list yet of: {', '.join(missing)}" if missing else ""

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(LAG_PERIOD)
            self._lag = max(0.0, loop.time() - before - LAG_PERIOD)

    def _publish(self) -> None:
        """Makes what the parts count readable at /metrics."""
        metrics.gauge("corral_leader", "1 while this process leads", lambda: [(int(self._leading), {})])
        metrics.gauge("corral_event_loop_lag", "How late the event loop ran a timer", lambda: [(self._lag, {})], "s")
        metrics.gauge("corral_build_info", "1; the label says which version runs", lambda: [(1, {"version": VERSION})])
        publish(self._controllers, self._reflectors)


def _settle_memory() -> None:
    """Takes the first lists out of the garbage collector's sight: full passes over them took 0.4 to 0.9 s at 5,000 pods."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
