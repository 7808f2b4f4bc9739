"""`python -m bench.repair --seeds 100`: exit code 1 when a gang did not start within its deadline."""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.repair import scene
from bench.repair.play import Outcome, play
from runtime import logging

OUT = Path("bench/results/repair")
SPARES = (0, 1)
"""Machines of the reservation in each rack beyond the gang's: none, so that a bad one must be given back first, or one."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=100, help="how many, for each number of spares")
    arguments.add_argument("--seed", type=int, default=1, help="the first")
    arguments.add_argument("--one-in", type=int, default=100, help="one machine in so many is bad")
    arguments.add_argument("--out", type=Path, default=OUT, help="path of both reports, no ending")
    chosen = arguments.parse_args()
    logging.setup("error", "text")
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    found: list[Outcome] = []
    for spare in SPARES:
        found += [play(seed, spare=spare, one_in=chosen.one_in) for seed in seeds]
        write(chosen.out, found, chosen.one_in)
    late = [each for each in found if not each.started]
    for each in late:
        print(f"seed={each.seed} spare={each.spare} {each.phase} after {each.took}s: {each.reason}")
    print(f"gangs={len(found)} started={len(found) - len(late)} bad={sum(each.bad for each in found)} late={len(late)}")
    return 1 if late else 0


def write(path: Path, found: Sequence[Outcome], one_in: int) -> None:
    spares = sorted({each.spare for each in found})
    rows = "\n".join(_row(spare, [each for each in found if each.spare == spare]) for spare in spares)
    path.with_suffix(".md").write_text(_PAGE.format(gang=scene.GANG, one_in=one_in, rows=rows, **_numbers()), encoding="utf-8")
    raw = {"gang": scene.GANG, "oneIn": one_in, "outcomes": [asdict(each) for each in found]}
    path.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


def _numbers() -> dict[str, int]:
    return {
        "deadline": scene.DEADLINE // 60,
        "readiness": scene.READINESS // 60,
        "boot": scene.BOOT + scene.JOIN + scene.DEVICES,
        "end": scene.END,
        "racks": scene.RACKS,
    }


def _row(spare: int, found: Sequence[Outcome]) -> str:
    took = sorted(each.took for each in found)
    started = sum(each.started for each in found)
    bad = [each.bad for each in found]
    times = f"{statistics.median(took) / 60:.1f} | {took[-1] / 60:.1f}"
    return f"| {spare} | {started} of {len(found)} | {statistics.mean(bad):.1f} (0 in {bad.count(0)}) | {max(bad)} | {times} |"


_PAGE = """# Repair: does a large gang start though machines are bad?

Written by `make bench-repair`. A gang of {gang} machines on a reservation in {racks} racks, played in virtual time by the real
lifecycle against the simulated cloud's state machine. One machine in {one_in} is bad, replacements as well: it never joins, is
never Ready, lacks a device, or its node reports a kernel deadlock. A sound one takes {boot} s from order to devices; a slot comes
back {end} s after its machine's termination. A machine must be ready within {readiness} minutes, the gang within {deadline}.

| spares in each rack | started in time | bad machines, mean | most | median, min | longest, min |
| --- | --- | --- | --- | --- | --- |
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
