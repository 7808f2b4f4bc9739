"""Corral as a user runs it: the two services and the simulated cloud as processes, under their own service accounts."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e import ports
from e2e.controlplane.cluster import ControlPlane
from e2e.simcloud import SimCloud

ROOT = Path(__file__).parent.parent
NAMESPACE = "corral-system"
READY_SECONDS = 120.0
_EXTRA: Mapping[str, Mapping[str, Any]] = {
    "provisioner": {"inventorySeconds": 2, "templateGraceSeconds": 6, "reapGraceSeconds": 30}
}


class StackError(Exception):
    """A program of the stack did not start; the message ends with its last lines."""


class Program:
    """One `corral COMMAND --config FILE` process with a log; `start` returns when its /readyz (or `ready` URL) answers 200."""

    def __init__(self, command: str, config: Path, log: Path, ready: str, env: Mapping[str, str], module: str = "corral") -> None:
        self.command, self.log, self.ready = command, log, ready
        self._arguments = [sys.executable, "-m", module, command, "--config", str(config)]
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **env: str) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._arguments, cwd=ROOT, env={**self._env, **env}, stdout=log, stderr=log)
        end = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise StackError(f"corral {self.command} did not get ready:\n{self.tail()}")
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends the process and returns its exit code (negative: the signal's number)."""
        if self._process is None:
            return 0
        self.signal(number)
        try:
            return self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal and waits for nothing."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """The exit code of a process that ends by itself; raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(timeout=timeout)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.ready, timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def configured(
    service: str,
    directory: Path,
    settings: Mapping[str, Any],
    *,
    name: str = "",
    env: Mapping[str, str] | None = None,
    module: str = "corral",
) -> Program:
    """A service of ours with these settings and addresses of its own, not yet started; its files in `directory` bear `name`."""
    name = name or service
    address = f"127.0.0.1:{ports.take()[0]}"
    whole = {
        "apiVersion": "config.corral.dev/v1alpha1",
        "kind": "Configuration",
        "health": {"bindAddress": address},
        "metrics": {"bindAddress": address},
        **settings,
    }
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(whole))
    return Program(service, path, directory / f"{name}.log", f"http://{address}/readyz", env or {}, module)


class Stack:
    """admission, provisioner and the simulated cloud on a control plane. `cloud` is the simulated cloud's configuration."""

    module = "corral"
    """What runs the services."""
    extra = _EXTRA
    """Settings by service, beside those that each needs."""

    def __init__(
        self, plane: ControlPlane, directory: Path, cloud: Mapping[str, Any], env: Mapping[str, str] | None = None
    ) -> None:
        self.plane, self.directory = plane, directory
        directory.mkdir(parents=True, exist_ok=True)
        self.cloud = SimCloud(directory / "cloud", cloud, kubeconfig=plane.kubeconfig)
        self._env = dict(env or {})
        self.programs: dict[str, Program] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def install(self) -> None:
        """CRDs, namespace, roles and the guard against pods that tolerate everything, from config/ as a user applies them."""
        for part in ("crd", "default", "policy"):
            self.apply_kustomization(part)
        self.plane.kubectl("scale", "deployment", "--all", "--replicas=0", "--namespace", NAMESPACE)

    def apply_kustomization(self, part: str) -> None:
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config" / part))

    def start(self) -> None:
        self.install()
        self.cloud.start()
        for service in ("admission", "provisioner"):
            self._add_service(service)
        for program in self.programs.values():
            program.start()

    def stop(self) -> None:
        for program in reversed(self.programs.values()):
            program.stop()
        self.cloud.stop()

    def url(self, service: str, path: str) -> str:
        base, _, _ = self.programs[service].ready.rpartition("/")
        return f"{base}{path}"

    def second(self, service: str) -> Program:
        """One more replica of a service, started: whichever leads, it ends with the stack."""
        name = f"{service}-2"
        if name not in self.programs:
            self._add_service(service, name)
        if not self.programs[name].alive:
            self.programs[name].start()
        return self.programs[name]

    def leads(self, program: Program) -> bool:
        """Whether the process is up and says that it leads."""
        base, _, _ = program.ready.rpartition("/")
        try:
            with urllib.request.urlopen(f"{base}/metrics", timeout=1) as reply:
                return b"\ncorral_leader 1" in reply.read() and program.alive
        except (urllib.error.URLError, OSError):
            return False

    def _add_service(self, service: str, name: str = "") -> None:
        name = name or service
        settings = {
            "leaderElection": {"resourceNamespace": NAMESPACE, "leaseDuration": 15, "renewDeadline": 12, "retryPeriod": 1},
            "clientConnection": {"kubeconfig": str(self._kubeconfig(service, name))},
            **self.extra.get(service, {}),
        }
        self.programs[name] = configured(service, self.directory, settings, name=name, env=self._env, module=self.module)

    def _kubeconfig(self, service: str, name: str) -> Path:
        """Of the service's own account, for the program of that name."""
        return self.plane.service_account(NAMESPACE, f"corral-{service}")
