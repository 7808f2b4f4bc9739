"""The life of a booking as one table: rules, tried from the top, and the first that applies says the one next step. Pure.

`python -m provisioner.lifecycle` writes the table and its diagram into docs/lifecycle.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kube.ours import Booking
from provisioner import calls, rules
from provisioner.ending import endings
from provisioner.repairing import restoring
from provisioner.steps import BEFORE, ENDED, Observed, Step, Terms, View

Try = Callable[[View], Step | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Applies in `phases`; `step` gives None when it has nothing to do. `to` names the phase that it leads to, "" if it stays."""

    name: str
    phases: tuple[str, ...]
    step: Try
    to: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    rule: str
    step: Step


def next_step(booking: Booking, seen: Observed, now: datetime, terms: Terms | None = None) -> Decision:
    """The one thing to do next. Deterministic; all memory is in the booking's status and in what is seen."""
    view = View(booking, seen, now, terms or Terms())
    for rule in RULES:
        if view.status.phase in rule.phases:
            step = rule.step(view)
            if step is not None:
                return Decision(rule.name, step)
    raise AssertionError(f"no rule for phase {view.status.phase}")


_ENDING = ("Failing", "Releasing")

RULES: tuple[Rule, ...] = (
    Rule("record", ("Launching", "Joining", "Provisioned", *_ENDING, *ENDED), rules.record),
    Rule("cancel", BEFORE, rules.cancel, to="Failing"),
    Rule("lose-node", BEFORE, rules.lose_node, to="Failing"),
    Rule("time-out", BEFORE, rules.time_out, to="Failing"),
    Rule("shut-out", ("Marking", "Launching"), rules.shut_out, to="Failing"),
    Rule("take-over", ("Marking",), rules.take_over),
    Rule("mark", ("Marking",), rules.mark),
    Rule("note-marks", ("Marking",), rules.note_marks),
    Rule("settle", ("Marking",), rules.settle),
    Rule("begin-buying", ("Marking",), rules.begin_buying, to="Launching"),
    Rule("fall-short", ("Launching",), rules.fall_short, to="Failing"),
    Rule("first-pod", ("Provisioned",), rules.first_pod),
    Rule("watch-idle", ("Provisioned",), rules.watch_idle),
    Rule("finish", ("Provisioned",), rules.finish, to="Releasing"),
    Rule("withdraw", ("Provisioned",), rules.withdraw, to="Releasing"),
    Rule("forsake", ("Provisioned",), endings.forsake, to="Releasing"),
    Rule("expire", ("Provisioned",), rules.expire, to="Releasing"),
    Rule("ask-anew", ("Provisioned",), endings.ask_anew, to="Releasing"),
    Rule("note-losses", ("Provisioned",), rules.note_losses),
    Rule("mark-joined", ("Joining", "Provisioned"), rules.mark),
    Rule("quarantine", ("Joining", "Provisioned"), rules.quarantine),
    Rule("begin-drain", ("Provisioned",), rules.begin_drain),
    Rule("repeat", ("Provisioned",), rules.repeat),
    Rule("buy", ("Launching", "Joining", "Provisioned"), rules.buy),
    Rule("order", ("Launching",), rules.order),
    Rule("begin-joining", ("Launching",), rules.begin_joining, to="Joining"),
    Rule("stand-in", ("Provisioned",), restoring.stand_in),
    Rule("let-go", ("Provisioned",), restoring.let_go),
    Rule("replace-bad", ("Joining", "Provisioned"), rules.replace_bad),
    Rule("discard", ("Joining", "Provisioned"), rules.discard),
    Rule("check-up", ("Joining", "Provisioned"), rules.check_up),
    Rule("prove", ("Joining",), rules.prove, to="Provisioned"),
    Rule("warn-late", _ENDING, endings.warn_late),
    Rule("hold-for-pods", _ENDING, endings.hold_for_pods),
    Rule("hold-for-kueue", ("Releasing",), endings.hold_for_kueue),
    Rule("pass-on", ("Releasing",), endings.pass_on),
    Rule("offer", ("Releasing",), endings.offer),
    Rule("sort-out", _ENDING, endings.sort_out),
    Rule("unmark", _ENDING, endings.unmark),
    Rule("hand-over", _ENDING, endings.hand_over),
    Rule("settle-calls", ("Provisioned", *_ENDING), endings.settle_calls),
    Rule("terminate", ("Joining", "Provisioned", *_ENDING, *ENDED), rules.terminate),
    Rule("reopen", ("Provisioned",), rules.reopen),
    Rule("drain", ("Joining", "Provisioned", *_ENDING), rules.drain),
    Rule("poll", (*_ENDING, *ENDED), endings.poll),
    Rule("released", ("Releasing",), endings.released, to="Released"),
    Rule("failed", ("Failing",), endings.failed, to="Failed"),
    Rule("drop", ENDED, endings.drop),
    Rule("wait-for-nodes", ("Joining",), rules.wait_for_nodes),
    Rule("keep-watch", ("Provisioned",), rules.keep_watch),
)


def page() -> str:
    """The page docs/lifecycle.md: diagram and table, from the rules themselves."""
    moves = [(phase, rule.to, rule.name) for rule in RULES if rule.to for phase in rule.phases]
    arrows = "\n".join(f"    {old} --> {new}: {name}" for old, new, name in moves)
    rows = "\n".join(_row(rule) for rule in RULES)
    listed = "\n".join(f"| {name} | {why} |" for name, why in calls.acting())
    return _PAGE.format(arrows=arrows, rows=rows, calls=listed)


def _row(rule: Rule) -> str:
    words = " ".join((rule.step.__doc__ or "").split())
    return f"| `{rule.name}` | {', '.join(rule.phases)} | {rule.to or 'stays'} | {words} |"


_PAGE = """# The life of a booking

Written by `python -m provisioner.lifecycle`; don't edit. A `Booking` moves by these rules. In each turn the provisioner looks at
the world, and the first rule that applies in the booking's phase names the one thing to do: a write of the status, marks on
nodes, or one cloud call. Every cloud call is written down before it is made, so a crash at any point is followed by the same
end.

```mermaid
stateDiagram-v2
    [*] --> Marking
{arrows}
    Released --> [*]: drop
    Failed --> [*]: drop
```

| rule | in phase | leads to | what it does |
| --- | --- | --- | --- |
{rows}

Before Provisioned everything can still be undone: Failing ends all that costs extra, waits until the cloud confirms it, takes the
marks off, and then says Failed; the request is planned again elsewhere. After Provisioned it is given back if no gang comes
(`expire`, `ask-anew`), but only while it is certain that no pod was let go. From then on only two things together end it: its
workload is certainly over, and no pod selects its nodes. An object that can't be looked up, a cloud that doesn't answer and a
deleted request end nothing, unless the request had said CapacityRevoked and Kueue has let no pod go yet.

## What leaves the process

Besides lists and watches of the kinds that it reads, the provisioner makes these calls and none other. `make faults` breaks each
of them in every way that is known: the process dies before or after it, its answer is lost or late, it is refused with each class
of error, or it goes on after the caller gave up on it.

| call | what for |
| --- | --- |
{calls}

For tests of crashes: with `CORRAL_CRASH_AT=<rule>` in the provisioner's environment it dies right after the action of that rule
(`buy`, `terminate`, `drain`, `mark`, `unmark`, `quarantine`, or a rule that writes) and before it writes down what came of it.
"""


if __name__ == "__main__":
    Path("docs/lifecycle.md").write_text(page(), encoding="utf-8")
