"""The report: counts per feature, agreement per question, what was caught; as markdown, as JSON, and as one line."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.agreement.catch import Caught
from bench.agreement.results import FIT, NO_FIT, UNDECIDABLE, Disagreement, Result

TOTAL_LIMIT, FEATURE_LIMIT = 0.02, 0.05
_SMALLEST_SHARE = 40
"""Below so many cases a feature's share says nothing: one case more would break the limit."""

_LEGEND = (
    "Q1: one pod, one node or a free choice. Q2: a whole gang with the marks of its plan. Q4: a gang that the planner says can't "
    "be bound, on all there is and could be bought, in random orders, and by the oracle."
)


@dataclass
class Run:
    """All of one run. `versions` of the programs by name, `seconds` of wall time for the cases alone."""

    seed: int
    versions: Mapping[str, str]
    seconds: float
    results: Sequence[Result]
    mutations: Sequence[Caught] = ()
    kept: Mapping[str, list[Disagreement]] = field(default_factory=dict)
    shrunk: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[str]:
        return Counter(result.outcome for result in self.results)

    def wrong(self) -> list[tuple[Result, Disagreement]]:
        return [(result, each) for result in self.results for each in result.disagreements()]

    def number(self, what: str) -> int:
        return sum(1 for _, each in self.wrong() if each.what == what)

    def share(self, feature: str = "") -> float:
        """Of undecidable cases, among those whose main feature it is, or all."""
        some = [result for result in self.results if not feature or result.case.features[0] == feature]
        return sum(1 for result in some if result.outcome == UNDECIDABLE) / len(some) if some else 0.0

    def features(self) -> list[str]:
        return list(dict.fromkeys(result.case.features[0] for result in self.results))

    def faults(self) -> list[str]:
        """Why this run is no proof; empty when it is."""
        found = [f"{result.case.seed} {each.question} {each.what}" for result, each in self.wrong()]
        found += [f"kept case {name}: {each.question} {each.what}" for name, some in self.kept.items() for each in some]
        found += [f"not caught: {each.mutation}" for each in self.mutations if not each.by]
        found += [f"refused by the API server: {result.case.seed}: {result.refused}" for result in self.results if result.refused]
        if self.share() > TOTAL_LIMIT:
            found.append(f"undecidable: {self.share():.1%} of all")
        for feature in self.features():
            many = sum(1 for result in self.results if result.case.features[0] == feature)
            if many >= _SMALLEST_SHARE and self.share(feature) > FEATURE_LIMIT:
                found.append(f"undecidable: {self.share(feature):.1%} of {feature}")
        return found

    def line(self) -> str:
        """The last line of the command."""
        caught = sum(1 for each in self.mutations if each.by)
        return (
            f"cases={len(self.results)} fit={self.counts[FIT]} nofit={self.counts[NO_FIT]} false_fit={self.number('false fit')} "
            f"false_nofit={self.number('false no-fit')} undecidable={self.share():.2%} "
            f"mutations_caught={caught}/{len(self.mutations)}"
        )


def write(run: Run, path: Path) -> None:
    """`path` without extension; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".md").write_text(markdown(run))
    path.with_suffix(".json").write_text(json.dumps(as_json(run), indent=1) + "\n")


def markdown(run: Run) -> str:
    parts = [
        "# Agreement with kube-scheduler",
        _head(run),
        _bound(run),
        "## Questions",
        _table(("question", "asked", "agreed", "false fit", "false no-fit"), _questions(run)),
        f"{_LEGEND} Q3, the same gang without marks: {_misses(run)}",
        "## Features",
        _table(("feature", "cases", "in passing", "fit", "no fit", "undecidable", "share"), _features(run)),
        "## Undecidable",
        _table(("cases", "reason"), _reasons(run)),
        "## Seeded mistakes",
        _table(("mistake", "exposed by"), [(each.mutation, each.by[:160] or "nothing") for each in run.mutations]),
        "## Faults of this run",
        "\n".join(f"- {fault}" for fault in run.faults()) or "None.",
        f"`{run.line()}`",
    ]
    return "\n\n".join(parts) + "\n"


def as_json(run: Run) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "versions": dict(run.versions),
        "seconds": round(run.seconds, 1),
        "line": run.line(),
        "faults": run.faults(),
        "questions": [
            dict(zip(("question", "asked", "agreed", "false_fit", "false_nofit"), row, strict=True)) for row in _questions(run)
        ],
        "features": {
            row[0]: dict(zip(("cases", "in_passing", "fit", "nofit", "undecidable"), row[1:6], strict=True))
            for row in _features(run)
        },
        "undecidable_reasons": {reason: number for number, reason in _reasons(run)},
        "mutations": {each.mutation: each.by for each in run.mutations},
        "disagreements": [
            {"case": result.case.seed, "question": each.question, "what": each.what, "detail": each.detail}
            for result, each in run.wrong()
        ],
        "shrunk": dict(run.shrunk),
    }


def _head(run: Run) -> str:
    programs = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    return f"{len(run.results)} cases of seed {run.seed} on {programs}, {len(run.results) / run.seconds:.1f} cases a second."


def _bound(run: Run) -> str:
    answered = sum(1 for result in run.results if result.outcome != UNDECIDABLE)
    if run.wrong() or not answered:
        return f"Disagreements: {len(run.wrong())}."
    return f"No disagreement; by the rule of three the true rate is below {3 / answered:.1e} with 95 % confidence."


def _questions(run: Run) -> list[tuple[str, int, int, int, int]]:
    probes = sum(1 for result in run.results for probe in result.probes if probe.planner != UNDECIDABLE)
    gangs = sum(1 for result in run.results if result.steered is not None)
    refusals = sum(1 for result in run.results if result.refusals)
    rows = []
    for question, asked in (("Q1", probes), ("Q2", gangs), ("Q4", refusals)):
        wrong = Counter(each.what for _, each in run.wrong() if each.question == question)
        rows.append((question, asked, asked - wrong.total(), wrong["false fit"] + wrong["oracle"], wrong["false no-fit"]))
    return rows


def _misses(run: Run) -> str:
    asked = [result.unsteered for result in run.results if result.unsteered is not None]
    missed = sum(1 for text in asked if text)
    return f"{missed} of {len(asked)} were not bound as they should, although they fit ({missed / max(1, len(asked)):.0%})."


def _features(run: Run) -> list[tuple[str, int, int, int, int, int, str]]:
    rows = []
    for feature in run.features():
        some = Counter(result.outcome for result in run.results if result.case.features[0] == feature)
        passing = sum(1 for result in run.results if feature in result.case.features[1:])
        share = f"{run.share(feature):.1%}"
        rows.append((feature, some.total(), passing, some[FIT], some[NO_FIT], some[UNDECIDABLE], share))
    return rows


def _reasons(run: Run) -> list[tuple[int, str]]:
    """The most frequent ones, without the names of a case."""
    found = Counter(
        reason.replace(result.standing, "…")[:160]
        for result in run.results
        if result.outcome == UNDECIDABLE
        for reason in result.reasons[:1]
    )
    return [(number, reason) for reason, number in found.most_common(12)]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines)
