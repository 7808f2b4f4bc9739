"""One pass: who goes, who waits, who passes. The planner is the real one; a pod takes a node; 4 a rack, 2 racks, 5 in west."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from capacity.model import ZONE, Bystander, Gang, PodSet, Running
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, PodTerm, Spread, Toleration
from kube import ours
from provisioner.asking.acceptance import Accepted
from provisioner.asking.parameters import terms
from provisioner.clouds.base import ZoneStock
from provisioner.planning.grounds import Grounds
from provisioner.planning.patience import Patience
from provisioner.planning.room import Room
from provisioner.planning.snapshots import room
from provisioner.planning.turns import Candidate, Memo, Pass
from provisioner.telling.outcomes import Book, Next
from provisioner.telling.progress import Failed, ToPlan, Waiting
from tests.provisioner.make import NOW, RACK, inventory, known, policy, pool, reservation, source, view

LATER = NOW + timedelta(hours=1)


def candidate(
    name: str, count: int, *, rack: bool = False, late: bool = False, undecidable: tuple[str, ...] = (), **spec: Any
) -> Candidate:
    agreed = terms({}, lambda _: policy(**spec))

    pods = PodSet(
        "main",
        count,
        {"nvidia.com/gpu": 8, "pods": 1},
        tolerations=(Toleration("gpu", "Exists"),),
        required_topology=RACK if rack else None,
        undecidable=undecidable,
    )
    accepted = Accepted(Gang(f"team/{name}", (pods,)), agreed, f"{count}{rack}{spec}{undecidable}")
    return Candidate(accepted, ToPlan(NOW if late else LATER), NOW - timedelta(hours=3), NOW)


def run(*line: Candidate, pools: tuple[ours.CapacityPool, ...] = (pool(),), free: tuple[int, int] = (4, 4)) -> list[Next]:
    stock = (ZoneStock("h100", "west", 5),)
    there = known(inventory=inventory(reservation(used=8 - sum(free), free=free), stock=stock))
    seen = view(*pools, known={each.metadata.name: there for each in pools})
    ground = room(seen, pools, Grounds())
    heard = {each.metadata.name: NOW for each in pools}
    current = Pass(ground, {each.metadata.name: each.spec.mode for each in pools}, plan, Memo().on(ground), heard)
    found = []
    for each in line:
        outcome = current.turn(each)
        if isinstance(outcome, Book):
            current.book(outcome.plan, each.accepted.gang.name)
        found.append(outcome)
    return found


def kinds(found: list[Next]) -> list[str]:
    return [type(each).__name__ if isinstance(each, Book) else each.reason for each in found]


def test_a_policy_without_a_pool_is_named_and_holds_nobody_up() -> None:
    lost, late, served = run(candidate("a", 1, pools=["q", "r"]), candidate("b", 1, pools=["q"], late=True), candidate("c", 4))
    assert isinstance(lost, Waiting)
    text = "CapacityPolicy default: there is no CapacityPool q, r: create it or correct the name; gives up at 11:00Z (1h left)"
    assert (lost.reason, lost.message) == ("GangIncomplete", text)
    assert isinstance(late, Failed)
    assert late.message.startswith("waited 3h: CapacityPolicy default: there is no CapacityPool q")
    assert isinstance(served, Book)


def test_each_gets_what_the_ones_before_left() -> None:
    found = run(candidate("a", 4, rack=True), candidate("b", 4, rack=True), candidate("c", 1, rack=True))
    assert kinds(found) == ["Book", "Book", "TopologyUnsatisfied"]
    racks = [purchase.offering.domain[RACK] for each in found[:2] if isinstance(each, Book) for purchase in each.plan.purchases]
    assert sorted(racks) == ["a", "b"]


def test_a_gang_that_waits_keeps_its_places() -> None:
    """The head needs 4 in a rack, where 3 are free: the small one behind could take 3, and waits; the one for west passes."""
    head, behind, west = candidate("head", 4, rack=True), candidate("behind", 3, rack=True), candidate("west", 5)
    found = run(head, behind, west, free=(3, 3))
    assert kinds(found) == ["TopologyUnsatisfied", "GangIncomplete", "Book"]
    assert isinstance(found[1], Waiting)
    assert found[1].message.startswith("3 of 3 pods would fit, but team/head is first in turn")


def test_a_hopeless_gang_blocks_nobody() -> None:
    found = run(candidate("giant", 5, rack=True), candidate("small", 4, rack=True))
    assert kinds(found) == ["TopologyUnsatisfied", "Book"]
    assert isinstance(found[0], Waiting)
    assert "it would not fit even if all were free" in found[0].message


class Passes:
    """Passes over one gang that is hopeless, 10 s apart; `kinds` are the outcomes. The cloud is heard anew for each, or not."""

    def __init__(self, asked: Candidate, *sources: ours.Source, unheard: bool = False, **spec: Any) -> None:
        self.asked, self.pools = asked, (pool("p", *sources, **spec),)
        self.patience, self.now, self.kinds = Patience(10), NOW, list[str]()
        self.heard = {} if unheard else {"p": NOW}
        self.last: Next | None = None

    def one(self, free: int = 4, *, there: bool = True, anew: bool = True) -> None:
        if self.heard and anew:
            self.heard = {"p": self.now}
        stock = known(inventory=inventory(reservation(used=8 - free, free=(free, 0)), stock=(ZoneStock("h100", "west", free),)))
        ground = room(view(*self.pools, known={"p": stock} if there else {}), self.pools, Grounds())
        modes = {each.metadata.name: each.spec.mode for each in self.pools}
        adopting = frozenset(each.metadata.name for each in self.pools if each.spec.node_selector)
        current = Pass(ground, modes, plan, Memo(), self.heard, self.patience.on(), adopting)
        self.last = current.turn(replace(self.asked, now=self.now))
        self.kinds.append(type(self.last).__name__)
        self.now += timedelta(seconds=10)


GIANT = candidate("giant", 9, rack=True)


def test_a_hopeless_gang_fails_as_soon_as_that_is_sure() -> None:
    """It holds quota for as long as it waits."""
    passes = Passes(GIANT)
    passes.one()
    assert isinstance(passes.last, Waiting)
    assert passes.last.wake == NOW + timedelta(seconds=10), "not before the cloud was asked again"
    passes.one()
    passes.one()
    assert passes.kinds == ["Waiting", "Waiting", "Failed"]
    assert isinstance(passes.last, Failed)
    assert not passes.last.uncounted
    assert passes.last.reason == "TopologyUnsatisfied"
    assert passes.last.message.startswith("needs 9 pods in one topology.corral.dev/rack")
    assert "it would not fit even if all were free" in passes.last.message


def test_nodes_that_others_bring_may_come_yet() -> None:
    """A whole rack may be down for maintenance: no workload should be given up for that. It fails, for it holds quota."""
    passes = Passes(GIANT, nodeSelector={"matchLabels": {"team": "train"}})
    for _ in range(3):
        passes.one()
    assert isinstance(passes.last, Failed)
    assert passes.last.uncounted
    assert passes.last.message.endswith("others may bring nodes to pool p")


def test_a_cloud_that_does_not_answer_has_not_been_asked() -> None:
    passes = Passes(GIANT)
    for anew in (True, False, False, False, True, False):
        passes.one(anew=anew)
    assert passes.kinds == ["Waiting"] * 6


def test_one_odd_answer_of_a_cloud_fails_nothing() -> None:
    passes = Passes(candidate("fair", 4, rack=True))
    for there in (True, False, False, True, False, False, True):
        passes.one(free=3, there=there)
    assert passes.kinds == ["Waiting"] * 7


def test_a_restart_looks_again_before_it_fails_anything() -> None:
    passes = Passes(GIANT)
    for _ in range(2):
        passes.one()
    passes.patience = Patience(10)
    passes.one()
    assert passes.kinds[-1] == "Waiting"


@pytest.mark.parametrize(
    "passes",
    [
        pytest.param(Passes(GIANT, unheard=True), id="a cloud that was never heard"),
        pytest.param(Passes(GIANT, mode="Observe"), id="pools that only observe"),
        pytest.param(
            Passes(candidate("greedy", 2), source("od"), limits={"onDemandNodes": 1}),
            id="a limit that its owner may lift",
        ),
    ],
)
def test_hopeless_for_now(passes: Passes) -> None:
    for _ in range(9):
        passes.one()
    assert passes.kinds == ["Waiting"] * 9


def test_nothing_is_called_hopeless_before_each_cloud_was_heard() -> None:
    passes = Passes(GIANT, unheard=True)
    passes.one(there=False)
    assert isinstance(passes.last, Waiting)
    assert "; the cloud of pool p wasn't heard yet" in passes.last.message
    assert "would" not in passes.last.message
    passes.heard = {"p": NOW}
    passes.one()
    assert isinstance(passes.last, Waiting)
    assert "it would not fit even if all were free" in passes.last.message
    assert "heard" not in passes.last.message


def test_one_zone_unless_the_policy_allows_to_cross() -> None:
    assert kinds(run(candidate("wide", 13))) == ["TopologyUnsatisfied"]
    assert kinds(run(candidate("wide", 13, crossZone={"policy": "Allow"}))) == ["Book"]


def test_the_deadline_fails_it_for_the_reason_it_waited_for() -> None:
    (found,) = run(candidate("late", 5, rack=True, late=True))
    assert isinstance(found, Failed)
    assert found.reason == "TopologyUnsatisfied"
    assert found.message.startswith("waited 3h: needs 5 pods in one topology.corral.dev/rack; largest has room for 4")


def test_a_plan_comes_before_the_deadline_is_looked_at() -> None:
    assert kinds(run(candidate("late", 4, rack=True, late=True))) == ["Book"]


def test_what_cannot_be_decided_fails_at_once() -> None:
    (found,) = run(candidate("odd", 1, undecidable=("a volume",)))
    assert isinstance(found, Failed)
    assert (found.reason, "main: a volume" in found.message) == ("Undecidable", True)


@pytest.mark.parametrize(
    ("modes", "kind", "text"),
    [
        pytest.param(["Active"], "Book", "", id="active"),
        pytest.param(["Observe"], "GangIncomplete", "would use 0 nodes and buy 4", id="observe"),
        pytest.param(["Observe", "Active"], "Book", "", id="an-active-one-serves"),
        pytest.param(["Paused"], "GangIncomplete", "pool p0 is Paused", id="paused"),
    ],
)
def test_modes(modes: list[str], kind: str, text: str) -> None:
    pools = tuple(pool(f"p{index}", mode=mode) for index, mode in enumerate(modes))
    (found,) = run(candidate("a", 4), pools=pools)
    assert kinds([found]) == [kind]
    assert isinstance(found, Book) or text in found.message


def test_a_policy_keeps_to_its_pools() -> None:
    (found,) = run(candidate("a", 1, pools=["q"]), pools=(pool("p"), pool("q")))
    assert isinstance(found, Book)
    assert {purchase.offering.pool for purchase in found.plan.purchases} == {"q"}


@pytest.mark.parametrize(
    ("more", "plans"),
    [
        pytest.param({}, 1, id="nobody looks at labels"),
        pytest.param({"spreads": (Spread(ZONE, 9, LabelSelector()),)}, 2, id="the gang itself does"),
        pytest.param({"watched": True}, 2, id="a pod that runs does"),
    ],
)
def test_labels_tell_gangs_apart_only_where_a_rule_looks_at_them(more: dict[str, Any], plans: int) -> None:
    calls: list[str] = []

    def counting(gang: Gang, *rest: Any) -> Any:
        calls.append(gang.name)
        return plan(gang, *rest)

    shy = Running("team", {}, (), (PodTerm("rack", LabelSelector((Expression("app", "In", ("x", "y")),)), None),))
    ground = room(view(), (pool(),), Grounds())
    if more.pop("watched", False):
        ground = Room(replace(ground.snapshot, bystanders=(Bystander("n", {}, (shy,)),)))
    current = Pass(ground, {"p": "Active"}, counting, Memo(), {"p": NOW})
    for name in ("x", "y"):
        asked = candidate(name, 9, rack=True)
        [pods] = asked.accepted.gang.pod_sets
        labelled = replace(pods, labels={"app": name}, **more)
        current.turn(replace(asked, accepted=replace(asked.accepted, gang=Gang(f"team/{name}", (labelled,)))))
    assert len(calls) == plans


def test_nothing_is_planned_twice_on_equal_ground() -> None:
    calls = 0

    def counting(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return plan(*args)

    memo, pools = Memo(), (pool(),)
    for _ in range(3):
        seen = view(*pools)
        ground = room(seen, pools, Grounds())
        current = Pass(ground, {"p": "Active"}, counting, memo.on(ground), {"p": NOW})
        for name in ("one", "two"):
            current.turn(candidate(name, 9, rack=True))
    assert calls == 1


def test_what_no_gang_asks_for_any_more_is_forgotten() -> None:
    memo, pools = Memo(), (pool(),)
    seen = view(*pools)
    for count in range(9, 29):
        ground = room(seen, pools, Grounds())
        current = Pass(ground, {"p": "Active"}, plan, memo.on(ground), {"p": NOW})
        for asked in (8, count):
            current.turn(candidate("g", asked, rack=True))
    assert len(memo.known) + len(memo.before) == 4
