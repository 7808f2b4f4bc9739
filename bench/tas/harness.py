"""Kueue's topology assignment as a program: built once from the Go module, then fed with cases, one line each."""

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from e2e.controlplane.build import cache

HERE = Path(__file__).parent
SOURCES = ("main.go", "go.mod", "go.sum")
BUILD_SECONDS = 1200


def answers(cases: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What Kueue says to each case, in order; main.go tells what a case and an answer look like.

    Raises subprocess.CalledProcessError when the program can't be built or gives up on a case.
    """
    with tempfile.TemporaryFile("w+") as asked:
        asked.writelines(json.dumps(case) + "\n" for case in cases)
        asked.seek(0)
        with subprocess.Popen([program()], stdin=asked, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # it was asked for
            yield from map(json.loads, process.stdout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)


def program() -> Path:
    """The built harness, kept by what it was built from; a first build takes some minutes."""
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    path = cache() / "bin" / f"tas-{digest}" / "tas"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".tas.{os.getpid()}")
        environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"}
        subprocess.run(["go", "build", "-o", str(draft), "."], cwd=HERE, env=environment, timeout=BUILD_SECONDS, check=True)
        draft.rename(path)
    return path
