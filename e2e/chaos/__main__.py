"""`python -m e2e.chaos --minutes 5 --seed 1`: exit code 1 when anything was wrong."""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from e2e.chaos import schedule
from e2e.chaos.aftermath import left_over, let_finish, missing
from e2e.chaos.house import House, Neighbour
from e2e.chaos.judge import judged
from e2e.chaos.lives import Ledger
from e2e.chaos.operator import Operator
from e2e.chaos.play import Party
from e2e.chaos.report import Report, write
from e2e.chaos.run import Run
from e2e.chaos.strikes import Strikes, strangers
from e2e.controlplane.cluster import RUNS, ControlPlane

OUT = Path("bench/results/chaos")
MOST = 300.0
"""Seconds that a strike under way may take to its end."""
DIRECTORY = RUNS / f"chaos-{os.getpid()}"


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # everything is stopped, as on Ctrl-C
    options = _options()
    with (
        planes() as (plane, other),
        House(plane, other, DIRECTORY / "corral") as house,
        Neighbour(other, house, DIRECTORY / "neighbour"),
    ):
        report, ledger = play(house, other, options.minutes, options.seed, options.only)
    write(options.out, report, ledger)
    print(*report.wrong, sep="\n")
    if not report.wrong:
        for each in (plane, other):
            shutil.rmtree(each.directory, ignore_errors=True)
    print(report.line)
    return 1 if report.wrong else 0


@contextmanager
def planes() -> Iterator[list[ControlPlane]]:
    """Two control planes, started at the same time."""
    both = [ControlPlane(DIRECTORY), ControlPlane(DIRECTORY.with_name(f"{DIRECTORY.name}-neighbour"))]
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(ControlPlane.start, both))
        yield both
    finally:
        for each in both:
            each.stop()


def play(house: House, other: ControlPlane, minutes: float, seed: int, only: Sequence[str]) -> tuple[Report, Ledger]:
    """`minutes` of gangs and faults, and as long as it takes until all is quiet."""
    length, run = minutes * 60, Run()
    theirs, end_machine = strangers(house), house.cloud.terminate
    ours = Party(run, schedule.gangs(seed, length), house.plane.kubeconfig, end_machine)
    beside = Party(run, schedule.neighbours(seed, length), other.kubeconfig, end_machine)
    lanes = list(_lanes(run, house, ours.ledger, length, seed, only))
    found = _played(run, house, (ours, beside), lanes, theirs)
    verdicts = judged(ours.ledger), judged(beside.ledger)
    struck = [strike for lane in lanes for strike in lane.struck]
    failed = [f"a strike failed: {words}" for lane in lanes for words in lane.failed]
    machines = len(house.cloud.machines()) - len(theirs)
    reused, lost = sum(len(each) - 1 for each in ours.ledger.bookings.values()), len(ours.ledger.killed)
    looks = ours.watcher.looks
    report = Report(seed, minutes, run.now, looks, struck, *verdicts, found, failed, machines, reused, lost, run.told)
    return report, ours.ledger


def _played(run: Run, house: House, parties: Sequence[Party], lanes: Sequence[Strikes], theirs: Sequence[str]) -> list[str]:
    """What is left over when all has been played."""
    for party in parties:
        party.start()
    for thread in (Operator(run, house), *lanes):
        thread.start()
    try:
        for lane in lanes:
            lane.join()
        for party in parties:
            party.close()
        let_finish(run, parties)
        for party in parties:
            party.leave()
        return [*left_over(house, parties, theirs), *missing(house, theirs)]
    finally:
        run.over.set()
        for lane in lanes:
            lane.join(MOST)  # nobody starts programs any more when they are stopped


def _lanes(run: Run, house: House, ledger: Ledger, length: float, seed: int, only: Sequence[str]) -> Iterator[Strikes]:
    for name, kinds, gap in (("services", schedule.SERVICES, 6.0), ("world", schedule.WORLD, 4.0)):
        chosen = {kind: seconds for kind, seconds in kinds.items() if not only or kind in only}
        yield Strikes(name, run, house, ledger, schedule.strikes(seed, length, chosen, gap) if chosen else [])


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
