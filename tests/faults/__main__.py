"""`python -m tests.faults --runs 2000 --seed 1`: every single fault, then so many pairs and triples.

Failures are told shrunk, ready for test_scripts.py, and how far it is on stderr. The exit code is 1 if any invariant broke.
A sweep that was stopped goes on where it was with --go-on, if it is asked for the same and no code has changed since.
"""

# ruff: noqa: T201  a program that talks

import argparse
import gc
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.faults import report
from tests.faults.branches import walk
from tests.faults.explore import Play, combinations, shrunk, singles
from tests.faults.report import Report
from tests.faults.scenes import SCENES
from tests.faults.stage import Outcome

MOST_TOLD = 20
BATCH = 60
"""Plays of one scene that share their beginning in one process."""
OFTEN = 30.0
"""Seconds between two writings of the results."""
PLAYED = ("capacity", "kube", "provisioner", "runtime", "tests/faults")
"""Where the code is that a sweep plays."""


def settle() -> None:
    """A run leaves little garbage beside the modules' own hundred thousand objects, which needn't be looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def batches(plays: Iterable[Play]) -> list[list[Play]]:
    """Plays of one scene each."""
    by_scene: dict[str, list[Play]] = {}
    for each in plays:
        by_scene.setdefault(each[0], []).append(each)
    return [found[at : at + BATCH] for found in by_scene.values() for at in range(0, len(found), BATCH)]


def walked(batch: list[Play]) -> list[Outcome]:
    return list(walk(batch[0][0], [faults for _, faults in batch]))


def played(todo: list[list[Play]], processes: int) -> Iterator[list[Outcome]]:
    with ProcessPoolExecutor(processes, initializer=settle) as pool:
        yield from pool.map(walked, todo)


def tell(outcome: Outcome) -> None:
    least = shrunk(outcome)
    print(f"play({least.scene!r}, {[tuple(each) for each in least.faults]})")
    print("\n".join(f"  {words}" for words in least.broken), flush=True)


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """What is played, and a digest of the code that plays it."""
    code = hashlib.sha256()
    for path in sorted(path for root in PLAYED for path in Path(root).rglob("*.py")):
        code.update(path.as_posix().encode() + b"\0" + path.read_bytes())
    given = {name: getattr(options, name) for name in ("runs", "seed", "most", "call", "part")}
    return {**given, "scenes": options.scene or sorted(SCENES), "code": code.hexdigest()[:16]}


def so_far(path: Path, asked: Mapping[str, Any]) -> Report:
    """What a sweep for the same had found when it was stopped; raises SystemExit if it was another."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    if figures["asked"] != asked:
        sys.exit(f"{path} is of another sweep or of other code: begin anew, without --go-on")
    return Report.load(figures)


def sweep(todo: list[list[Play]], options: argparse.Namespace) -> Report:
    wanted = asked(options)
    found = so_far(options.out, wanted) if options.go_on else Report()
    before, began, written = found.seconds, time.monotonic(), 0.0
    total = sum(map(len, todo))
    for outcomes in played(todo[found.batches :], options.processes):
        for outcome in outcomes:
            found.add(outcome)
            if outcome.broken and found.broken <= MOST_TOLD:
                tell(outcome)
        found.batches += 1
        took, done = time.monotonic() - began, found.runs.total()
        found.seconds = before + took
        left = found.seconds / done * (total - done)
        print(
            f"{done} of {total} runs, {done / found.seconds:.1f} a second, {left / 60:.0f} min left: {found}",
            file=sys.stderr,
            flush=True,
        )
        if options.out and (took - written > OFTEN or done == total):
            written = took
            report.write(options.out, found.figures(wanted, whole=done == total))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="pairs and triples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, help="calls of one name that single faults strike, in each scene (default: all)")
    parser.add_argument("--scene", action="append", choices=sorted(SCENES), help="single faults in this scene alone")
    parser.add_argument(
        "--call", default="", help="single faults at calls whose name begins with this alone, as in 'cloud launch'"
    )
    parser.add_argument("--part", default="1/1", help="of the plays of all scenes: 2/4 is the second quarter")
    parser.add_argument("--out", type=Path, help="file for the counts, as JSON; beside it a page of the same name, .md")
    parser.add_argument("--go-on", action="store_true", help="with the sweep whose counts --out holds")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.go_on and not options.out:
        parser.error("--go-on needs --out")
    settle()
    alone = itertools.chain.from_iterable(singles(scene, options.most, options.call) for scene in options.scene or sorted(SCENES))
    todo = [*batches(alone), *batches(combinations(options.runs, options.seed))]
    number, parts = map(int, options.part.split("/"))
    found = sweep(todo[number - 1 :: parts], options)
    print(found)
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
