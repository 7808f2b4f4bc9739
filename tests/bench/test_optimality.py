"""Each wrong answer is called by its name, whatever the planner says by itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.agreement.cases import ID, Case, Offering, PodSet, node, template
from bench.optimality import judge
from bench.optimality.instances import MOST_PODS, MOST_SITES, RULES, Instance, instance
from bench.optimality.judge import Verdict
from bench.optimality.report import Tally
from capacity.model import Outcome, Plan, Purchase, Reason, Shortfall, Undecidable, Use

GPU = "example.com/gpu"


def one(*, free: int = 0, ceiling: int | None = None) -> Instance:
    """Two pods of 4 devices and one of 8; free nodes of 8, and one more node of 8 for 5, two for 9."""
    sets = [PodSet("small", 2, template({GPU: "4"})), PodSet("big", 1, template({GPU: "8"}))]
    offers = [Offering(f"at{price}", node("", {GPU: "8", "pods": "9"}), limit, price) for price, limit in ((5, 1), (9, 2))]
    nodes = [node(f"{ID}-n{number}", {GPU: "8", "pods": "9"}) for number in range(free)]
    return Instance(Case(features=["resources"], nodes=nodes, pod_sets=sets, offerings=offers), ceiling)


def told(asked: Instance, monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> Verdict:
    monkeypatch.setattr(judge, "answer", lambda _: outcome)
    return judge.judge(asked).verdict


def planned(asked: Instance, *at: tuple[str, frozenset[str]], cost: int, gap: int = 0) -> Plan:
    """A plan that marks these nodes and offerings."""
    there = judge.snapshot(asked.case)
    nodes, offers = {each.name: each for each in there.nodes}, {each.name: each for each in there.offerings}
    pods = [(name, dict.fromkeys(sorted(marks), 1)) for name, marks in at]
    uses = tuple(Use(nodes[name], marks) for name, marks in pods if name in nodes)
    bought = tuple(Purchase(offers[name], 1, marks) for name, marks in pods if name in offers)
    gang = judge.gang(asked.case)
    return Plan(gang, uses, bought, cost, gap=gap)


SMALL, BIG, BOTH = frozenset({"small"}), frozenset({"big"}), frozenset({"small", "big"})


@pytest.mark.parametrize(
    ("second", "cost", "gap", "verdict"),
    [
        pytest.param("at5", 5, 0, Verdict.OPTIMAL, id="cheapest"),
        pytest.param("at9", 9, 0, Verdict.TOO_DEAR, id="dearer"),
        pytest.param("at9", 9, 3, Verdict.TOO_DEAR, id="gap-too-narrow"),
        pytest.param("at9", 9, 4, Verdict.COVERED, id="gap-just-wide-enough"),
        pytest.param("at9", 5, 0, Verdict.MISPRICED, id="cost-is-not-what-it-costs"),
    ],
)
def test_cost(second: str, cost: int, gap: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one(free=1)
    found = planned(asked, (f"{ID}-n0", SMALL), (second, BIG), cost=cost, gap=gap)
    assert told(asked, monkeypatch, found) is verdict


def test_a_plan_that_needs_luck_is_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one(free=1)
    assert told(asked, monkeypatch, planned(asked, (f"{ID}-n0", BOTH), ("at5", BOTH), cost=5)) is Verdict.UNSAFE


def test_a_plan_above_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one(free=1, ceiling=8)
    assert told(asked, monkeypatch, planned(asked, (f"{ID}-n0", SMALL), ("at9", BIG), cost=9)) is Verdict.MISPRICED


@pytest.mark.parametrize(
    ("ceiling", "fits", "undecided"),
    [
        pytest.param(14, Verdict.FALSE_NO_FIT, Verdict.MISSED, id="just-enough"),
        pytest.param(13, Verdict.NO_FIT, Verdict.UNDECIDED_NO_FIT, id="one-too-little"),
    ],
)
def test_no_plan(ceiling: int, fits: Verdict, undecided: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one(ceiling=ceiling)
    assert told(asked, monkeypatch, Shortfall(Reason.GANG_INCOMPLETE, "too few")) is fits
    assert told(asked, monkeypatch, Undecidable(("who knows",))) is undecided


def test_the_planner_itself() -> None:
    assert judge.judge(one(free=1)).verdict is Verdict.OPTIMAL


def test_instances_are_small_and_know_every_rule() -> None:
    every = [instance(1, number) for number in range(300)]
    assert max(sum(pod_set.count for pod_set in each.case.pod_sets) for each in every) == MOST_PODS
    sites = [len(each.case.nodes) + sum(offering.limit for offering in each.case.offerings) for each in every]
    assert max(sites) == MOST_SITES
    assert {name for each in every for name in each.case.features} == {*RULES, "resources", "ceiling"}
    assert instance(1, 7) == instance(1, 7)


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(seed=3)
    for asked, outcome in ((one(free=1), None), (one(), Undecidable(("who knows; really",)))):
        if outcome is not None:
            monkeypatch.setattr(judge, "answer", lambda _, said=outcome: said)
        tally.add(asked, judge.judge(asked))
    tally.write(tmp_path / "found")
    line = "cases=2 optimal=1 covered_by_gap=0 nofit=0 undecidable=1 missed=1 wrong=0"
    assert tally.line() == line
    assert (tmp_path / "found.md").read_text().endswith(f"`{line}`\n")
    assert json.loads((tmp_path / "found.json").read_text())["reasons_of_undecidable"] == {"who knows": 1}


def test_a_wrong_answer_is_kept_with_what_is_needed_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one(free=1)
    asked = replace(asked, case=replace(asked.case, seed="3/14"))
    monkeypatch.setattr(judge, "answer", lambda _: planned(asked, (f"{ID}-n0", SMALL), ("at9", BIG), cost=9))
    tally = Tally(seed=3)
    tally.add(asked, judge.judge(asked))
    assert tally.wrong == 1
    assert tally.kept[0] | {"features": []} == {
        "seed": "3/14",
        "verdict": Verdict.TOO_DEAR,
        "features": [],
        "answer": "cost 9, gap 0",
        "best": 5,
        "least": 5,
        "ceiling": None,
    }
