"""The report of a run, for people and for programs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from e2e.chaos.judge import Verdict
from e2e.chaos.lives import Ledger
from e2e.chaos.schedule import Strike


@dataclass(frozen=True)
class Report:
    """`seconds` is the whole run, its end included; `looks` how often the cluster was looked at; `beside` is the verdict on the
    second installation; `failed` are strikes that could not be made; `reused` counts machines that one booking had after
    another, `lost` those that were ended under a running gang.
    """

    seed: int
    minutes: float
    seconds: float
    looks: int
    strikes: Sequence[Strike]
    verdict: Verdict
    beside: Verdict
    left_over: Sequence[str]
    failed: Sequence[str]
    machines: int
    reused: int
    lost: int
    told: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        theirs = [f"second installation: {each}" for each in self.beside.wrong]
        return [*self.verdict.wrong, *theirs, *self.left_over, *self.failed]

    @property
    def line(self) -> str:
        """The last line of a run."""
        found = self.verdict
        return (
            f"gangs={found.gangs} able={found.able} excused={len(found.excused)} admitted_once={found.admitted_once} "
            f"harmed={found.harmed + self.beside.harmed} left_over={len(self.left_over)}"
        )


def write(path: Path, report: Report, ledger: Ledger) -> None:
    """Both files; `path` has no ending. The last run of each seed and length stays on the page, with the `notes` that somebody
    wrote to it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = _kept(path.with_suffix(".json"))
    whole = {**asdict(report), "line": report.line, "wrong": report.wrong, "gangs": _gangs(ledger)}
    kept[f"seed {report.seed}, {report.minutes} minutes"] = whole
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(_PAGE + "\n".join(map(_section, kept.values())), encoding="utf-8")


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
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


def _section(run: Mapping[str, Any]) -> str:
    kinds = Counter(each["kind"] for each in run["strikes"])
    table = "\n".join(f"| {kind} | {count} |" for kind, count in sorted(kinds.items()))
    excuses = "".join(f"\n- Excused: {name}: {words}." for name, words in run["verdict"]["excused"].items())
    faults = "\n".join(f"- {each}" for each in run["wrong"]) or "Nothing was wrong."
    counts = (
        f"{len(run['strikes'])} faults, {run['machines']} machines bought, {run['reused']} times one went from gang to gang, "
        f"{run['lost']} ended under a running gang; {run['looks']} looks at the cluster, {run['seconds']:.0f} s in all."
    )
    theirs = "The second installation: gangs={gangs} admitted_once={admitted_once} harmed={harmed}.".format(**run["beside"])
    title = f"## Seed {run['seed']}, {run['minutes']} minutes"
    notes = "".join(f"\n{each}\n" for each in run.get("notes", ()))
    head = f"\n{title}\n\n`{run['line']}`\n\n{counts} {theirs}\n{notes}{excuses}\n"
    return f"{head}\n| fault | times |\n| --- | --- |\n{table}\n\n{faults}\n"


_PAGE = """# Chaos on the real control plane

Written by `make chaos`. etcd, kube-apiserver, kube-scheduler, kube-controller-manager, Kueue and kwok, two replicas of each
service, and the simulated cloud as a process of its own; a seeded stream of gangs beside two seeded streams of faults. A second
installation with a control plane of its own buys in the same account, from the same reservation, for gangs of its own, and idle
machines of a third are there. Every look at both clusters is judged: a gang that could run must be admitted once, with all of its
nodes sound, run whole and finish, also if its request is deleted or one of its machines dies meanwhile; no pod may be lost by our
doing; in the end nothing may be left over, and the third one's machines must all be there. `able` are gangs that could run.

A restored etcd snapshot makes every gang again what it was then, and it is judged on from there, and on what it had been until
then; users submit once more what is gone. `excused` are the gangs that were over before the restore though not in the snapshot:
they are back without their machines, and are judged on their first life alone.
"""
