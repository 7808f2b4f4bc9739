"""Processes that outlive the program that starts them: each in a session of its own, known by pid and time of birth."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class Processes:
    """The named processes of one run directory: `pids.json` remembers them, `logs/<name>.log` holds their output."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "pids.json"

    def start(self, name: str, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Start it, appending to its log. It doesn't get the terminal's signals: only stop and kill end it."""
        log = self.log(name)
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            child = subprocess.Popen(
                [str(part) for part in command],
                cwd=self._directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child.returncode = 0  # It may outlive this program: Popen shall neither wait for it nor complain.
        _, birth = _stat(child.pid)
        self._write(self._read() | {name: {"pid": child.pid, "birth": birth}})

    def pid(self, name: str) -> int | None:
        """Its pid while it lives. A reused pid isn't taken for it."""
        known = self._read().get(name)
        if not known:
            return None
        state, birth = _stat(known["pid"])
        if birth != known["birth"]:
            return None
        if state in "ZX":
            with suppress(ChildProcessError):
                os.waitpid(known["pid"], os.WNOHANG)
            return None
        return known["pid"]

    def names(self) -> list[str]:
        """Names of all that were started and not stopped, alive or dead, in order of their start."""
        return list(self._read())

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to the whole process group; raises ProcessLookupError when it isn't alive."""
        pid = self.pid(name)
        if pid is None:
            raise ProcessLookupError(f"{name} isn't running")
        os.killpg(pid, number)

    def stop(self, name: str, patience: float = 10.0) -> None:
        """SIGTERM, and SIGKILL after `patience` seconds; returns when it is gone. Fine if it is dead already."""
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            pid = self.pid(name)
            if pid is None:
                break
            with suppress(ProcessLookupError):
                os.killpg(pid, number)
                os.killpg(pid, signal.SIGCONT)  # a frozen one gets the first signal only now
            self._wait(name, seconds)
        if self.pid(name) is not None:
            raise TimeoutError(f"{name} (pid {self.pid(name)}) doesn't end")
        self._write({other: known for other, known in self._read().items() if other != name})

    def log(self, name: str) -> Path:
        """File that gets its stdout and stderr."""
        return self._directory / "logs" / f"{name}.log"

    def tail(self, name: str, lines: int = 15) -> str:
        """End of its log."""
        log = self.log(name)
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def _wait(self, name: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.pid(name) is not None and time.monotonic() < end:
            time.sleep(0.05)

    def _read(self) -> dict[str, dict[str, int]]:
        known: dict[str, dict[str, int]] = json.loads(self._file.read_text()) if self._file.exists() else {}
        return known

    def _write(self, known: Mapping[str, Mapping[str, int]]) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(known))
        draft.rename(self._file)


def _stat(pid: int) -> tuple[str, int]:
    """State letter, and start time in clock ticks after boot (proc(5), stat fields 3 and 22); X and 0 if there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(fields[18])
