"""A whole process in miniature: order of start and end, probes, metrics, and that a failing part ends all of it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from runtime import telemetry
from runtime.client import Client, Resource
from runtime.controller import DONE, Controller, Result
from runtime.manager import Manager
from runtime.settings import Settings
from tests.runtime.fakes import PODS, Wire, bookmark, event
from tests.runtime.test_reflector import Pod

pytestmark = pytest.mark.realtime

SETTINGS = Settings.model_validate(
    {
        "health": {"bindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "leaderElection": {"leaderElect": False},
    }
)


class Endless(Wire):
    """Its stream stays open after the scripted chunks."""

    async def stream(self, path: str, query: Any) -> AsyncIterator[bytes]:  # type: ignore[override]
        async for chunk in super().stream(path, query):
            yield chunk
        await asyncio.sleep(3600)


def wire(*chunks: bytes) -> Endless:
    made = Endless()
    made.chunks = list(chunks)
    return made


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(manager.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Any, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 many kinds of condition
            await asyncio.sleep(0.01)


async def test_work_starts_once_the_lists_are_complete_and_sigterm_ends_it_in_order() -> None:
    steps: list[str] = []
    manager = Manager(SETTINGS, Client(wire(event("ADDED", "a", 1), bookmark(2, end=True))), "test")
    store = manager.reflector(PODS, Pod)

    async def reconcile(key: str) -> Result:
        steps.append(f"begin {key}")
        await asyncio.sleep(0.3)
        steps.append(f"end {key}")
        return DONE

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            steps.append("background ended")

    controller = Controller("test", reconcile)
    controller.watch(store, lambda each: [each.metadata.name])
    manager.controller(controller)
    manager.background("forever", forever)
    async with running(manager) as task:
        await until(lambda: steps)
        assert manager._unready() == ""
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 5)
    assert steps == ["begin a", "end a", "background ended"]
    assert manager._unready() == "shutting down"


async def test_it_is_not_ready_before_the_lists_are_complete() -> None:
    manager = Manager(SETTINGS, Client(wire(event("ADDED", "a", 1))), "test")
    manager.reflector(PODS, Pod)
    manager.reflector(Resource("", "v1", "nodes", "Node", namespaced=False), Pod)
    async with running(manager):
        await asyncio.sleep(0.1)
        assert manager._unready() == "no complete list yet of: pods, nodes"


async def test_lists_that_never_come_end_the_process_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.manager.SYNC_LIMIT", 0.1)
    manager = Manager(SETTINGS, Client(wire()), "test")
    manager.reflector(PODS, Pod)
    with pytest.raises(ExceptionGroup) as caught:
        await manager.run()
    assert caught.group_contains(TimeoutError, match="no complete list yet of: pods")


@pytest.mark.parametrize(("ends", "message"), [(False, "bug"), (True, "'b' ended by itself")])
async def test_background_work_that_fails_or_ends_takes_the_process_with_it(ends: bool, message: str) -> None:
    async def broken() -> None:
        if not ends:
            raise RuntimeError("bug")

    manager = Manager(SETTINGS, Client(wire()), "test")
    manager.background("b", broken)
    with pytest.raises(ExceptionGroup) as caught:
        await manager.run()
    assert caught.group_contains(RuntimeError, match=message)


async def test_reconciles_that_do_not_end_in_time_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.manager.GRACE", 0.1)
    started: list[str] = []

    async def hang(key: str) -> Result:
        started.append(key)
        await asyncio.sleep(3600)
        return DONE

    manager = Manager(SETTINGS, Client(wire()), "test")
    controller = Controller("test", hang)
    manager.controller(controller)
    controller.enqueue("k")
    async with running(manager) as task:
        await until(lambda: started)
        manager.stop()
        await asyncio.wait_for(task, 2)


async def test_probes_and_metrics_are_served(unused_port: int) -> None:
    settings = SETTINGS.model_copy(
        update={
            "health": SETTINGS.health.model_copy(update={"bind_address": f"127.0.0.1:{unused_port}"}),
            "metrics": SETTINGS.metrics.model_copy(update={"bind_address": f"127.0.0.1:{unused_port}"}),
        }
    )
    manager = Manager(settings, Client(wire(event("ADDED", "a", 1), bookmark(2, end=True))), "test")
    store = manager.reflector(PODS, Pod)
    manager.controller(Controller("probed", lambda key: asyncio.sleep(0, DONE)))
    async with running(manager), aiohttp.ClientSession(f"http://127.0.0.1:{unused_port}") as session:
        await until(store.synced.is_set)
        await asyncio.sleep(0.1)
        for path in ("/healthz", "/readyz"):
            async with session.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok")
        async with session.get("/metrics") as response:
            text = await response.text()
        assert 'corral_reconcile_total{controller="probed",result="success"} 0.0' in text
        assert 'corral_watch_objects{resource="pods"} 1.0' in text
        assert 'corral_workqueue_adds_total{controller="probed"} 0.0' in text
        manager.stop()
        async with session.get("/readyz") as response:
            assert response.status in (200, 503)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_telemetry_is_set_up_once() -> None:
    assert telemetry.setup("a", SETTINGS) is telemetry.setup("b", SETTINGS)
    assert msgspec.json.encode(telemetry.setup("a", SETTINGS).render().decode())
