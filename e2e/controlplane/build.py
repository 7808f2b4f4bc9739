"""Builds the programs of the real control plane from the Go module proxy, once, and keeps them by version."""

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FREE_BYTES = 8 << 30
Progress = Callable[[str], None]


class BuildError(Exception):
    """A program can't be built here; the message names the cause and the remedy."""


@dataclass(frozen=True)
class Program:
    """One Go program: `workspace` is the folder of its go.mod, `module` the one whose version names its place in the cache."""

    name: str
    workspace: str
    module: str
    package: str
    seconds: int  # cold, two cores: weighs the estimate of what remains

    @property
    def version(self) -> str:
        """The version that go.mod pins; raises BuildError when it doesn't require the module."""
        pin = re.search(rf"^\s*(?:require\s+)?{re.escape(self.module)} (v\S+)", _go_mod(self.workspace), re.MULTILINE)
        if not pin:
            raise BuildError(f"{self.workspace}/go.mod doesn't require {self.module}: add it with a version")
        return pin[1]

    @property
    def path(self) -> Path:
        """Where the binary is kept, there or not."""
        folder = "etcd" if self.name == "etcd" else self.workspace
        return cache() / "bin" / f"{folder}-{self.version}" / self.name


def _kubernetes(name: str, seconds: int) -> Program:
    return Program(name, "kubernetes", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", seconds)


PROGRAMS = (
    Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 75),
    _kubernetes("kube-apiserver", 250),
    _kubernetes("kube-scheduler", 45),
    _kubernetes("kubectl", 40),
    _kubernetes("kube-controller-manager", 85),
    Program("kwok", "kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", 120),
    Program("kueue", "kueue", "sigs.k8s.io/kueue", "sigs.k8s.io/kueue/cmd/kueue", 310),
)


@dataclass(frozen=True)
class Binaries:
    """Paths of the built programs."""

    etcd: Path
    apiserver: Path
    scheduler: Path
    controller_manager: Path
    kubectl: Path
    kwok: Path
    kueue: Path


def cache() -> Path:
    """Root of the cache: CORRAL_CACHE, else ~/.cache/corral."""
    return Path(os.environ.get("CORRAL_CACHE") or Path.home() / ".cache" / "corral")


def binaries() -> Binaries:
    """The paths, whether or not the programs are built."""
    at = {program.name: program.path for program in PROGRAMS}
    return Binaries(
        at["etcd"],
        at["kube-apiserver"],
        at["kube-scheduler"],
        at["kube-controller-manager"],
        at["kubectl"],
        at["kwok"],
        at["kueue"],
    )


def missing() -> list[str]:
    """Names of the programs that are still to be built."""
    return [program.name for program in PROGRAMS if not program.path.exists()]


def ensure(progress: Progress) -> Binaries:
    """Build what is missing, one program at a time, telling `progress` about once a second in one line.

    Raises BuildError: no Go or one too old, a full disk, or a build that fails (with the end of its output).
    """
    if missing():
        with _lock(progress):
            todo = [program for program in PROGRAMS if not program.path.exists()]
            if todo:
                _check_disk()
                _check_go(todo)
            _build_all(todo, progress)
    return binaries()


def kueue_module() -> Path:
    """Source folder of the pinned Kueue, which holds its manifests."""
    return modules("sigs.k8s.io/kueue")[0]


def autoscaler_apis_module() -> Path:
    """Source folder of the Cluster Autoscaler APIs that Kueue uses; it holds the upstream ProvisioningRequest CRD."""
    return modules("k8s.io/autoscaler/cluster-autoscaler/apis")[0]


def modules(*names: str) -> list[Path]:
    """Source folders of modules that the pinned Kueue requires, in the versions that it requires; fetched if they aren't there.

    Raises BuildError with Go's own words.
    """
    _go("mod", "download", *names)
    return [Path(line) for line in _go("list", "-m", "-f", "{{.Dir}}", *names).splitlines()]


def _go(*words: str) -> str:
    command = ["go", *words]
    done = subprocess.run(command, cwd=HERE / "kueue", env=_env(), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def _build_all(todo: list[Program], progress: Progress) -> None:
    started, total, built = time.monotonic(), sum(program.seconds for program in todo), 0
    for number, program in enumerate(todo, 1):
        remains = total - built
        title = f"building {program.name} {program.version} ({number} of {len(todo)})"

        def tell(packages: int, since: float, title: str = title, remains: int = remains, done: int = built) -> None:
            elapsed = time.monotonic() - started
            pace = (since - started) / done if done else 1.0
            left = max(remains * pace - (time.monotonic() - since), 0)
            progress(f"{title}: {packages} packages, {clock(elapsed)} elapsed, about {clock(left)} left")

        _build(program, tell)
        built += program.seconds


def _build(program: Program, tell: Callable[[int, float], None]) -> None:
    program.path.parent.mkdir(parents=True, exist_ok=True)
    draft = program.path.with_name(f".{program.name}.{os.getpid()}")
    log = draft.with_suffix(".log")
    command = ["go", "build", "-v", "-ldflags", _ldflags(program), "-o", str(draft), program.package]
    since = time.monotonic()
    tell(0, since)
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=HERE / program.workspace, env=_env(), stdout=output, stderr=output)
        try:
            while process.poll() is None:
                time.sleep(1)
                tell(log.read_text().count("\n"), since)
            if process.returncode:
                raise BuildError(f"go build {program.package} failed:\n{log.read_text()[-3000:]}")
            draft.rename(program.path)
        finally:
            process.kill()
            process.wait()
            draft.unlink(missing_ok=True)
            log.unlink(missing_ok=True)


def _ldflags(program: Program) -> str:
    """Kubernetes programs need their version stamped: unstamped, Kueue can't parse what the API server reports and exits."""
    flags = ["-s", "-w"]
    if program.workspace == "kubernetes" and program.name != "etcd":
        major, minor, _ = program.version.removeprefix("v").split(".", 2)
        stamps = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items()]
    return " ".join(flags)


def _check_disk() -> None:
    go_cache = (
        subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=False) if shutil.which("go") else None
    )
    for place in (cache(), Path((go_cache.stdout.strip() if go_cache else "") or Path.home())):
        there = next(folder for folder in (place, *place.parents) if folder.exists())
        free = shutil.disk_usage(there).free
        if free < FREE_BYTES:
            need = FREE_BYTES >> 30
            raise BuildError(f"{place} has {free >> 30} GiB free, a build needs {need}: free some, or set CORRAL_CACHE, GOCACHE")


def _check_go(todo: list[Program]) -> None:
    needed = max(_go_version(re.search(r"^go (\S+)", _go_mod(program.workspace), re.MULTILINE)) for program in todo)
    words = ".".join(map(str, needed))
    if not shutil.which("go"):
        raise BuildError(f"no Go on PATH: install Go {words} or newer")
    said = subprocess.run(["go", "env", "GOVERSION"], env=_env(), capture_output=True, text=True, check=False).stdout.strip()
    if _go_version(re.match(r"go(\S+)", said)) < needed:
        raise BuildError(f"{said or 'this Go'} is too old: install Go {words} or newer")


def _go_version(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", match[1])[:3])) if match else (0,)


def _go_mod(workspace: str) -> str:
    return (HERE / workspace / "go.mod").read_text()


def _env() -> dict[str, str]:
    return os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"}


def clock(seconds: float) -> str:
    """Minutes and seconds, as 3:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def _lock(progress: Progress) -> Iterator[None]:
    """Let one build run at a time on this cache; the kernel drops the lock if its holder dies."""
    folder = cache() / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress("waiting for another build to end")
                time.sleep(1)
        yield
