"""`python -m e2e.chaos --minutes 5 --seed 1`: exit code 1 when anything was wrong."""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.chaos import schedule
from e2e.chaos.aftermath import leave, left_over, let_finish, missing
from e2e.chaos.house import House
from e2e.chaos.judge import Ledger, judged
from e2e.chaos.play import Users, Watcher
from e2e.chaos.report import Report, write
from e2e.chaos.run import Run, Steady
from e2e.chaos.strikes import Strikes, second_installation
from e2e.controlplane.cluster import RUNS, ControlPlane

OUT = Path("bench/results/chaos")
MOST = 300.0
"""Seconds that a strike under way may take to its end."""
DIRECTORY = RUNS / f"chaos-{os.getpid()}"


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # everything is stopped, as on Ctrl-C
    options = _options()
    with ControlPlane(DIRECTORY) as plane, House(plane, DIRECTORY / "corral") as house:
        report, ledger = play(house, options.minutes, options.seed, options.only)
    write(options.out, report, ledger)
    print(*report.wrong, sep="\n")
    if not report.wrong:
        shutil.rmtree(DIRECTORY, ignore_errors=True)
    print(report.line)
    return 1 if report.wrong else 0


def play(house: House, minutes: float, seed: int, only: Sequence[str]) -> tuple[Report, Ledger]:
    """`minutes` of gangs and faults, and as long as it takes until all is quiet."""
    length, run = minutes * 60, Run()
    gangs = schedule.gangs(seed, length)
    ledger, theirs = Ledger(gangs), second_installation(house)
    watcher, users = Watcher(run, ledger, house.plane.kubeconfig), Users(run, ledger, gangs, house.plane.kubeconfig)
    lanes = []
    for name, kinds, gap in (("services", schedule.SERVICES, 6.0), ("world", schedule.WORLD, 4.0)):
        chosen = {kind: seconds for kind, seconds in kinds.items() if not only or kind in only}
        strikes = schedule.strikes(seed, length, chosen, gap) if chosen else []
        lanes.append(Strikes(name, run, house, ledger, strikes))
    for thread in (watcher, users, *lanes):
        thread.start()
    try:
        for thread in (users, *lanes):
            thread.join()
        let_finish(run, ledger, gangs)
        watcher.closed.set()
        watcher.join()
        leave(Steady(run, house.plane.kubeconfig), gangs)
        found = [*left_over(run, house, theirs), *missing(house, theirs)]
    finally:
        run.over.set()
        for thread in lanes:
            thread.join(MOST)  # nobody starts programs any more when they are stopped
    struck = [strike for lane in lanes for strike in lane.struck]
    failed = [f"a strike failed: {words}" for lane in lanes for words in lane.failed]
    machines = len(house.cloud.machines()) - len(theirs)
    report = Report(seed, minutes, run.now, watcher.looks, struck, judged(ledger), found, failed, machines, run.told)
    return report, ledger


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of gangs and faults; the end comes on top")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", action="append", default=[], choices=sorted({*schedule.SERVICES, *schedule.WORLD}), help="faults"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="path of both reports, no ending")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
