"""A real Kubernetes control plane with Kueue and fake nodes, as plain processes of an ordinary user."""

import base64
import fcntl
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.controlplane import build, manifests
from e2e.controlplane.layout import Layout
from e2e.controlplane.processes import Processes
from e2e.controlplane.programs import STARTS, Launch

RUNS = build.HERE.parent.parent / ".run" / "controlplane"
_STOP_ORDER = tuple(reversed(STARTS))  # etcd last: an API server that loses it first hangs for minutes in its shutdown
_START_SECONDS = 120.0


class ControlPlaneError(Exception):
    """The control plane can't be started or used; the message says which part, and ends with the last lines of its log."""


class ControlPlane:
    """One control plane in one run directory. Another process may hold the same one by the same directory.

    A `bare` one has no controllers, no kwok and no Kueue: the scheduler alone decides, on Nodes and Pods that stay as they were
    created. One with `all_kinds` has the CRDs of every operator that Kueue knows, and Kueue's elastic jobs. As a context
    manager it starts on entry and stops on exit. All calls block: from a test's event loop use asyncio.to_thread.
    """

    def __init__(
        self, directory: Path | None = None, *, with_kueue: bool = True, bare: bool = False, all_kinds: bool = False
    ) -> None:
        self.directory = (directory or RUNS / "default").absolute()
        self._with_kueue = with_kueue and not bare
        self._bare = bare
        self._all_kinds = all_kinds
        self._processes = Processes(self.directory)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def layout(self) -> Layout:
        """Its ports and files; raises FileNotFoundError before the first start."""
        return Layout.read(self.directory)

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of a member of system:masters."""
        return self.directory / "kubeconfig"

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self.layout.server

    def start(self) -> None:
        """Start everything and return when it is ready, in less than 120 s.

        Raises ControlPlaneError when one runs in this directory already, programs aren't built, or one doesn't get ready.
        A start that fails or is interrupted leaves no process behind.
        """
        if absent := build.missing():
            raise ControlPlaneError(f"not built: {', '.join(absent)}; run python -m e2e.controlplane build")
        with self._exclusive():
            if alive := self.alive():
                raise ControlPlaneError(
                    f"already up in {self.directory}: {', '.join(alive)}; python -m e2e.controlplane down stops it"
                )
            shutil.rmtree(self.directory, ignore_errors=True)
            layout = Layout.create(self.directory, with_kueue=self._with_kueue, bare=self._bare, all_kinds=self._all_kinds)
            try:
                self._start_all(layout)
            except BaseException:
                self._stop_all()
                raise

    def stop(self) -> None:
        """Stop what runs, in the right order. The directory with its logs stays until the next start."""
        if self.directory.exists():
            with self._exclusive():
                self._stop_all()

    def alive(self) -> dict[str, int]:
        """The pid of each program that runs."""
        pids = {name: self._processes.pid(name) for name in self._processes.names()}
        return {name: pid for name, pid in pids.items() if pid is not None}

    def dead(self) -> list[str]:
        """Programs that were started and ended without being stopped."""
        return [name for name in self._processes.names() if name not in self.alive()]

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a program, such as SIGSTOP to freeze it; raises ProcessLookupError when it doesn't run."""
        self._processes.kill(name, number)

    def restart(self, name: str) -> None:
        """Stop a program if it runs, start it again with the same ports and files, and wait until it is ready."""
        self._processes.stop(name)
        self._launch(name, self.layout)
        self._wait(name, self.layout)

    def halt(self, name: str) -> None:
        """Stop a program alone; `restart` brings it back."""
        self._processes.stop(name)

    def log(self, name: str) -> Path:
        """File with a program's output."""
        return self._processes.log(name)

    def is_ready(self, name: str) -> bool:
        """Whether the program says so itself."""
        return self._answers(self._spec(name, self.layout).ready, self.layout)

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Run kubectl as administrator and return its stdout; raises ControlPlaneError with its stderr."""
        command = [str(build.binaries().kubectl), "--kubeconfig", str(self.kubeconfig), *args]
        env = os.environ | {"HOME": str(self.directory)}
        done = subprocess.run(command, input=stdin, env=env, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def service_account(self, namespace: str, name: str) -> Path:
        """Kubeconfig of a service account that exists, under its own rights; its token is good for a day."""
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration", "24h").strip()
        return self.layout.write_kubeconfig(self.directory / f"{namespace}.{name}.kubeconfig", name, token)

    def _start_all(self, layout: Layout) -> None:
        for name in ("etcd", "kube-apiserver"):
            self._launch(name, layout)
            self._wait(name, layout)
        others = ["kube-scheduler"] if layout.bare else ["kube-controller-manager", "kube-scheduler", "kwok"]
        for name in others:
            self._launch(name, layout)
        if layout.all_kinds:  # long before Kueue, which looks for an API that comes late ever more seldom
            self._create(manifests.operators_crds())
        if not layout.bare:
            self._install(manifests.crds())
        if layout.with_kueue:
            self._start_kueue(layout)
        for name in others:
            self._wait(name, layout)

    def _start_kueue(self, layout: Layout) -> None:
        """Kueue writes its certificate to a Secret and waits for it as files, which a pod's volume would show it."""
        self._install(manifests.kueue(build.binaries().kubectl, layout.ports.webhook))
        self.service_account(manifests.NAMESPACE, manifests.MANAGER).rename(layout.kubeconfig("kueue"))
        self._launch("kueue", layout)
        end = time.monotonic() + _START_SECONDS
        while not self._copy_certificate(layout.directory / "kueue-certs"):
            self._check("kueue", end)
        self._wait("kueue", layout)
        self._probe_webhooks(end)

    def _copy_certificate(self, folder: Path) -> bool:
        query = "{.data.tls\\.crt} {.data.tls\\.key} {.data.ca\\.crt}"
        secret = ["get", "secret", manifests.WEBHOOK_SECRET, "--namespace", manifests.NAMESPACE, f"--output=jsonpath={query}"]
        parts = self.kubectl(*secret).split()
        for name, part in zip(("tls.crt", "tls.key", "ca.crt"), parts, strict=False):
            (folder / name).write_bytes(base64.b64decode(part))
        return len(parts) == 3

    def _probe_webhooks(self, end: float) -> None:
        """Ready means that a write which passes Kueue's webhooks succeeds: the API server must have seen their certificate."""
        flavor = '{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}'
        while True:
            try:
                self.kubectl("create", "--dry-run=server", "--filename=-", stdin=flavor)
            except ControlPlaneError:
                self._check("kueue", end)
            else:
                return

    def _install(self, items: list[manifests.Manifest]) -> None:
        """Unvalidated: for that kubectl would fetch the schemas of all kinds from a server that is busy making them."""
        apply = ("apply", "--server-side", "--force-conflicts", "--validate=false", "--filename=-")
        self.kubectl(*apply, stdin=manifests.as_list(items), timeout=_START_SECONDS)
        crds = [f"crd/{item['metadata']['name']}" for item in items if item["kind"] == "CustomResourceDefinition"]
        if crds:
            self._wait_established(crds)

    def _wait_established(self, crds: list[str]) -> None:
        """A busy API server takes seconds to give them conditions at all, without which kubectl's wait fails at once."""
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds, timeout=_START_SECONDS)
            except ControlPlaneError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
            else:
                return

    def _create(self, items: list[manifests.Manifest]) -> None:
        """Into a new cluster: for what is large, far quicker than a server-side apply."""
        self.kubectl("create", "--validate=false", "--filename=-", stdin=manifests.as_list(items), timeout=3 * _START_SECONDS)

    def _stop_all(self) -> None:
        for name in _STOP_ORDER:
            if name in self._processes.names():
                self._processes.stop(name)

    def _spec(self, name: str, layout: Layout) -> Launch:
        return STARTS[name](layout, build.binaries())

    def _launch(self, name: str, layout: Layout) -> None:
        spec = self._spec(name, layout)
        self._processes.start(name, spec.command, spec.env(self.directory))

    def _wait(self, name: str, layout: Layout) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self._answers(self._spec(name, layout).ready, layout):
            self._check(name, end)

    def _check(self, name: str, end: float) -> None:
        """Sleep a moment between two looks; raise if there is no point in a third."""
        if self._processes.pid(name) is None or time.monotonic() > end:
            state = "isn't ready in time" if self._processes.pid(name) else "ended"
            raise ControlPlaneError(f"{name} {state}; {self.log(name)} ends with:\n{self._processes.tail(name)}")
        time.sleep(0.1)

    def _answers(self, url: str, layout: Layout) -> bool:
        """Only the API server's certificate is one that we know; the others make one in memory that nobody can check."""
        context = ssl.create_default_context() if layout.authority.exists() else None
        if context and url.startswith(layout.server):
            context.load_verify_locations(layout.authority)
        elif context:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(url, timeout=2, context=context) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Starts and stops of one directory wait for each other."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with (self.directory.parent / f".{self.directory.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
