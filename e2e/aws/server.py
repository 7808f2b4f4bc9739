"""The stand-in for EC2 as a process of a test, whose instances join the cluster."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e import ports

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 60.0


class Ec2Error(Exception):
    """The stand-in did not start; the message ends with its last lines."""


class Ec2Server:
    """One server with its files in `directory`. `state` is the content of its state file. All calls block."""

    def __init__(self, directory: Path, state: Mapping[str, Any], kubeconfig: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._port = ports.take()[0]
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.log = directory / "ec2.log"
        self._state, self._kubeconfig = directory / "ec2.yaml", kubeconfig
        self._state.write_text(yaml.safe_dump(dict(state)))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers. Raises Ec2Error."""
        command = [sys.executable, "-m", "e2e.clouds.ec2", "--port", str(self._port)]
        files = ["--state", str(self._state), "--nodes", str(self._kubeconfig)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*command, *files], cwd=ROOT, env={**os.environ}, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Ec2Error(f"the stand-in for EC2 did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def change(self, **kinds: Any) -> None:
        """`change(stock=[{"type": "p5.48xlarge", "zone": "us-east-1a", "count": 8}])`."""
        self._send("PUT", "state", kinds)

    def fault(self, operation: str, **fields: Any) -> None:
        """`fault("RunInstances", drop="after")`."""
        self._send("POST", "faults", {"operation": operation, **fields})

    def calls(self, after: int = 0) -> list[dict[str, Any]]:
        """The calls that were made since number `after`."""
        found: list[dict[str, Any]] = self._send("GET", f"calls?after={after}")
        return found

    def instances(self) -> list[dict[str, Any]]:
        """The truth about every instance."""
        found: list[dict[str, Any]] = self._send("GET", "instances")
        return found

    def _answers(self) -> bool:
        try:
            self._send("GET", "healthz")
        except OSError:
            return False
        return True

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body, default=str).encode()
        request = urllib.request.Request(f"{self.endpoint}/_admin/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
