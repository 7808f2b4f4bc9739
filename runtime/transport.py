"""Bytes to and from the API server: authentication, TLS, connections and time limits. No meaning, no retries.

kubernetes-asyncio gives configuration, credentials and the HTTP session; everything above is ours, because its request path has
no default time limit and its watch yields a proxy's error page as an event (seen in 36.1.0).
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from runtime.errors import TransportError, from_response
from runtime.kubelib import ConfigException, Configuration, RESTClientObject, load_incluster_config, load_kube_config
from runtime.settings import ClientSettings, SettingsError
from runtime.version import VERSION
from runtime.wire import Lane, Reply, Request

POOL_SIZES: Mapping[Lane, int] = {"request": 20, "watch": 64, "lease": 1}
WATCH_SILENCE = 70.0
"""Seconds without a byte after which a watch counts as dead: bookmarks come every 60 s (kube-apiserver's watch cache)."""
CONNECT_TIMEOUT = 10.0
USER_AGENT = f"corral/{VERSION}"

# At DEBUG that logger prints whole response bodies, Secrets too.
logging.getLogger("kubernetes_asyncio").setLevel(logging.INFO)


class HttpTransport:
    """The real wire. Make it with `connect`, inside a running loop."""

    def __init__(self, configuration: Configuration, load: Callable[[], Awaitable[Configuration]]) -> None:
        self._configuration, self._load = configuration, load
        self._host = str(configuration.host)
        self._pools: dict[Lane, RESTClientObject] = {}
        self._retired: list[RESTClientObject] = []
        self._trust = self._trust_age()

    @classmethod
    async def connect(cls, settings: ClientSettings) -> "HttpTransport":
        """Raises SettingsError when there is neither a usable kubeconfig nor a pod's service account."""

        async def load() -> Configuration:
            configuration = Configuration()
            if settings.kubeconfig:
                await load_kube_config(settings.kubeconfig, settings.context or None, configuration, persist_config=False)
            else:
                load_incluster_config(configuration)  # type: ignore[no-untyped-call]
            return configuration

        _must_exist(settings.kubeconfig)
        try:
            return cls(await load(), load)
        except (ConfigException, OSError, yaml.YAMLError, TypeError) as error:
            where = f"kubeconfig {settings.kubeconfig}" if settings.kubeconfig else "no kubeconfig given, and not in a pod"
            raise SettingsError(f"{where}: {error}") from error

    async def send(self, request: Request) -> Reply:
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=min(CONNECT_TIMEOUT, request.timeout))
        with _transport_errors(f"{request.method} {request.path}"):
            async with self._pool(request.lane).pool_manager.request(
                request.method,
                self._host + request.path,
                params=request.query,
                data=request.body,
                headers={**await self._headers(), "Content-Type": request.content_type},
                timeout=timeout,
                **self._options(),
            ) as response:
                return Reply(response.status, await response.read(), response.headers.get("Retry-After", ""))

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=WATCH_SILENCE)
        with _transport_errors(f"watch {path}"):
            async with self._pool("watch").pool_manager.get(
                self._host + path, params=query, headers=await self._headers(), timeout=timeout, **self._options()
            ) as response:
                if response.status != 200:
                    body = await response.content.read(65536)
                    raise from_response(response.status, body, response.headers.get("Retry-After", ""))
                if response.content_type != "application/json":
                    raise TransportError(f"watch {path}: answered with {response.content_type}, not JSON: is a proxy in between?")
                try:
                    async for chunk in response.content.iter_any():
                        yield chunk
                finally:
                    _cut(response)

    async def renew_credentials(self) -> None:
        with _transport_errors("reading credentials"):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self._configuration = await self._load()

    async def close(self) -> None:
        for pool in [*self._pools.values(), *self._retired]:
            await pool.close()
        self._pools.clear()
        self._retired.clear()

    async def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if self._configuration.username:
            headers["Authorization"] = self._configuration.get_basic_auth_token()
        for auth in (await self._configuration.auth_settings()).values():
            headers["Authorization"] = auth["value"].strip()  # token files often end in a newline
        return headers

    def _options(self) -> dict[str, Any]:
        named = {"server_hostname": self._configuration.tls_server_name, "proxy": self._configuration.proxy}
        return {key: value for key, value in named.items() if value}

    def _pool(self, lane: Lane) -> RESTClientObject:
        if (trust := self._trust_age()) != self._trust:  # the cluster's CA was rotated: new connections must trust the new one
            self._trust = trust
            self._retired.extend(self._pools.values())  # requests under way end undisturbed; rotations are rare
            self._pools.clear()
        if lane not in self._pools:
            self._pools[lane] = RESTClientObject(self._configuration, maxsize=POOL_SIZES[lane])
        return self._pools[lane]

    def _trust_age(self) -> float:
        try:
            return Path(self._configuration.ssl_ca_cert or "").stat().st_mtime
        except OSError:
            return 0.0


def _must_exist(kubeconfig: str) -> None:
    """The loader takes a file that isn't there for an empty one. Several paths, as in KUBECONFIG, need not all exist."""
    if kubeconfig and os.pathsep not in kubeconfig and not Path(kubeconfig).is_file():
        raise SettingsError(f"kubeconfig {kubeconfig}: no such file")


def _cut(response: aiohttp.ClientResponse) -> None:
    """Ends the connection of a watch that was left before its end: a polite end of TLS waits for the server's, longer than the
    loop may live.
    """
    if response.connection and response.connection.transport:
        response.connection.transport.abort()


@contextlib.contextmanager
def _transport_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, ConfigException, OSError, ValueError) as error:  # TimeoutError is an OSError
        raise TransportError(f"{what}: {type(error).__name__}: {error}") from error
