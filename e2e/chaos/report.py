"""The report of a run, for people and for programs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.chaos.judge import Ledger, Verdict
from e2e.chaos.schedule import Strike


@dataclass(frozen=True)
class Report:
    """`seconds` is the whole run, its end included; `looks` how often the cluster was looked at; `failed` are strikes
    that could not be made.
    """

    seed: int
    minutes: float
    seconds: float
    looks: int
    strikes: Sequence[Strike]
    verdict: Verdict
    left_over: Sequence[str]
    failed: Sequence[str]
    machines: int
    told: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        return [*self.verdict.wrong, *self.left_over, *self.failed]

    @property
    def line(self) -> str:
        """The last line of a run."""
        found = self.verdict
        return (
            f"gangs={found.gangs} able={found.able} excused={found.excused} admitted_once={found.admitted_once} "
            f"harmed={found.harmed} left_over={len(self.left_over)}"
        )


def write(path: Path, report: Report, ledger: Ledger) -> None:
    """Both files; `path` has no ending. The last run of each seed stays on the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = _kept(path.with_suffix(".json"))
    kept[str(report.seed)] = {**asdict(report), "line": report.line, "wrong": report.wrong, "gangs": _gangs(ledger)}
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(_PAGE + "\n".join(map(_section, kept.values())), encoding="utf-8")


def _kept(path: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _gangs(ledger: Ledger) -> list[dict[str, object]]:
    return [
        {
            **asdict(gang),
            "submitted": life.submitted,
            "admitted": [round(at, 1) for at in life.admissions.values()],
            "finished": life.finished,
            "pods": len(life.pods),
        }
        for gang, life in ((gang, ledger.lives[name]) for name, gang in ledger.gangs.items())
    ]


def _section(run: dict[str, object]) -> str:
    strikes, wrong = run["strikes"], run["wrong"]
    assert isinstance(strikes, list)
    assert isinstance(wrong, list)
    kinds = Counter(each["kind"] for each in strikes)
    table = "\n".join(f"| {kind} | {count} |" for kind, count in sorted(kinds.items()))
    faults = "\n".join(f"- {each}" for each in wrong) or "Nothing was wrong."
    counts = f"{len(strikes)} faults, {run['machines']} machines bought, {run['looks']} looks at the cluster"
    title = f"## Seed {run['seed']}, {run['minutes']} minutes"
    head = f"\n{title}\n\n`{run['line']}`\n\n{counts}, {run['seconds']:.0f} s in all.\n"
    return f"{head}\n| fault | times |\n| --- | --- |\n{table}\n\n{faults}\n"


_PAGE = """# Chaos on the real control plane

Written by `make chaos`. etcd, kube-apiserver, kube-scheduler, kube-controller-manager, Kueue and kwok, two replicas of each
service, and the simulated cloud as a process of its own; a seeded stream of gangs beside two seeded streams of faults. Every look
at the cluster is judged: a gang that could run must be admitted once, with all of its nodes sound, run whole and finish; no pod
may be lost by our doing; in the end nothing may be left over, and the machines of another installation in the account must all be
there. `able` are gangs that could run; `excused` those whose life a restored etcd snapshot has cut, of which only harm is judged.
"""
