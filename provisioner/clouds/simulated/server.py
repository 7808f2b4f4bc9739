"""The simulated cloud as a process: state file, HTTP server and, with a kubeconfig, the machines' Nodes."""

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
from aiohttp import web

from provisioner.clouds.simulated.api import CloudApi, answer, errors
from provisioner.clouds.simulated.config import Config, ConfigError, load
from provisioner.clouds.simulated.control import ControlApi
from provisioner.clouds.simulated.engine import Engine, Now
from provisioner.clouds.simulated.records import Machine
from provisioner.clouds.simulated.store import Store
from provisioner.clouds.simulated.world import World
from runtime import logging
from runtime.settings import SettingsError

_log = logging.get_logger("simulated-cloud")


def utc() -> datetime:
    return datetime.now(UTC)


async def serve(
    config_path: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    state: str | None = None,
    kubeconfig: str | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT. Arguments win over the file. Raises ConfigError; prints the URL once it listens."""
    logging.setup("info", "json")
    given = {"host": host, "port": port, "state": state, "kubeconfig": kubeconfig}
    config = msgspec.structs.replace(load(config_path), **{key: value for key, value in given.items() if value is not None})
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with running(config) as url:
        print(f"simulated cloud at {url}", flush=True)  # noqa: T201 the process's one line of output
        await stopped.wait()


@asynccontextmanager
async def running(config: Config, now: Now = utc) -> AsyncIterator[str]:
    """A server that listens while the context lasts; gives its URL. Raises ConfigError."""
    store = Store(config.state)
    try:
        engine = _engine(config, store, now)
        async with _listening(engine, config) as url, _joined(engine, config):
            yield url
    finally:
        store.close()


def _engine(config: Config, store: Store, now: Now) -> Engine:
    memory = store.load()
    world = World(config, memory)
    world.seed(now(), fresh=not len(memory.stock) and not len(memory.reservations))
    store.save(memory.take_changes())
    return Engine(world, store, now)


@asynccontextmanager
async def _listening(engine: Engine, config: Config) -> AsyncIterator[str]:
    app = web.Application(middlewares=[errors])
    app.add_routes([*CloudApi(engine).routes(), *ControlApi(engine).routes(), web.get("/healthz", _healthy)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, config.host, config.port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"can't listen on {config.host}:{config.port}: {error.strerror}; give another host or port"
            ) from error
        yield f"http://{config.host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _joined(engine: Engine, config: Config) -> AsyncIterator[None]:
    """Plays the machines' kubelets in their clusters, if there are any."""
    if config.kubeconfig is None:
        yield
        return
    async with AsyncExitStack() as stack:
        for path, joins in clusters(config.kubeconfig, config.kubeconfigs):
            await stack.enter_async_context(_in_cluster(engine, path, joins))
        yield


def clusters(own: str, others: Mapping[str, str]) -> Iterator[tuple[str, Callable[[Machine], bool]]]:
    """Each kubeconfig with the machines that join there."""
    yield own, lambda machine: not any(_of(installation, machine) for installation in others)
    for installation, path in others.items():
        yield path, partial(_of, installation)


def _of(installation: str, machine: Machine) -> bool:
    return machine.order.tags.get("corral.dev/installation") == installation


@asynccontextmanager
async def _in_cluster(engine: Engine, kubeconfig: str, joins: Callable[[Machine], bool]) -> AsyncIterator[None]:
    # Imported here: the Kubernetes client takes seconds to load, and the API alone doesn't need it.
    from provisioner.clouds.simulated.cluster import Cluster
    from provisioner.clouds.simulated.site import EngineSite
    from runtime.client import Client
    from runtime.settings import ClientSettings

    client = await Client.connect(ClientSettings(kubeconfig=kubeconfig))
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(Cluster(EngineSite(engine, joins), client).run(), name="cluster")
            try:
                yield
            finally:
                task.cancel()
    finally:
        await client.close()


async def _healthy(_: web.Request) -> web.Response:
    return answer({"status": "ok"})


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m provisioner.clouds.simulated --config FILE`. Returns the exit code: 2 for a configuration that can't be used."""
    parser = argparse.ArgumentParser(prog="simulated-cloud", description="A cloud on one machine that fails on purpose.")
    parser.add_argument("--config", type=Path, required=True, help="YAML file of kind SimulatedCloud")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, help="0: any free one")
    parser.add_argument("--state", help="file that remembers everything over restarts")
    parser.add_argument("--kubeconfig", help="cluster that the machines join; an empty text: the one this process runs in")
    options = parser.parse_args(argv)
    try:
        asyncio.run(
            serve(options.config, host=options.host, port=options.port, state=options.state, kubeconfig=options.kubeconfig)
        )
    except (ConfigError, SettingsError) as error:
        print(f"simulated-cloud: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0
