"""`python -m e2e.demo [--keep]`: exits 0 only if every promise held."""

import argparse
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from corral import offline
from e2e.controlplane import build
from e2e.controlplane.cluster import RUNS, ControlPlane
from e2e.controlplane.progress import shown
from e2e.demo import promises, scene, watch
from e2e.demo.watch import Sample
from e2e.stack import ROOT, Stack

DIRECTORY = RUNS.parent / "demo"
TIME_LIMIT = 300.0
console = Console()


def main() -> int:
    """Plans offline, builds what is missing, runs the scene, and tells what happened."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything running, to play with; Ctrl-C ends it")
    keep = parser.parse_args().keep
    for number in (signal.SIGINT, signal.SIGTERM):  # either ends everything that was started, also when run in the background
        signal.signal(number, signal.default_int_handler)
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    _offline()
    if build.missing():
        console.rule("Building the control plane: once, a quarter of an hour on two cores")
        with shown() as progress:
            build.ensure(progress)
    plane = ControlPlane(DIRECTORY / "controlplane")
    plane.stop()
    shutil.rmtree(DIRECTORY / "corral", ignore_errors=True)
    console.rule("The same gangs, for real")
    console.print("starting etcd, Kubernetes, Kueue and kwok, then Corral and the simulated cloud ...")
    with plane, Stack(plane, DIRECTORY / "corral", scene.CLOUD) as stack:
        history = _play(stack)
        code = _tell(history)
        if keep:
            _wait(stack)
    return code


def _offline() -> None:
    console.rule("Planning four gangs offline: corral plan -f jobs.yaml -f pools.yaml -f nodes.yaml")
    started = time.monotonic()
    offline.run(scene.offline_files(DIRECTORY))
    console.print(f"[dim]planned in {time.monotonic() - started:.1f} s, without a cluster[/dim]")


def _play(stack: Stack) -> list[Sample]:
    scene.set_up(stack)
    history = [watch.look(stack)]
    scene.submit(stack)
    end = time.monotonic() + TIME_LIMIT
    with Live(watch.table(history), console=console, refresh_per_second=4) as live:
        while time.monotonic() < end and not promises.settled(history):
            time.sleep(0.7)
            history.append(watch.look(stack))
            live.update(watch.table(history))
    return history


def _tell(history: Sequence[Sample]) -> int:
    console.rule("What happened")
    for gang in scene.GANGS:
        console.print(f"[bold]{gang}[/bold]: {watch.said(watch.last(history, gang), gang)}", highlight=False)
    console.print(_bill(history))
    kept = promises.check(history)
    for held, text in kept:
        console.print(f"[{'green' if held else 'red'}]{'kept  ' if held else 'BROKEN'}[/] {text}", highlight=False)
    return 0 if all(held for held, _ in kept) else 1


def _bill(history: Sequence[Sample]) -> Table:
    """Machine-seconds by kind, from the first to the last sight of each machine; on-demand ones at their list price."""
    seen: dict[str, list[float]] = {}
    kinds: dict[str, str] = {}
    for sample in history:
        for machine in sample.alive():
            seen.setdefault(machine["id"], []).append(sample.at.timestamp())
            kinds[machine["id"]] = machine["capacityType"]
    bill = Table("capacity", "machines", "machine-seconds", "cost", title="What it cost")
    for kind in sorted(set(kinds.values())):
        used = [int(max(times) - min(times)) for id_, times in seen.items() if kinds[id_] == kind]
        cents = sum(used) * _CENTS_PER_HOUR // 3600 if kind == "on-demand" else 0
        bill.add_row(kind, str(len(used)), str(sum(used)), f"${cents // 100}.{cents % 100:02}" if cents else "prepaid")
    return bill


_CENTS_PER_HOUR = 5504  # p5.48xlarge in the simulated cloud's catalogue


def _wait(stack: Stack) -> None:
    console.rule("Left running")
    programs = f"{build.binaries().kubectl.parent}:{ROOT / '.venv' / 'bin'}"
    console.print(f"export KUBECONFIG={stack.plane.kubeconfig}\nexport PATH={programs}:$PATH")
    console.print("kubectl get provreq,cpool,bk -A;  corral why job/giant;  curl " + f"{stack.cloud.endpoint}/v1/instances")
    console.print("Ctrl-C ends it.")
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    os.chdir(Path(__file__).parent.parent.parent)
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
