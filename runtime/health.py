"""The HTTP server of a process: /healthz (the loop runs), /readyz (caches are in, not shutting down), /metrics."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from runtime.settings import Settings


def routes(ready: Callable[[], str], render: Callable[[], bytes], *, probes: bool, metrics: bool) -> web.Application:
    """`ready` gives why the process isn't ready, or "" when it is."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        reason = ready()
        return web.Response(status=503 if reason else 200, text=reason or "ok")

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    if probes:
        app.router.add_get("/healthz", healthz)
        app.router.add_get("/readyz", readyz)
    if metrics:
        app.router.add_get("/metrics", scrape)
    return app


@asynccontextmanager
async def serving(settings: Settings, ready: Callable[[], str], render: Callable[[], bytes]) -> AsyncIterator[None]:
    """Serves on the addresses of the settings as long as the context lasts. Raises OSError when an address is taken."""
    health, metrics = settings.health.bind_address, settings.metrics.bind_address
    wanted = {health: routes(ready, render, probes=True, metrics=health == metrics)}
    if metrics != health:
        wanted[metrics] = routes(ready, render, probes=False, metrics=True)
    runners: list[web.AppRunner] = []
    try:
        for address, app in wanted.items():
            if address != "0":
                runners.append(await _start(app, address))
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


async def _start(app: web.Application, address: str) -> web.AppRunner:
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    return runner
