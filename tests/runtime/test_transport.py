"""The wire against a small server on loopback, in real time: time limits, credentials, content types, trust."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from runtime.client import Client
from runtime.errors import Forbidden, TransportError
from runtime.settings import ClientSettings
from runtime.transport import HttpTransport
from runtime.wire import Request
from tests.runtime.fakes import PODS

pytestmark = pytest.mark.realtime

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(handler: Handler, path: Path, token: str = "t-1\n") -> AsyncIterator[Path]:
    """A server that answers everything by `handler`, and a kubeconfig for it."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = path / "kubeconfig"
    config.write_text(kubeconfig(f"http://127.0.0.1:{port}", token))
    yield config
    await runner.cleanup()


def kubeconfig(url: str, token: str) -> str:
    named = {"cluster": {"server": url}, "user": {"token": token}, "context": {"cluster": "x", "user": "x"}}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            **{f"{kind}s": [{"name": "x", kind: value}] for kind, value in named.items()},
        }
    )


async def connect(config: Path) -> HttpTransport:
    return await HttpTransport.connect(ClientSettings(kubeconfig=str(config)))


async def test_requests_carry_the_token_and_our_own_user_agent(tmp_path: Path) -> None:
    seen: list[web.BaseRequest] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response({})

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        reply = await transport.send(Request("GET", "/api/v1/pods", {"labelSelector": "a=b"}))
        await transport.close()
    assert (reply.status, reply.body) == (200, b"{}")
    assert seen[0].headers["Authorization"] == "Bearer t-1"
    assert seen[0].headers["User-Agent"].startswith("corral/")
    assert seen[0].query["labelSelector"] == "a=b"


async def test_a_401_makes_it_read_the_token_again(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        fresh = request.headers["Authorization"] == "Bearer t-2"
        return web.json_response({"ok": True} if fresh else {}, status=200 if fresh else 401)

    async with server(handler, tmp_path) as config:
        client = Client(await connect(config))
        config.write_text(config.read_text().replace("t-1", "t-2"))
        assert await client.get(PODS, "a", "ns") == {"ok": True}
        await client.close()


async def test_a_silent_server_is_given_up_after_the_time_limit(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        start = asyncio.get_running_loop().time()
        with pytest.raises(TransportError, match="TimeoutError"):
            await transport.send(Request("GET", "/x", timeout=0.2))
        assert asyncio.get_running_loop().time() - start < 2
        await transport.close()


async def test_nobody_listening_is_a_transport_error(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig("http://127.0.0.1:1", "t"))
    transport = await connect(config)
    with pytest.raises(TransportError):
        await transport.send(Request("GET", "/x"))
    with pytest.raises(TransportError):
        [chunk async for chunk in transport.stream("/x", {})]
    await transport.close()


async def test_credentials_that_cannot_be_read_are_a_transport_error(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig("http://127.0.0.1:1", "t"))
    transport = await connect(config)
    config.unlink()
    with pytest.raises(TransportError, match="credentials"):
        await transport.renew_credentials()
    await transport.close()


async def test_a_stream_gives_what_comes_when_it_comes(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(0.1)
        await response.write(b"two\n")
        return response

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        assert [chunk async for chunk in transport.stream("/x", {})] == [b"one\n", b"two\n"]
        await transport.close()


async def test_a_stream_that_is_refused_or_is_a_web_page_is_an_error(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/refused":
            return web.json_response({"reason": "Forbidden", "message": "no"}, status=403)
        return web.Response(text="<html>", content_type="text/html")

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        with pytest.raises(Forbidden, match="no"):
            [chunk async for chunk in transport.stream("/refused", {})]
        with pytest.raises(TransportError, match="text/html, not JSON"):
            [chunk async for chunk in transport.stream("/page", {})]
        await transport.close()


async def test_a_stream_that_is_cut_is_an_error(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"one\n")
        assert request.transport
        request.transport.abort()
        return response

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        with pytest.raises(TransportError):
            [chunk async for chunk in transport.stream("/x", {})]
        await transport.close()


async def test_a_new_authority_file_makes_new_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({})

    async with server(handler, tmp_path) as config:
        transport = await connect(config)
        await transport.send(Request("GET", "/x"))
        before = transport._pools["request"]
        monkeypatch.setattr(transport, "_trust_age", lambda: 99.0)
        await transport.send(Request("GET", "/x"))
        assert transport._pools["request"] is not before
        await transport.close()
        assert before.pool_manager.closed
