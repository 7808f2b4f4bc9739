"""The table: a verdict for each row by what its tests did, as docs/conformance.md and as JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from e2e.conformance.plugin import Outcome
from e2e.conformance.rows import Kind, Row

SHOWN = 3  # lines of evidence in the page; the JSON has all

_SECTIONS = {
    "3.1": "Reconciling a workload (units of the in-tree controller)",
    "3.2": "Reconciling an AdmissionCheck",
    "3.3": "Indexes",
    "3.4": "Helpers for admission checks",
    "3.5": "The provisioning check end to end (integration)",
    "3.6": "MultiKueue",
    "3.7": "Topology-aware scheduling with provisioning",
    "3.8": "The scheduler's side of it",
    "3.9": "Kueue's core and admission checks",
    "3.10": "What no in-tree suite tests",
    "W": "Weaknesses of the in-tree check",
}
_HEAD = """# Conformance

What the provisioning check of Kueue {kueue} does, what Corral's check does in its place, and what the real Kueue did in a test
(Kubernetes {kubernetes}). Written by `make conformance`; what each test saw is in
[bench/results/conformance.json](../bench/results/conformance.json).

- **green**: all tests of the row passed, and in them Kueue's own process changed the Workload: it reserved quota, evicted,
  requeued, admitted, deactivated or finished it. The evidence says to which version of the object (`@`), in the run of this page.
- **twin only**: the tests passed, but without Kueue, on our side of the contract alone; or nothing can be tested: see the note.
- **red**: a test failed, or Kueue was not seen to act.

{counts}
"""


class Verdict(StrEnum):
    """What is known of a row."""

    GREEN = "green"
    TWIN = "twin only"
    RED = "red"


@dataclass(frozen=True)
class Judged:
    """A row, what became of its tests, and the verdict."""

    row: Row
    tests: tuple[Outcome, ...]

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(line for test in self.tests for line in test.evidence)

    @property
    def verdict(self) -> Verdict:
        if any(test.outcome != "passed" for test in self.tests):
            return Verdict.RED
        if self.evidence and self.row.kind != Kind.TWIN:
            return Verdict.GREEN
        proven = bool(self.tests or self.row.note)
        return Verdict.TWIN if proven and self.row.kind != Kind.REAL else Verdict.RED


def judge(rows: Mapping[str, Row], outcomes: Iterable[Outcome]) -> list[Judged]:
    """Every row once, in the order of `rows`."""
    tests = list(outcomes)
    return [Judged(row, tuple(each for each in tests if row.id in each.rows)) for row in rows.values()]


def counts(table: Sequence[Judged]) -> str:
    """`rows=… green=… twin_only=… red=…`."""
    of = Counter(each.verdict for each in table)
    return f"rows={len(table)} green={of[Verdict.GREEN]} twin_only={of[Verdict.TWIN]} red={of[Verdict.RED]}"


def page(table: Sequence[Judged], versions: Mapping[str, str], *, evidence: bool = True) -> str:
    """docs/conformance.md; without `evidence` what must be equal for the page to stay as it is."""
    parts = [_HEAD.format(counts=f"`{counts(table)}`", **versions), *(_again(table) if evidence else ())]
    for section in dict.fromkeys(_section(each) for each in table):
        parts.append(f"\n## {section} {_SECTIONS[section]}\n")
        parts.append("| row | case | in-tree | ours | verdict | evidence |\n| --- | --- | --- | --- | --- | --- |")
        parts.extend(_line(each, evidence) for each in table if _section(each) == section)
    return "\n".join(parts) + "\n"


def _again(table: Sequence[Judged]) -> list[str]:
    """Which tests were run a second time."""
    found = {each.test: each.before for judged in table for each in judged.tests if each.before}
    return [f"- run a second time: `{test}`, at first {before}" for test, before in sorted(found.items())]


def as_json(table: Sequence[Judged], versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything: for each row its verdict, and for each of its tests the outcome with all evidence."""
    rows = [
        {
            "id": each.row.id,
            "case": each.row.case,
            "verdict": each.verdict.value,
            "tests": [_told(test) for test in each.tests],
        }
        for each in table
    ]
    return {"versions": dict(versions), "counts": counts(table), "rows": rows}


def _told(test: Outcome) -> dict[str, Any]:
    told = {"test": test.test, "outcome": test.outcome, "evidence": test.evidence}
    return told | ({"before": test.before} if test.before else {})


def _section(judged: Judged) -> str:
    return "W" if judged.row.id.startswith("W") else judged.row.id.partition("-")[0]


def _line(judged: Judged, evidence: bool) -> str:
    row = judged.row
    ours = f"{row.ours} ({row.note})" if row.note else row.ours
    seen = "<br>".join(_brief(judged)) if evidence else ""
    return f"| {row.id} | {_cell(row.case)} | {_cell(row.in_tree)} | {_cell(ours)} | {judged.verdict} | {seen} |"


def _brief(judged: Judged) -> list[str]:
    """Of the test that saw most the first lines; where Kueue was not seen, which tests did not pass."""
    if judged.verdict != Verdict.GREEN:
        return [f"`{test.test}`: {test.outcome or 'not run'}" for test in judged.tests if test.outcome != "passed"]
    best = max(judged.tests, key=lambda test: len(test.evidence))
    return [_cell(line) for line in best.evidence[:SHOWN]]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
