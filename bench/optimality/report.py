"""The counts of a run as markdown and JSON, and in one line."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.optimality.instances import Instance
from bench.optimality.judge import WRONG, Judged, Verdict
from capacity.model import Plan, Shortfall, Undecidable

_SHOWN = 20


@dataclass
class Tally:
    """Of all instances so far; `kept` holds those that are wrong or missed, with all that is needed to see why."""

    seed: int
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    features: dict[str, Counter[Verdict]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    kept: list[dict[str, Any]] = field(default_factory=list)
    luck: int = 0
    gaps: list[int] = field(default_factory=list)
    too_big: int = 0
    seconds: float = 0.0

    def add(self, instance: Instance, judged: Judged) -> None:
        self.verdicts[judged.verdict] += 1
        for feature in instance.case.features:
            self.features.setdefault(feature, Counter())[judged.verdict] += 1
        self.luck += judged.least is not None and judged.best != judged.least
        if judged.verdict is Verdict.COVERED and isinstance(judged.outcome, Plan):
            self.gaps.append(judged.outcome.gap)
        if isinstance(judged.outcome, Undecidable):
            self.reasons[judged.outcome.reasons[0].split(";")[0]] += 1
        if judged.verdict in WRONG or judged.verdict is Verdict.MISSED:
            self.kept.append(_kept(instance, judged))

    @property
    def total(self) -> int:
        return sum(self.verdicts.values())

    @property
    def wrong(self) -> int:
        return sum(self.verdicts[verdict] for verdict in WRONG)

    def line(self) -> str:
        v = self.verdicts
        undecided = sum(v[each] for each in (Verdict.UNDECIDED, Verdict.UNDECIDED_NO_FIT, Verdict.MISSED))
        return (
            f"cases={self.total} optimal={v[Verdict.OPTIMAL]} covered_by_gap={v[Verdict.COVERED]} nofit={v[Verdict.NO_FIT]} "
            f"undecidable={undecided} missed={v[Verdict.MISSED]} wrong={self.wrong}"
        )

    def write(self, path: Path) -> None:
        """`path` without its ending."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(self._data(), indent=1) + "\n")
        path.with_suffix(".md").write_text("\n".join(self._markdown()) + "\n")

    def _data(self) -> dict[str, Any]:
        return {
            "line": self.line(),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "verdicts": {verdict: self.verdicts[verdict] for verdict in Verdict},
            "features": {name: dict(sorted(counts.items())) for name, counts in sorted(self.features.items())},
            "reasons_of_undecidable": dict(self.reasons.most_common()),
            "promise_dearer_than_luck": self.luck,
            "gaps": sorted(self.gaps),
            "too_big": self.too_big,
            "kept": self.kept,
        }

    def _markdown(self) -> list[str]:
        lines = [
            "# Is a plan the cheapest that can be promised?",
            "",
            f"Seed {self.seed}, {self.total} random instances of at most 5 nodes and 8 pods, {self.seconds:.0f} s.",
            "What can be promised, and at what least cost, is found by trying all purchases and all marks, and following every",
            "order and every choice that kube-scheduler has (`bench/agreement/oracle.py`, no code of which is the planner's).",
            "",
            "    make bench-optimality",
            "",
            f"In {self.luck} instances a promise costs more than luck, or isn't to be had where luck would do.",
            "",
            "| answer | instances |",
            "| --- | ---: |",
            *(f"| {verdict}{' (wrong)' if verdict in WRONG else ''} | {self.verdicts[verdict]} |" for verdict in Verdict),
            "",
            "| feature | instances | plans | no fit | undecidable | missed | wrong |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(_row(name, counts) for name, counts in sorted(self.features.items())),
        ]
        if self.reasons:
            lines += ["", "| why undecidable | instances |", "| --- | ---: |"]
            lines += [f"| {reason} | {count} |" for reason, count in self.reasons.most_common(_SHOWN)]
        if self.kept:
            lines += ["", "| instance | answer | best | features |", "| --- | --- | ---: | --- |"]
            lines += [f"| {k['seed']} | {k['verdict']} | {k['best']} | {', '.join(k['features'])} |" for k in self.kept[:_SHOWN]]
        return [*lines, "", f"`{self.line()}`"]


def _row(name: str, counts: Counter[Verdict]) -> str:
    undecided = counts[Verdict.UNDECIDED] + counts[Verdict.UNDECIDED_NO_FIT] + counts[Verdict.MISSED]
    plans = counts[Verdict.OPTIMAL] + counts[Verdict.COVERED]
    wrong = sum(counts[verdict] for verdict in WRONG)
    columns = (sum(counts.values()), plans, counts[Verdict.NO_FIT], undecided, counts[Verdict.MISSED], wrong)
    return f"| {name} | {' | '.join(map(str, columns))} |"


def _kept(instance: Instance, judged: Judged) -> dict[str, Any]:
    return {
        "seed": instance.case.seed,
        "verdict": judged.verdict,
        "features": instance.case.features,
        "answer": _said(judged.outcome),
        "best": judged.best,
        "least": judged.least,
        "ceiling": instance.ceiling,
    }


def _said(outcome: Plan | Shortfall | Undecidable) -> str:
    if isinstance(outcome, Plan):
        return f"cost {outcome.cost}, gap {outcome.gap}"
    return outcome.message if isinstance(outcome, Shortfall) else "; ".join(outcome.reasons)
