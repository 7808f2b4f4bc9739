"""The builder's refusals, which a user meets on a machine that lacks something; Go itself isn't run."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2e.controlplane import build
from e2e.controlplane.progress import plain


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """An empty cache with room, and only the programs that the test puts on PATH."""
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100 << 30))

    def go(script: str) -> None:
        (tmp_path / "go").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "go").chmod(0o755)

    return go


OLD = 'case "$2" in GOVERSION) echo go1.21.4;; GOCACHE) echo /;; esac'
BROKEN = 'case "$1$2" in envGOVERSION) echo go1.26.8;; envGOCACHE) echo /;; *) echo "x.go:1: no such thing" >&2; exit 2;; esac'


def test_versions_are_the_ones_that_go_mod_pins() -> None:
    paths = {program.name: str(program.path.relative_to(build.cache() / "bin")) for program in build.PROGRAMS}
    assert paths["etcd"] == "etcd-v3.6.8/etcd"
    assert paths["kube-apiserver"] == "kubernetes-v1.36.3/kube-apiserver"
    assert paths["kueue"] == "kueue-v0.17.0/kueue"
    assert paths["kwok"] == "kwok-v0.8.0/kwok"


def test_everything_is_missing_from_an_empty_cache(machine: Callable[[str], None]) -> None:
    assert build.missing() == [program.name for program in build.PROGRAMS]


def test_no_go_is_named_with_the_version_that_is_needed(machine: Callable[[str], None]) -> None:
    with pytest.raises(build.BuildError, match=r"no Go on PATH: install Go 1\.26\.0 or newer"):
        build.ensure(plain())


def test_an_old_go_is_refused(machine: Callable[[str], None]) -> None:
    machine(OLD)
    with pytest.raises(build.BuildError, match=r"go1\.21\.4 is too old: install Go 1\.26\.0 or newer"):
        build.ensure(plain())


def test_a_low_disk_is_refused_before_anything_is_built(machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 << 30))
    with pytest.raises(build.BuildError, match=r"has 3 GiB free, a build needs 8: free some"):
        build.ensure(plain())


def test_a_failed_build_shows_what_go_said_and_leaves_no_half_program(
    machine: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine(BROKEN)
    with pytest.raises(build.BuildError, match=r"x\.go:1: no such thing"):
        build.ensure(plain())
    assert [path.name for path in build.cache().rglob("*") if path.is_file()] == [".lock"]
    assert re.match(r"building etcd v3\.6\.8 \(1 of 7\): 0 packages, 0:00 elapsed, about \d+:\d\d left", capsys.readouterr().err)
