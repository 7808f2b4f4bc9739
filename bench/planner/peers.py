"""What the peers say to a problem, and how long it took them; each as a program that is fed the same problem as ours."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.planner import build
from bench.planner.problems import RACK, Problem, for_kueue, wire
from bench.tas import harness as kueue_harness

SECONDS = 300
"""Longer than this no peer is waited for."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A peer's answer. `took` is nanoseconds of deciding, without reading the input; `cost` micro-dollars an hour, None where it
    has no notion of it; `racks` how many it spread the pods over; `note` what else it said. If it was
    `cut_off`, by a limit of its own or by ours, its answer says nothing.
    """

    peer: str
    feasible: bool
    took: int
    nodes: int = 0
    cost: int | None = None
    racks: int | None = None
    note: str = ""
    cut_off: bool = False


def autoscaler(problem: Problem) -> Theirs:
    """Cluster Autoscaler's check-capacity: gang by gang on one snapshot."""
    answer = _ask(build.program(build.AUTOSCALER), wire(problem))
    if answer is None:
        return _given_up("check-capacity")
    verdicts = answer["gangs"]
    placed = sum(one["placed"] for one in verdicts)
    return Theirs("check-capacity", all(one["feasible"] for one in verdicts), sum(one["ns"] for one in verdicts), placed)


def karpenter(problem: Problem) -> Theirs:
    """Karpenter's scheduler: all pods in one batch, and again while reservations hold pods back."""
    answer = _ask(build.program(build.KARPENTER), wire(problem))
    if answer is None:
        return _given_up("karpenter")
    waiting = sum(answer["unplaced"].values())
    note = f"{waiting} pods not placed: {answer.get('reason', '')[:120]}" if waiting else f"{answer['loops']} loops"
    bought = sum(answer["new"].values())
    late = "deadline" in answer.get("reason", "")
    nodes = bought + answer["used"]
    return Theirs("karpenter", answer["feasible"], answer["ns"], nodes, answer["cost"], note=note, cut_off=late)


def kueue(problem: Problem) -> Theirs:
    """Kueue's topology assignment: its snapshot of the nodes and the search, as its scheduler does both in every cycle."""
    answer = _ask(kueue_harness.program(), for_kueue(problem))
    if answer is None:
        return _given_up("kueue")
    hosts = {host: pods for found in (answer["assigned"] or {}).values() for host, pods in found.items()}
    where = {node.name: node.labels[RACK] for node in problem.nodes}
    took = answer["snapshotNs"] + answer["assignNs"]
    return Theirs("kueue", bool(hosts), took, len(hosts), racks=len({where[host] for host in hosts}) or None)


def _given_up(peer: str) -> Theirs:
    return Theirs(peer, feasible=False, took=SECONDS * 10**9, note="no answer", cut_off=True)


def _ask(program: Path, problem: dict[str, Any]) -> dict[str, Any] | None:
    """None when it takes too long. Raises subprocess.CalledProcessError when the peer itself gives up."""
    with tempfile.TemporaryFile("w+") as asked:
        json.dump(problem, asked)
        asked.seek(0)
        try:
            done = subprocess.run([program], stdin=asked, capture_output=True, text=True, check=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
