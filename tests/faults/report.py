"""What a sweep found, on the way and at the end: a line for people, JSON for programs, and the page bench/results/faults.md."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.kinds import KNOWN
from tests.faults.stage import Outcome

KEPT = "\nFour protections"
"""From here on the page is written by hand."""


@dataclass
class Report:
    """Counts of the plays so far, and of their batches. `calls` and `kinds` count faults that came to pass."""

    batches: int = 0
    seconds: float = 0.0
    runs: Counter[str] = field(default_factory=Counter)
    singles: int = 0
    combinations: int = 0
    broken: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.runs[outcome.scene] += 1
        self.singles += len(outcome.faults) == 1
        self.combinations += len(outcome.faults) > 1
        self.broken += bool(outcome.broken)
        self.calls.update(fault.call for fault in outcome.struck)
        self.kinds.update(fault.kind for fault in outcome.struck)

    def __str__(self) -> str:
        """`calls=… faults=… runs=… broken=…`: names of calls struck, faults that came to pass, runs, runs that broke."""
        faults, runs = self.calls.total(), self.runs.total()
        return f"calls={len(self.calls)} faults={faults} runs={runs} broken={self.broken}"

    @classmethod
    def load(cls, figures: Mapping[str, Any]) -> "Report":
        """What `figures` told."""
        counts = {name: figures[name] for name in ("batches", "seconds", "singles", "combinations", "broken")}
        tables = {"runs": "by_scene", "calls": "by_call", "kinds": "by_kind"}
        return cls(**counts, **{name: Counter(figures[table]) for name, table in tables.items()})

    def figures(self, asked: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
        """`whole` is False while plays are still to come."""
        counts = {"calls": len(self.calls), "faults": self.calls.total(), "runs": self.runs.total(), "broken": self.broken}
        more = {"singles": self.singles, "combinations": self.combinations, "listed_calls": len(KNOWN)}
        tables = {"by_scene": self.runs, "by_call": self.calls, "by_kind": self.kinds}
        sorted_ = {name: dict(sorted(table.items())) for name, table in tables.items()}
        not_struck = sorted(KNOWN - self.calls.keys())
        return {
            "asked": asked,
            "whole": whole,
            "seconds": round(self.seconds),
            "batches": self.batches,
            **counts,
            **more,
            **sorted_,
            "not_struck": not_struck,
        }


def write(path: Path, figures: Mapping[str, Any]) -> None:
    """The JSON, and beside it the page of the same name, whose part that is written by hand stays."""
    path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    page = path.with_suffix(".md")
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    _, mark, kept = old.partition(KEPT)
    page.write_text(_page(figures) + mark + kept, encoding="utf-8")


def _page(figures: Mapping[str, Any]) -> str:
    rate = figures["runs"] / max(1, figures["seconds"])
    asked = figures["asked"]
    command = f"python -m tests.faults --runs {asked['runs']} --seed {asked['seed']} --part {asked['part']}"
    counts = " ".join(f"{name}={figures[name]}" for name in ("calls", "faults", "runs", "broken"))
    played = f"{figures['singles']} single faults and {figures['combinations']} pairs and triples in {figures['seconds']} s"
    lines = [
        "# Faults",
        "",
        f"`{command}`: `{counts}`{'' if figures['whole'] else ', not at its end yet'}.",
        "",
        f"{played}, {rate:.1f} runs a second. provisioner/calls.py lists {figures['listed_calls']} calls.",
        "",
        *_table("scene", "runs", figures["by_scene"].items()),
        *_table("call", "faults that came to pass", figures["by_call"].items()),
        *_table("fault", "came to pass", figures["by_kind"].items()),
    ]
    if figures["not_struck"]:
        lines += [f"Not struck: {', '.join(f'`{each}`' for each in figures['not_struck'])}.", ""]
    return "\n".join(lines)


def _table(name: str, counted: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    return [f"| {name} | {counted} |", "| --- | ---: |", *(f"| {key} | {count} |" for key, count in rows), ""]
