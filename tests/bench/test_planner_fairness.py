"""What bench/planner holds against an answer: cost bounds by hand, and breaches that must not pass."""

from dataclasses import replace

import highspy
import pytest

from bench.planner import build, compare, ours
from bench.planner.bound import Bound, bound
from bench.planner.compare import Row
from bench.planner.goals import goals
from bench.planner.peers import Theirs
from bench.planner.problems import ZONE, Ask, Kind, Machine, Offer, Pods, Problem
from bench.planner.report import cells, markdown, record, table
from capacity import model

KINDS = (
    Kind("small", {}, {"cpu": 4_000, "memory": 100, "pods": 9}),
    Kind("large", {}, {"cpu": 10_000, "memory": 100, "pods": 9}),
)
OFFERS = (
    Offer("small", "small", "on-demand", 100, 5, {ZONE: "a"}),
    Offer("large", "large", "on-demand", 100, 9, {ZONE: "a"}),
    Offer("kept", "large", "reserved", 1, 0, {ZONE: "b"}),
)


def ask(count: int, cpu: int = 2_000, name: str = "g", **selector: str) -> Ask:
    return Ask(name, (Pods("w", count, {"cpu": cpu, "memory": 1, "pods": 1}, selector),))


@pytest.mark.parametrize(
    ("gangs", "linear", "integer", "alone"),
    [
        pytest.param((ask(5),), 0, 0, 0, id="the-reservation-is-enough"),
        pytest.param((ask(6),), 2, 5, 5, id="one-pod-more-takes-a-small-node"),
        pytest.param((ask(10),), 9, 9, 9, id="five-more-fill-a-large-one"),
        pytest.param((ask(11, cpu=11_000),), None, None, None, id="no-node-is-large-enough"),
        pytest.param((ask(3), replace(ask(2), name="h")), 0, 0, 5, id="only-shared-nodes-hold-both-for-nothing"),
    ],
)
def test_no_plan_is_cheaper_than_the_bound(
    gangs: tuple[Ask, ...], linear: int | None, integer: int | None, alone: int | None
) -> None:
    problem = Problem("p", gangs, kinds=KINDS, offers=OFFERS)
    assert bound(problem, integer=False).cost == linear
    assert bound(problem, integer=True) == Bound(integer, solved=True)
    assert bound(problem, integer=True, share=False) == Bound(alone, solved=True)


def test_nodes_that_are_there_cost_nothing() -> None:
    node = Machine("n", {}, {"cpu": 4_000, "memory": 9, "pods": 9}, {"cpu": 1_000})
    problem = Problem("p", (ask(6),), (node,), KINDS, OFFERS)
    assert bound(problem, integer=True).cost == 0


def solved(**changes: object) -> Row:
    problem = Problem("p", (ask(6),), kinds=KINDS, offers=OFFERS)
    answer = ours.Ours(ours.planned(ours.snapshot(problem), [ours.gang(ask(6))]), kept=10, again=10)
    theirs = Theirs("karpenter", feasible=True, took=1_000, cost=5)
    row = Row("S3", problem, answer, theirs, linear=bound(problem, integer=False), integer=bound(problem, integer=True))
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def hosts(count: int, change: int) -> Row:
    """A row of S1 that no peer answered; `change` is what one node's change costs."""
    nodes = tuple(Machine(f"n{i}", {}, {"cpu": 4_000, "memory": 9, "pods": 9}, {}) for i in range(count))
    problem = Problem(f"{count} nodes, gang", (ask(1),), nodes)
    return Row("S1", problem, ours.Ours([], kept=4, again=4, change=change), None, mask=1)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({}, "", id="equal"),
        pytest.param({"theirs": Theirs("karpenter", True, 1_000, cost=4)}, "costs 1.2500 times karpenter's", id="costlier"),
        pytest.param({"theirs": Theirs("karpenter", False, 1_000)}, "ours says fits, karpenter the opposite", id="feasibility"),
        pytest.param({"theirs": Theirs("karpenter", False, 1_000, cut_off=True)}, "", id="peer-cut-off"),
        pytest.param({"integer": Bound(6, solved=True)}, "costs less than the integer bound allows", id="bound-above-the-plan"),
        pytest.param({"racks": 1, "fewest": 2}, "in fewer racks than there can be", id="too-few-racks"),
    ],
)
def test_breaches_are_found(changes: dict[str, object], fault: str) -> None:
    found = list(compare.faults(solved(**changes)))
    assert found == [] if not fault else len(found) == 1 and found[0].startswith(fault)


