"""A server of ours as a process of a test: started until it answers, and ended."""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
START_SECONDS = 60.0


class StartError(Exception):
    """A server did not start; the message ends with its last lines."""


class Served:
    """`name` is for messages, `health` the URL that answers once it is up. All calls block."""

    def __init__(self, name: str, command: Sequence[str], log: Path, health: str) -> None:
        self.log = log
        self._name, self._command, self._health = name, command, health
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers. Raises StartError."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*self._command], cwd=ROOT, env={**os.environ}, stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise StartError(f"{self._name} did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends the process and returns its exit code (negative: the signal's number)."""
        if self._process is None:
            return 0
        self._process.send_signal(number)
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process = None
        return code

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=30) as response:
                return bool(response.status == 200)
        except OSError:
            return False
