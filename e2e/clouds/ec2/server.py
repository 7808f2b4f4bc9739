"""The HTTP server: every service at `/`, the admin API below `/_admin`; with a kubeconfig, the instances' Nodes."""

import asyncio
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from e2e.clouds.ec2.admin import Admin
from e2e.clouds.ec2.errors import AwsError
from e2e.clouds.ec2.nodes import Ec2Site
from e2e.clouds.ec2.service import Service
from e2e.clouds.ec2.wire import Answer, Call, decode, encode_error, service_of
from provisioner.clouds.simulated.cluster import Cluster
from runtime.client import Client
from runtime.settings import ClientSettings


class Server:
    """Serves until closed. Without a port the kernel chooses one; without a kubeconfig no instance becomes a Node."""

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 0, kubeconfig: Path | None = None) -> None:
        self._service = service
        self._host, self._port = host, port
        self._kubeconfig = kubeconfig
        self._client: Client | None = None
        self._kubelets: asyncio.Task[None] | None = None
        app = web.Application()
        app.add_routes([web.post("/", self._call), *Admin(service).routes()])
        self._runner = web.AppRunner(app, shutdown_timeout=1)

    async def open(self) -> str:
        """Returns the endpoint."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        if self._kubeconfig is not None:
            self._client = await Client.connect(ClientSettings(kubeconfig=str(self._kubeconfig)))
            self._kubelets = asyncio.create_task(Cluster(Ec2Site(self._service), self._client).run(), name="kubelets")
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def close(self) -> None:
        if self._kubelets is not None:
            self._kubelets.cancel()
            with suppress(asyncio.CancelledError):
                await self._kubelets
        if self._client is not None:
            await self._client.close()
        await self._runner.cleanup()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        service = "ec2"
        try:
            service = service_of(request.headers)
            call = decode(service, request.headers, await request.read())
        except AwsError as error:
            return _response(encode_error(service, error, "0"))
        return await self._answer(request, call)

    async def _answer(self, request: web.Request, call: Call) -> web.StreamResponse:
        entry, fault = self._service.note(call), self._service.strike(call)
        if fault is None:
            return _response(self._service.perform(call, entry))
        entry.fault = fault.error or (f"drop {fault.drop}" if fault.drop else "delay")
        await asyncio.sleep(fault.delay)
        if fault.drop == "before":
            entry.outcome = "not done"
            return _cut(request)
        answer = self._service.perform(call, entry, fault)
        return _cut(request) if fault.drop == "after" else _response(answer)


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)


def _cut(request: web.Request) -> web.Response:
    """No answer at all."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
