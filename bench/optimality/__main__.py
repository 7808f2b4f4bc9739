"""`python -m bench.optimality --cases 2000 --seed 1`: exit code 1 when a plan is unsafe or too dear, or a shortfall is none."""

import argparse
import sys
import time
from pathlib import Path

from bench.agreement.truth.reach import TooBigError
from bench.optimality.instances import instance
from bench.optimality.judge import judge
from bench.optimality.report import Tally


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path, default=Path("bench/results/optimality"), help="path of both reports, no ending")
    chosen = arguments.parse_args()
    began = time.monotonic()
    tally = Tally(chosen.seed)
    for number in range(chosen.cases):
        one = instance(chosen.seed, number)
        try:
            tally.add(one, judge(one))
        except TooBigError:
            tally.too_big += 1
    tally.seconds = time.monotonic() - began
    tally.write(chosen.out)
    print(tally.line())
    return 1 if tally.wrong or tally.too_big else 0


if __name__ == "__main__":
    sys.exit(main())
