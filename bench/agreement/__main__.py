"""Command line of the agreement experiment: run, or record a case that is to be kept."""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.agreement import kept, oracle
from bench.agreement.cases import Case, without_cordoned
from bench.agreement.catch import caught
from bench.agreement.field import Field
from bench.agreement.generator import FEATURES, generate
from bench.agreement.report import Run, write
from bench.agreement.results import FIT, Disagreement, Result
from bench.agreement.shrink import shrink
from bench.agreement.waves import run_all
from e2e.controlplane.build import PROGRAMS
from e2e.controlplane.cluster import RUNS, ControlPlane

REPORTS = RUNS.parent / "agreement"
EFFORT = 20_000  # states of a case that the oracle looks at before it gives up
_MOST_SHRUNK = 3


def main() -> int:
    options = _parser().parse_args()
    return int(options.do(options))


def _run_command(options: argparse.Namespace) -> int:
    """1 if the run found any fault, else 0."""
    cases = [generate(options.seed, number) for number in range(options.first, options.first + options.cases)]
    if options.only:
        cases = [case for case in cases if case.features[0] in options.only]
    with ControlPlane(RUNS / f"agreement-{options.seed}", bare=True) as plane:
        run = asyncio.run(_run(plane, options, cases))
    faults = run.faults()
    for fault in faults:
        print(fault)
    print(run.line())
    return 1 if faults else 0


def _keep_command(options: argparse.Namespace) -> int:
    """Puts cases to both sides and keeps them with what came out; 1 if the two differ."""
    seed, _, number = options.case.partition("/")
    with ControlPlane(RUNS / "agreement-keep", bare=True) as plane:
        result = asyncio.run(_once(plane, generate(int(seed), int(number))))
    print(kept.save(options.name, kept.Kept.of(options.why, result)))
    for each in result.disagreements():
        print(f"{each.question} {each.what}: {each.detail}")
    return 1 if result.disagreements() else 0


async def _once(plane: ControlPlane, case: Case) -> Result:
    async with Field.open(plane.layout) as here:
        results = await run_all(here, [case])
    _judge(results)
    return results[0]


async def _run(plane: ControlPlane, options: argparse.Namespace, cases: Sequence[Case]) -> Run:
    async with Field.open(plane.layout) as here:
        began = time.monotonic()
        results = await run_all(here, cases, lambda done: _tell(done, len(cases), began))
        seconds = time.monotonic() - began
        _judge(results)
        run = Run(options.seed, _versions(), seconds, results)
        report = options.out or REPORTS / f"{len(cases)}-{options.seed}"
        write(run, report)
        known = await _replay(here)
        run.kept = {name: result.disagreements() for name, result in known.items() if result.disagreements()}
        run.mutations = await caught(here, [*results, *known.values()]) if not options.no_mutations else []
        write(run, report)
        if run.wrong() and not options.no_shrink:
            run.shrunk = await _shrink(here, results)
            write(run, report)
    return run


def _tell(done: int, of: int, began: float) -> None:
    print(f"{done}/{of} cases, {done / (time.monotonic() - began):.1f} a second", flush=True)


def _judge(results: Sequence[Result]) -> None:
    """The oracle's word on every case, and on every plan as far as that can be told."""
    for result in results:
        usable = without_cordoned(result.case)
        result.oracle = oracle.feasible(usable)
        if result.outcome == FIT:
            result.survives = oracle.survives(usable, result.marking, limit=EFFORT)


async def _replay(here: Field) -> dict[str, Result]:
    """The kept cases, put to both once more, by name."""
    known = kept.load()
    results = await run_all(here, [each.case for each in known.values()])
    _judge(results)
    return dict(zip(known, results, strict=True))


async def _shrink(here: Field, results: Sequence[Result]) -> dict[str, str]:
    """Some of the disagreements, one a question and feature, made small and kept: case -> file."""
    first: dict[tuple[str, ...], tuple[Result, Disagreement]] = {}
    for result in results:
        for each in result.disagreements():
            first.setdefault((each.question, each.what, result.case.features[0]), (result, each))
    found = {}
    for result, wrong in list(first.values())[:_MOST_SHRUNK]:
        small = await shrink(here, result.case, wrong)
        (again,) = await run_all(here, [small])
        name = f"{wrong.question.lower()}-{result.case.features[0]}-{result.case.seed.replace('/', '-')}"
        found[result.case.seed] = str(kept.save(name, kept.Kept.of(f"{wrong.question} {wrong.what}", again)))
    return found


def _versions() -> dict[str, str]:
    return {each.name: each.version for each in PROGRAMS if each.name in ("etcd", "kube-apiserver", "kube-scheduler")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.agreement", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="put generated cases to planner, oracle and scheduler, and report")
    run.add_argument("--cases", type=int, default=500)
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--first", type=int, default=0, help="number of the first case")
    run.add_argument("--only", nargs="+", choices=FEATURES, help="only cases with these main features")
    run.add_argument("--no-mutations", action="store_true", help="skip the seeded mistakes")
    run.add_argument("--no-shrink", action="store_true", help="leave disagreements as they are")
    run.add_argument("--out", type=Path, help="report, without extension (default: .run/agreement/<cases>-<seed>)")
    run.set_defaults(do=_run_command)
    keep = commands.add_parser("keep", help="keep one generated case for good, with what the real scheduler did")
    keep.add_argument("case", help="seed/number")
    keep.add_argument("name", help="of the file, without extension")
    keep.add_argument("why", help="what it shows")
    keep.set_defaults(do=_keep_command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
