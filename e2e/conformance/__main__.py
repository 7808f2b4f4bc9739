"""`python -m e2e.conformance`: runs every test that claims a row, writes the table, and ends with one line of counts.

Tests that run the admission service alone and those that run the whole stack would meet at one Lease, and the CRDs of all
operators are there only for tests that need them, so each kind has processes of its own, with a control plane each, and two
run at a time. What fails is run once more when all else is over, and the page says so: on a busy machine a control plane may be
too slow for a test. Exit status 1 when a row is red.
"""

import asyncio
import hashlib
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from e2e.conformance import report, rows
from e2e.conformance.plugin import Outcome
from e2e.controlplane.build import PROGRAMS

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".run" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
RESULTS = ROOT / "bench" / "results" / "conformance.json"
AT_ONCE = 2  # processes side by side: mostly they wait
SHARES = 2  # of the tests with the admission service alone
LIMIT = 1800.0  # seconds for one process
FORGIVEN = 10  # tests that are run a second time; more that fail are no accident


async def collect(files: Sequence[str]) -> list[Outcome]:
    """What the tests of the files are, none of them run."""
    planned, status = await _pytest("collected", files, "--collect-only", "-q")
    if status:
        sys.exit((RUN / "collected.log").read_text())
    return planned


def shares(planned: Iterable[Outcome]) -> dict[str, list[str]]:
    """Files by process: those of one kind of fixtures, the largest files first to the emptiest share. Exits for a mixed file."""
    kinds: dict[str, Counter[str]] = {"stack": Counter(), "kinds": Counter(), "admission": Counter(), "pure": Counter()}
    for each in planned:
        kinds[_kind(each)][each.file] += 1
    files = [file for sizes in kinds.values() for file in sizes]
    if mixed := sorted(file for file, times in Counter(files).items() if times > 1):
        sys.exit(f"{', '.join(mixed)}: tests of one file must agree on the fixtures admission, stack and all_kinds: split it")
    spread = _even(kinds.pop("admission"), SHARES)
    parts = {name: list(sizes) for name, sizes in kinds.items()}
    return {name: found for name, found in (spread | parts).items() if found}


def _even(sizes: Counter[str], shares: int) -> dict[str, list[str]]:
    spread: list[list[str]] = [[] for _ in range(shares)]
    for file, _ in sizes.most_common():
        min(spread, key=lambda share: sum(sizes[each] for each in share)).append(file)
    return {f"admission-{number}": share for number, share in enumerate(spread, 1)}


def _kind(test: Outcome) -> str:
    if "stack" in test.fixtures:
        return "stack"
    if "all_kinds" in test.fixtures:
        return "kinds"
    return "admission" if "controlplane" in test.fixtures else "pure"


async def _pytest(name: str, files: Sequence[str], *options: str) -> tuple[list[Outcome], int]:
    """Runs pytest on the files; its own words go to a log. What was not run in time has no outcome, which is red."""
    outcomes, log = RUN / f"{name}.json", RUN / f"{name}.log"
    arguments = ["-m", "pytest", "-p", "e2e.conformance.plugin", f"--outcomes={outcomes}", "-p", "no:cacheprovider", *options]
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, *files, cwd=ROOT, stdout=out, stderr=out)
        try:
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=LIMIT)
        finally:
            if process.returncode is None:
                process.terminate()  # its fixtures stop their programs
            status = await process.wait()
    return (msgspec.json.decode(outcomes.read_bytes(), type=list[Outcome]) if outcomes.exists() else []), status


async def run(parts: dict[str, list[str]], at_once: int = AT_ONCE) -> list[Outcome]:
    """The outcomes of all parts: names of processes, and the files or tests of each."""
    turns = asyncio.Semaphore(at_once)

    async def one(name: str, files: list[str]) -> list[Outcome]:
        async with turns:
            start = time.monotonic()
            outcomes, _ = await _pytest(name, files)
            failed = [each.test for each in outcomes if each.outcome != "passed"]
            seconds = time.monotonic() - start
            lines = [f"{name}: {len(outcomes)} tests in {seconds:.0f} s, {len(failed)} not passed ({RUN / name}.log)", *failed]
            print("\n  ".join(lines), flush=True)
            return outcomes

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(name, files)) for name, files in parts.items()]
    return [outcome for task in tasks for outcome in task.result()]


async def run_again(first: Sequence[Outcome]) -> list[Outcome]:
    """What of these did not pass, run once more, one process after the other; with the rest as it is."""
    failed = {each.test: each for each in first if each.outcome != "passed"}
    if not failed or len(failed) > FORGIVEN:
        return list(first)
    parts: dict[str, list[str]] = {}
    for each in failed.values():
        parts.setdefault(f"{_kind(each)}-again", []).append(each.test)
    second = {each.test: each for each in await run(parts, at_once=1)}
    for test, each in second.items():
        each.before = failed[test].outcome or "not run"
    return [second.get(each.test, each) for each in first]


def write(table: Sequence[report.Judged], versions: dict[str, str]) -> None:
    """Page and results, unless nothing but their evidence would differ from those that are there."""
    stamp = report.page(table, versions, evidence=False)
    full = {**report.as_json(table, versions), "page": _digest(stamp)}
    (RUN / "conformance.json").write_text(json.dumps(full, indent=1) + "\n")
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() and PAGE.exists() else {}
    if before.get("page") != full["page"]:
        PAGE.write_text(report.page(table, versions))
        RESULTS.write_text(json.dumps(full, indent=1) + "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def claimants() -> list[Path]:
    """Files of tests that mention the marker; which tests bear it pytest says."""
    found = (path for folder in ("tests", "e2e") for path in (ROOT / folder).rglob("test_*.py"))
    return sorted(path for path in found if 'pytest.mark.row("' in path.read_text())


async def main() -> int:
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    known = rows.load()
    planned = await collect([str(path.relative_to(ROOT)) for path in claimants()])
    rows.check(known, {each.test: each.rows for each in planned})
    outcomes = await run(shares(planned))
    ran = {each.test for each in outcomes}
    table = report.judge(known, await run_again([*outcomes, *(each for each in planned if each.test not in ran)]))
    pins = {each.workspace: each.version for each in PROGRAMS if each.name in ("kueue", "kube-apiserver")}
    write(table, pins)
    for each in table:
        if each.verdict == report.Verdict.RED:
            print(f"red: {each.row.id} {each.row.case}")
    print(report.counts(table))
    return int(any(each.verdict == report.Verdict.RED for each in table))


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except rows.RowsError as error:
        sys.exit(str(error))
