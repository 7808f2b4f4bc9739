"""`python -m bench.planner`: S1 to S4 beside the peers, the report under bench/results/.

Exits 1 when what both sides must agree on differs.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.planner import build, compare, peers, report
from bench.planner.compare import Peer, Row
from bench.planner.goals import goals
from bench.tas import harness as kueue

RESULTS = Path(__file__).parents[1] / "results"
SCENARIOS = ("S1", "S2", "S3", "S4")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planner", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="S1, S2, S3 or S4; all by default")
    parser.add_argument("--quick", action="store_true", help="small cases only; no report is written")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of planner.md and planner.json")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    load = " ".join(f"{number:.1f}" for number in os.getloadavg())
    told: dict[str, str] = {}
    rows = [_tell(row) for name in options.scenarios or SCENARIOS for row in _scenario(name, told, quick=options.quick)]
    reached = goals(rows)
    if not options.quick:
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / "planner.md").write_text(report.markdown(rows, reached, told, load))
        (options.results / "planner.json").write_text(json.dumps(report.record(rows, reached, told, load), indent=1) + "\n")
    for goal in reached:
        print(goal.scenario, {None: "?", True: "met", False: "NOT MET"}[goal.met], f"{goal.text}: {goal.reached}", goal.between)
    print(*report.faults(rows), sep="\n")
    print(report.table(rows))
    sys.exit(1 if any(row.faults for row in rows) else 0)


def _scenario(name: str, told: dict[str, str], *, quick: bool) -> Iterator[Row]:
    sizes = [1_000] if quick else [1_000, 10_000, 100_000]
    counts = [8, 64] if quick else [8, 64, 512, 4_096]
    runs: dict[str, Callable[[], Iterator[Row]]] = {
        "S1": lambda: compare.s1(sizes, counts, _peer("Cluster Autoscaler", peers.autoscaler, build.AUTOSCALER, told)),
        "S2": lambda: compare.s2([847, *sizes[1:]], counts, _kueue(told)),
        "S3": lambda: compare.s3(counts, _peer("Karpenter", peers.karpenter, build.KARPENTER, told)),
        "S4": lambda: compare.s4(20 if quick else 100, _peer("Karpenter", peers.karpenter, build.KARPENTER, told)),
    }
    yield from runs[name]()


def _peer(name: str, peer: Peer, harness: build.Harness, told: dict[str, str]) -> Peer | None:
    try:
        build.program(harness)
    except build.UnavailableError as error:
        told[name] = f"could not be had ({error})"
        return None
    told[name] = f"{harness.does}, {harness.module} {harness.version}, driven as a Go module"
    return peer


def _kueue(told: dict[str, str]) -> Peer:
    kueue.program()
    told["Kueue"] = "its topology assignment, sigs.k8s.io/kueue v0.17.0, driven as a Go module"
    return peers.kueue


def _tell(row: Row) -> Row:
    print("  ".join(report.cells(row)), *row.faults, file=sys.stderr, flush=True)
    return row


main()
