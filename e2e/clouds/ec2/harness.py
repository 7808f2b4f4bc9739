"""The stand-in inside a test: a server in a thread of its own, and its admin API as methods."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.clock import Clock
from e2e.clouds.ec2.objects import Change
from e2e.clouds.ec2.server import Server
from e2e.clouds.ec2.service import Service

START_SECONDS = 30.0


class AdminError(Exception):
    """The admin API refused; the message says why."""


class Ec2:
    """A context manager. `state` is the content of a state file, `kubeconfig` of a cluster that the instances join.

    All methods block.
    """

    def __init__(self, state: Mapping[str, Any] | None = None, *, port: int = 0, kubeconfig: Path | None = None) -> None:
        self.endpoint = ""
        self.service = Service(Account(msgspec.convert(state or {}, Change)), Clock())
        self._port, self._kubeconfig = port, kubeconfig
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ec2-stand-in", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._open.wait(START_SECONDS):
            raise TimeoutError("the stand-in for EC2 did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    @property
    def client_arguments(self) -> dict[str, Any]:
        """What boto3's `client` needs to talk to it."""
        return {
            "endpoint_url": self.endpoint,
            "region_name": self.service.account.settings.region,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }

    def change(self, **kinds: Any) -> None:
        """`change(stock=[{"type": "p5.48xlarge", "zone": "us-east-1a", "count": 8}], settings={"visible": 0})`."""
        self.admin("PUT", "state", kinds)

    def advance(self, seconds: float) -> None:
        """Lets this much time pass at once."""
        self.admin("POST", "clock", {"advance": seconds})

    def fault(self, operation: str, **fields: Any) -> None:
        """`fault("RunInstances", drop="after")`; the fields are those of Fault."""
        self.admin("POST", "faults", {"operation": operation, **fields})

    def calls(self, operation: str = "") -> list[dict[str, Any]]:
        """The log of calls, all or of one operation."""
        found: list[dict[str, Any]] = self.admin("GET", f"calls?operation={operation}" if operation else "calls")
        return found

    def instances(self) -> list[dict[str, Any]]:
        """The truth about every instance."""
        found: list[dict[str, Any]] = self.admin("GET", "instances")
        return found

    def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer. Raises AdminError."""
        data = None if body is None else json.dumps(body, default=str).encode()
        request = urllib.request.Request(f"{self.endpoint}/_admin/{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise AdminError(f"{method} {path}: {error.read().decode()}") from error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = Server(self.service, port=self._port, kubeconfig=self._kubeconfig)
        self.endpoint = self._loop.run_until_complete(server.open())
        self._open.set()
        self._loop.run_forever()
        self._loop.run_until_complete(server.close())
        self._loop.close()
