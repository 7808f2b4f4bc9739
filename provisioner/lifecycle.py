"""The life of a booking as one table: rules, tried from the top, and the first that applies says the one next step. Pure.

`python -m provisioner.lifecycle` writes the table and its diagram into docs/lifecycle.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kube.ours import Booking
from provisioner import rules
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
    Rule("mark", ("Marking",), rules.mark),
    Rule("note-marks", ("Marking",), rules.note_marks),
    Rule("settle", ("Marking",), rules.settle),
    Rule("begin-buying", ("Marking",), rules.begin_buying, to="Launching"),
    Rule("fall-short", ("Launching",), rules.fall_short, to="Failing"),
    Rule("first-pod", ("Provisioned",), rules.first_pod),
    Rule("watch-idle", ("Provisioned",), rules.watch_idle),
    Rule("finish", ("Provisioned",), rules.finish, to="Releasing"),
    Rule("withdraw", ("Provisioned",), rules.withdraw, to="Releasing"),
    Rule("expire", ("Provisioned",), rules.expire, to="Releasing"),
    Rule("note-losses", ("Provisioned",), rules.note_losses),
    Rule("mark-joined", ("Joining", "Provisioned"), rules.mark),
    Rule("quarantine", ("Joining", "Provisioned"), rules.quarantine),
    Rule("buy", ("Launching", "Joining", "Provisioned"), rules.buy),
    Rule("order", ("Launching",), rules.order),
    Rule("begin-joining", ("Launching",), rules.begin_joining, to="Joining"),
    Rule("replace-bad", ("Joining", "Provisioned"), rules.replace_bad),
    Rule("discard", ("Joining", "Provisioned"), rules.discard),
    Rule("prove", ("Joining",), rules.prove, to="Provisioned"),
    Rule("hold-for-pods", _ENDING, rules.hold_for_pods),
    Rule("sort-out", _ENDING, rules.sort_out),
    Rule("unmark", _ENDING, rules.unmark),
    Rule("hand-over", _ENDING, rules.hand_over),
    Rule("settle-calls", ("Provisioned", *_ENDING), rules.settle_calls),
    Rule("terminate", ("Joining", "Provisioned", *_ENDING, *ENDED), rules.terminate),
    Rule("poll", (*_ENDING, *ENDED), rules.poll),
    Rule("released", ("Releasing",), rules.released, to="Released"),
    Rule("failed", ("Failing",), rules.failed, to="Failed"),
    Rule("drop", ENDED, rules.drop),
    Rule("wait-for-nodes", ("Joining",), rules.wait_for_nodes),
    Rule("keep-watch", ("Provisioned",), rules.keep_watch),
)
