"""The report: a table of all cases, the goals, and the same as JSON."""

import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.planner.compare import Row
from bench.planner.goals import Goal

COUNTS = ("records", "cells", "columns", "solves", "branches")
TIMES = ("change µs", "kept ms", "cold ms", "objects ms", "peer ms", "ratio")
COLUMNS = ("case", "nodes", "pods", "classes", *COUNTS, *TIMES, "fits", "cost $/h", "peer $/h", "bound $/h", "racks")

INTRODUCTION = """# The planner beside its peers

Made by `make bench-planner`. Both sides get the same problem in the same run.

Times of ours: *kept* plans on an index that is kept up, something new each time, after a node has changed; *change* is what the
change of one node costs that index; *cold* starts from our records; *objects* decodes Kubernetes objects from JSON, translates
and plans. Times of peers leave out reading the input and making their objects; Kueue's includes its snapshot, which it takes in
every cycle. *records* are node records looked at one by one, *cells* and *columns* what was read of the index, *solves* and
*branches* runs of HiGHS and nodes of its trees. *fits*: ours/peer. *racks*: ours/peer/fewest that can be. *bound*: what no plan
can be cheaper than, in whole nodes. `>`: the peer stopped at its own limit of a minute, or
was not waited for any longer.

Data: openb (Alibaba GPU cluster 2023, published with FGD, Apache-2.0), Philly (Microsoft, CC BY 4.0, derived file Apache-2.0),
Lingjun (Alibaba, Apache-2.0).
"""


def cells(row: Row) -> list[str]:
    """One line of the table."""
    ours, theirs, counts = row.ours, row.theirs, row.ours.counts
    taken = f"{'>' if row.cut_off else ''}{_ms(theirs.took)}" if theirs else "-"
    least = row.integer or row.linear
    return [
        f"{row.scenario} {row.problem.name}",
        str(len(row.problem.nodes)),
        str(row.problem.pods),
        str(row.problem.classes()),
        *(str(number) for number in (counts.records, counts.cells, counts.columns, counts.solves, counts.branches)),
        f"{ours.change / 1e3:.0f}" if ours.change else "-",
        _ms(ours.kept),
        _ms(ours.cold),
        _ms(ours.objects),
        taken,
        f"{'>' if row.cut_off else ''}{row.ratio:.0f}" if row.ratio else "-",
        f"{_yes(ours.feasible)}/{_yes(theirs.feasible) if theirs and not row.cut_off else '-'}",
        _dollars(ours.cost) if row.linear else "-",
        _dollars(theirs.cost) if theirs and theirs.cost is not None and not row.cut_off else "-",
        _dollars(least.cost) if least and least.cost is not None else "-",
        f"{row.racks}/{theirs.racks if theirs else '-'}/{row.fewest}" if row.fewest else "-",
    ]


def markdown(rows: Sequence[Row], goals: Sequence[Goal], peers: dict[str, str], load: str) -> str:
    """The whole report."""
    lines = [
        INTRODUCTION,
        *(f"- {name}: {text}" for name, text in peers.items()),
        "",
        f"Noise: a run of ours against itself differs by {noise(rows)}. Machine: {platform.machine()}, load before {load}.",
        "",
        "## Goals",
        "",
        *_table(("", "goal", "reached", "met", "what stands between"), [_goal(goal) for goal in goals]),
        "",
        "## Faults",
        "",
        *(faults(rows) or ["None: feasibility is equal, and cost equal or better, in every case."]),
        "",
        "## Cases",
        "",
        *_table(COLUMNS, [cells(row) for row in rows]),
    ]
    return "\n".join(lines) + "\n"


def faults(rows: Sequence[Row]) -> list[str]:
    return [f"- {row.scenario} {row.problem.name}: {fault}" for row in rows for fault in row.faults]


def noise(rows: Sequence[Row]) -> str:
    shares = [max(row.ours.kept, row.ours.again) / max(1, min(row.ours.kept, row.ours.again)) - 1 for row in rows]
    return (
        f"{100 * statistics.median(shares):.0f} % in the median, {100 * max(shares):.0f} % at most"
        if shares
        else "nothing measured"
    )


def record(rows: Sequence[Row], goals: Sequence[Goal], peers: dict[str, str], load: str) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "peers": peers,
        "load": load,
        "noise": noise(rows),
        "goals": [asdict(goal) for goal in goals],
        "faults": faults(rows),
        "cases": [_case(row) for row in rows],
    }


def _case(row: Row) -> dict[str, Any]:
    ours = row.ours
    return {
        "scenario": row.scenario,
        "name": row.problem.name,
        "nodes": len(row.problem.nodes),
        "offerings": len(row.problem.offers),
        "pods": row.problem.pods,
        "classes": row.problem.classes(),
        "counts": asdict(ours.counts),
        "nanoseconds": {name: getattr(ours, name) for name in ("kept", "again", "change", "cold", "objects")}
        | {"mask": row.mask},
        "feasible": ours.feasible,
        "cost": ours.cost,
        "gap": ours.gap,
        "bestAlone": row.alone,
        "racks": row.racks,
        "fewestRacks": row.fewest,
        "peer": asdict(row.theirs) if row.theirs else None,
        "linearBound": asdict(row.linear) if row.linear else None,
        "integerBound": asdict(row.integer) if row.integer else None,
        "profile": row.profile,
        "faults": row.faults,
    }


def table(rows: Sequence[Row]) -> str:
    """Nodes, pods, classes, counted operations, milliseconds: what the command ends with."""
    lines = [list(COLUMNS), *(cells(row) for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if at else text.ljust(width) for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]


def _goal(goal: Goal) -> list[str]:
    return [goal.scenario, goal.text, goal.reached, "not measured" if goal.met is None else _yes(goal.met), goal.between]


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3g}" if nanoseconds < 1e9 else f"{nanoseconds / 1e6:.0f}"


def _dollars(micro: int) -> str:
    return f"{micro / 1e6:.2f}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
