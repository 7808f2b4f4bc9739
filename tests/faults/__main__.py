"""`python -m tests.faults --runs 2000 --seed 1`: every single fault, then so many pairs and triples.

Failures are told shrunk, ready for test_scripts.py. The exit code is 1 if any invariant broke.
"""

# ruff: noqa: T201  a program that talks

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.faults.explore import Play, combinations, shrunk, singles, summary
from tests.faults.kinds import KNOWN
from tests.faults.scenes import SCENES
from tests.faults.stage import Outcome, play

MOST_TOLD = 20
BATCH = 10


def settle() -> None:
    """A run leaves little garbage beside the modules' own hundred thousand objects, which needn't be looked at again."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def one(each: Play) -> Outcome:
    return play(*each)


def played(plays: Iterable[Play], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        settle()
        yield from map(one, plays)
        return
    with ProcessPoolExecutor(processes, initializer=settle) as pool:
        yield from pool.map(one, plays, chunksize=BATCH)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="pairs and triples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, help="calls of one name that single faults strike, in each scene (default: all)")
    parser.add_argument("--scene", action="append", choices=sorted(SCENES), help="single faults in this scene alone")
    parser.add_argument(
        "--call", default="", help="single faults at calls whose name begins with this alone, as in 'cloud launch'"
    )
    parser.add_argument("--out", type=Path, help="file for the counts, as JSON")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    began = time.monotonic()
    alone = itertools.chain.from_iterable(singles(scene, options.most, options.call) for scene in options.scene or sorted(SCENES))
    outcomes, broken = [], []
    for outcome in played(itertools.chain(alone, combinations(options.runs, options.seed)), options.processes):
        outcomes.append(outcome)
        if outcome.broken:
            broken.append(outcome)
            if len(broken) <= MOST_TOLD:
                least = shrunk(outcome)
                print(f"play({least.scene!r}, {[tuple(each) for each in least.faults]})")
                print("\n".join(f"  {words}" for words in least.broken), flush=True)
    print(f"{len(outcomes) / (time.monotonic() - began):.1f} runs a second", file=sys.stderr)
    print(summary(outcomes))
    if options.out:
        asked = {"runs": options.runs, "seed": options.seed, "most": options.most, "scenes": options.scene or sorted(SCENES)}
        found = dict(part.split("=") for part in summary(outcomes).split())
        options.out.write_text(
            json.dumps({"asked": asked, "listed_calls": len(KNOWN), **found}, indent=2) + "\n", encoding="utf-8"
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
