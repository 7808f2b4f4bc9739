"""The stand-in inside a test: a server in a thread of its own."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.clock import Clock
from e2e.clouds.ec2.control import Control
from e2e.clouds.ec2.objects import Change
from e2e.clouds.ec2.server import Server
from e2e.clouds.ec2.service import Service

START_SECONDS = 30.0


class Ec2(Control):
    """A context manager. `state` is the content of a state file, `kubeconfig` of a cluster that the instances join.

    All methods block.
    """

    def __init__(self, state: Mapping[str, Any] | None = None, *, port: int = 0, kubeconfig: Path | None = None) -> None:
        super().__init__("")
        clock = Clock()
        self.service = Service(Account(msgspec.convert(state or {}, Change), salt=str(clock.now())), clock)
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

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = Server(self.service, port=self._port, kubeconfig=self._kubeconfig)
        self.endpoint = self._loop.run_until_complete(server.open())
        self._open.set()
        self._loop.run_forever()
        self._loop.run_until_complete(server.close())
        self._loop.close()
