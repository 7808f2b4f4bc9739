"""`python -m bench.admission --workloads 1000`: exit code 1 when ours makes more writes than it must, or takes more memory."""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from bench.admission import measure, scene
from bench.admission.plane import Plane, admission
from bench.admission.report import GOAL_MIB, Row, write
from bench.admission.scene import Side
from e2e.controlplane import build
from e2e.controlplane.cluster import RUNS
from e2e.controlplane.progress import plain

POD_SETS = (1, 8)
_MUST = 3  # n + 2 writes for a workload of one pod set


async def measured(plane: Plane, side: Side, count: int, behind: int) -> list[Row]:
    """What one side shows on its own control plane; `behind` workloads for the row where Kueue is ahead of the service."""
    ours = side is scene.OURS
    service = admission(plane, plane.directory / "corral")
    plane.settle()
    async with measure.connected(plane) as client:
        pace = await measure.pace(client)
        if ours:
            await asyncio.to_thread(service.start)
        try:
            singles = [await measure.latency(client, side, each) for each in POD_SETS if side.controller]
            running = service if ours else None
            rows = [Row(side.name, pace, await measure.load(plane, client, side, count, running), singles)]
            if ours:
                rows.append(
                    Row(f"{side.name}, reserved before", pace, await measure.backlog(plane, client, side, behind, service))
                )
            return rows
        finally:
            service.stop()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--workloads", type=int, default=1000)
    arguments.add_argument("--out", type=Path, default=Path("bench/results/admission"), help="path of both reports, no ending")
    chosen = arguments.parse_args()
    build.ensure(plain())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the control plane is stopped, as on Ctrl-C
    rows: list[Row] = []
    began = os.getloadavg()[0]
    for number, side in enumerate((scene.OURS, scene.IN_TREE, scene.NO_CHECK)):
        with Plane(RUNS / f"bench-admission-{os.getpid()}-{number}") as plane:
            rows += asyncio.run(measured(plane, side, chosen.workloads, min(chosen.workloads, 2000)))
        write(chosen.out, rows, f"{os.cpu_count()} processors, load {began:.1f} before and {os.getloadavg()[0]:.1f} after")
    for row in rows:
        print(row.line())
    ours = rows[0]
    return 1 if ours.per_workload > _MUST or ours.load.peak_mib["admission"] > GOAL_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
