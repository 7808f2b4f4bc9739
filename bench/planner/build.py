"""Builds the harnesses that drive Karpenter and Cluster Autoscaler, once, and keeps them by version and by their own source.

A peer's module is put in place as a folder, because its go.mod may ask for a newer patch release of Go than is there: that line
alone is lowered. Where no module proxy serves it, a checkout of the pinned commit in that folder does as well.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.build import cache

HERE = Path(__file__).parent
SOURCES = ("main.go", "go.mod", "go.sum")
SECONDS = 1800


class UnavailableError(Exception):
    """A peer can't be had here; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Harness:
    """A program of ours around a peer; `name` is its folder here, `does` what of the peer it drives."""

    name: str
    module: str
    does: str

    @property
    def version(self) -> str:
        """As go.mod pins it."""
        pin = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", (HERE / self.name / "go.mod").read_text(), re.MULTILINE)
        assert pin, f"{self.name}/go.mod doesn't require {self.module}"
        return pin[1]

    @property
    def path(self) -> Path:
        digest = hashlib.sha256(b"".join((HERE / self.name / file).read_bytes() for file in SOURCES)).hexdigest()[:16]
        return cache() / "bin" / f"planner-{self.name}-{self.version}-{digest}" / self.name

    @property
    def source(self) -> Path:
        """Where the peer's own source is kept."""
        return cache() / "src" / f"{self.name}-{self.version}"


KARPENTER = Harness("karpenter", "sigs.k8s.io/karpenter", "its provisioning scheduler")
AUTOSCALER = Harness("autoscaler", "sigs.k8s.io/cluster-autoscaler", "its scheduling simulator as check-capacity runs it")


def program(harness: Harness) -> Path:
    """The built harness; a first build takes some minutes. Raises UnavailableError when it can't be built."""
    if not harness.path.exists():
        if not harness.source.exists():
            _fetch(harness)
        print(f"building the harness of {harness.module} {harness.version}: some minutes", flush=True)
        _build(harness)
    return harness.path


def _fetch(harness: Harness) -> None:
    """Unpacks the module into its folder. Go checks what it downloads against the checksum database."""
    there = f"{harness.module}@{harness.version}"
    done = _go(["mod", "download", "-json", there], cwd=cache())
    told = json.loads(done.stdout or "{}")
    if not told.get("Zip"):
        why = told.get("Error") or done.stderr.strip()
        raise UnavailableError(f"{why}; a checkout of that version in {harness.source} would do")
    _verify(harness, told.get("Sum", ""))
    draft = harness.source.with_name(f".{harness.source.name}.{os.getpid()}")
    with zipfile.ZipFile(told["Zip"]) as archive:
        archive.extractall(draft)
    (draft / there).rename(harness.source)
    shutil.rmtree(draft)


def _verify(harness: Harness, found: str) -> None:
    line = f"{harness.module} {harness.version} {found}"
    if line not in (HERE / harness.name / "go.sum").read_text().splitlines():
        raise UnavailableError(f"{line} is not what {harness.name}/go.sum pins")


def _build(harness: Harness) -> None:
    harness.path.parent.mkdir(parents=True, exist_ok=True)
    draft = harness.path.with_name(f".{harness.name}.{os.getpid()}")
    _lower(harness.source / "go.mod")
    module_file = harness.path.with_name("build.mod")
    module_file.write_text((HERE / harness.name / "go.mod").read_text() + f"\nreplace {harness.module} => {harness.source}\n")
    module_file.with_suffix(".sum").write_bytes((HERE / harness.name / "go.sum").read_bytes())
    done = _go(["build", "-modfile", str(module_file), "-ldflags", "-s -w", "-o", str(draft), "."], cwd=HERE / harness.name)
    if done.returncode:
        raise UnavailableError(f"go build of {harness.name}: {done.stderr[-2000:]}")
    draft.rename(harness.path)


def _lower(go_mod: Path) -> None:
    """Ask for the first patch release of the same Go: these lines name what its authors built with, not what the code needs."""
    go_mod.chmod(0o644)
    go_mod.write_text(re.sub(r"^go (\d+\.\d+)(\.\d+)?$", r"go \1.0", go_mod.read_text(), flags=re.MULTILINE))


def _go(arguments: list[str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    if not shutil.which("go"):
        raise UnavailableError("no Go on PATH")
    cwd.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=mod",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    return subprocess.run(
        ["go", *arguments], cwd=cwd, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False
    )
