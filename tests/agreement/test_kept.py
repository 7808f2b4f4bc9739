"""The planner's side of the kept cases, held against what the real scheduler did with them."""

import pytest

from bench.agreement.kept import Kept, load
from bench.agreement.planner import answer
from bench.agreement.results import kind
from bench.agreement.waves import ask_planner

KEPT = load()


def test_there_are_enough() -> None:
    assert len(KEPT) >= 10


@pytest.mark.parametrize("kept", [pytest.param(kept, id=name) for name, kept in KEPT.items()])
def test_the_planner_agrees_with_the_recorded_verdicts(kept: Kept) -> None:
    for number, node in enumerate(kept.probes):
        probe = ask_planner(kept.case, number)
        probe.node = node
        assert probe.disagreement() is None, f"{kept.why}: {probe}"

    if kept.outcome:
        assert kind(answer(kept.case)) == kept.outcome, kept.why
