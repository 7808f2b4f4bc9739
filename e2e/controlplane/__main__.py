"""Command line of the test control plane: build, up, down, status."""

import argparse
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from e2e.controlplane import build
from e2e.controlplane.cluster import RUNS, ControlPlane, ControlPlaneError
from e2e.controlplane.progress import shown


def main() -> int:
    """Run one command; 1 and one line on stderr if it can't be done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # undoes what was begun, as on Ctrl-C
    options = _parser().parse_args()
    plane = ControlPlane(options.dir, with_kueue=not options.no_kueue, all_kinds=options.all_kinds)
    commands = {"build": _build, "up": _up, "down": _down, "status": _status}
    try:
        return commands[options.command](plane)
    except (build.BuildError, ControlPlaneError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _build(plane: ControlPlane) -> int:
    with shown() as progress:
        build.ensure(progress)
    return 0


def _up(plane: ControlPlane) -> int:
    if alive := plane.alive():
        print(f"already up in {plane.directory}: {', '.join(alive)}")
        print(f"KUBECONFIG={plane.kubeconfig}")
        return 1 if plane.dead() else 0
    _build(plane)
    began = time.monotonic()
    plane.start()
    print(f"up in {time.monotonic() - began:.0f} s: {plane.url}, logs in {plane.directory / 'logs'}")
    print(f"KUBECONFIG={plane.kubeconfig}")
    return 0


def _down(plane: ControlPlane) -> int:
    stopped = plane.alive()
    plane.stop()
    print(f"stopped {', '.join(stopped)}" if stopped else f"nothing runs in {plane.directory}")
    return 0


def _status(plane: ControlPlane) -> int:
    table = Table("program", "pid", "state", "log")
    alive = plane.alive()
    for name in [*alive, *plane.dead()]:
        state = "dead" if name not in alive else "ready" if plane.is_ready(name) else "not ready"
        table.add_row(name, str(alive.get(name, "")), state, str(plane.log(name).relative_to(plane.directory)))
    if alive:
        print(f"{plane.url} in {plane.directory}")
        Console().print(table)
    else:
        print(f"nothing runs in {plane.directory}")
    return 0 if alive and not plane.dead() else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.controlplane", description=__doc__)
    parser.add_argument("command", choices=["build", "up", "down", "status"])
    parser.add_argument("--dir", type=Path, default=RUNS / "default", help="run directory (default: .run/controlplane/default)")
    parser.add_argument("--no-kueue", action="store_true", help="up: only Kubernetes and kwok")
    parser.add_argument("--all-kinds", action="store_true", help="up: with the CRDs of every operator that Kueue knows")
    return parser


if __name__ == "__main__":
    sys.exit(main())