def test_a_gap_that_is_admitted_is_no_breach() -> None:
    row = solved(theirs=Theirs("karpenter", feasible=True, took=1_000, cost=4))
    (plan,) = row.ours.outcomes
    assert isinstance(plan, model.Plan)
    row.ours.outcomes = [replace(plan, gap=1)]
    assert list(compare.faults(row)) == []


def test_a_gang_is_best_alone_on_what_was_left() -> None:
    gangs = (ask(6, name="g"), ask(5, name="h"))
    problem = Problem("p", gangs, kinds=KINDS, offers=OFFERS)
    outcomes = ours.planned(ours.snapshot(problem), [ours.gang(one) for one in gangs])
    assert [outcome.cost for outcome in outcomes if isinstance(outcome, model.Plan)] == [5, 9]
    assert compare.best_alone(problem, outcomes) == 2


def test_all_ways_in_give_the_same_plan_and_are_timed() -> None:
    nodes = tuple(
        Machine(f"n{i}", {ZONE: "a"}, {"cpu": 4_000, "memory": 9, "pods": 9}, {"cpu": 1_000, "pods": 1}) for i in range(9)
    )
    found = ours.measure(Problem("p", (ask(8),), nodes), 2)
    assert found.feasible
    assert min(found.kept, found.again, found.change, found.cold, found.objects) > 0
    assert found.counts.records >= 8
    assert highspy._Highs.__name__ == "_Highs"


def test_the_report_tells_goals_and_faults() -> None:
    row = solved(theirs=Theirs("karpenter", feasible=True, took=1_000, cost=4))
    row.faults = list(compare.faults(row))
    reached = goals([row])
    assert {goal.text: goal.met for goal in reached} == {
        "cost within 1.01 of the linear bound": False,
        "cost equal to the optimum for identical pods": True,
        "never costlier than Karpenter": False,
    }
    text = markdown([row], reached, {"Karpenter": "v1"}, "0.0")
    assert "S3 p: costs 1.2500 times" in text
    assert "| S3 | never costlier than Karpenter | 1.2500 to 1.2500 of its cost in 1 cases | no |" in text
    assert record([row], reached, {}, "0.0")["cases"][0]["cost"] == 5
    assert table([row]).splitlines()[-1].split()[:2] == ["S3", "p"]
    assert cells(row)[-3:-1] == ["0.00", "0.00"]


@pytest.mark.parametrize(
    ("rows", "between"),
    [
        pytest.param(
            [solved(linear=Bound(4, solved=True), integer=Bound(4, solved=True))],
            ["p: 1.2500 of the bound in whole nodes"] * 2,
            id="dearer than it must be",
        ),
        pytest.param([hosts(1, 10), hosts(2, 20), hosts(4, 31)], ["3.1 times as much at 4 as at 1, 3"], id="changes that grow"),
        pytest.param([hosts(1, 10), hosts(4, 30)], [], id="changes that don't"),
    ],
)
def test_a_goal_that_is_missed_says_what_stands_between(rows: list[Row], between: list[str]) -> None:
    missed = [goal.between for goal in goals(rows) if goal.met is False and "peer" not in goal.between]
    assert len(missed) == len(between)
    assert all(text.startswith(start) for text, start in zip(missed, between, strict=True))


def test_a_module_that_is_not_the_pinned_one_is_refused() -> None:
    with pytest.raises(build.UnavailableError, match="is not what"):
        build._verify(build.KARPENTER, "h1:other=")


def test_versions_are_those_of_the_go_modules() -> None:
    assert build.KARPENTER.version == "v1.15.0"
    assert build.AUTOSCALER.path.name == "autoscaler"
