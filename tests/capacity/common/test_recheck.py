"""A plan that was tampered with does not stand; what stands, stands up to the proof from records, too."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from capacity.common import quick
from capacity.common.recheck import stands
from capacity.index.fleet import Fleet
from capacity.model import ZONE, Budget, CapacityType, Gang, Plan, Preferences, Snapshot, Use
from capacity.proof.prove import prove
from capacity.requirements import Taint
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

AT = {ZONE: "a", RACK: "r"}
Problem = tuple[Gang, Snapshot, Plan]


def problem() -> Problem:
    """Two nodes of the rack and two bought in it for 4 pods, one each; other nodes are full, elsewhere, tainted or booked."""
    there = [
        node("n1", labels=AT),
        node("n2", labels=AT),
        node("full", labels=AT, used=8),
        node("far", labels={ZONE: "a", RACK: "other"}),
        node("tainted", labels=AT, taints=(Taint("t", "NoSchedule"),)),
        node("booked", labels=AT, booked_by="b"),
        node("ending", labels=AT, ends=50),
        node("queued", labels=AT, capacity_type=CapacityType.QUEUED),
    ]
    here = snapshot(*there, offering("od", 3, 10, domain=AT), offering("shut", 0, 10, domain=AT))
    stock = Fleet(here.nodes).stock()
    here = replace(here, nodes=stock.nodes, stock=stock, budgets=(Budget("nodes", {"od": 1}, 2, 2),))
    asked = gang(pods("w", 4, required_topology=RACK))
    settled = quick.answer(asked, here, ANY)
    assert settled is not None
    assert settled.plan is not None
    return asked, here, settled.plan


def standing(asked: Gang, here: Snapshot, plan: Plan, preferences: Preferences = ANY) -> bool:
    assert here.stock is not None
    rows = np.array([here.stock.fleet.row(use.node.name) for use in plan.uses], np.int64)
    return stands(plan, rows, asked.pod_sets[0], here.stock, here, preferences)


def used(name: str) -> Callable[[Problem], Plan]:
    """The plan with another node in the place of its first."""

    def change(given: Problem) -> Plan:
        _, here, plan = given
        other = next(one for one in here.nodes if one.name == name)
        return replace(plan, uses=(Use(other, {"w": 1}), *plan.uses[1:]))

    return change


def bought(name: str, count: int, slots: int) -> Callable[[Problem], Plan]:
    def change(given: Problem) -> Plan:
        _, here, plan = given
        other = next(one for one in here.offerings if one.name == name)
        return replace(
            plan, purchases=(replace(plan.purchases[0], offering=other, count=count, pods={"w": slots}),), cost=10 * count
        )

    return change


def test_the_plan_as_it_is_stands() -> None:
    asked, here, plan = problem()
    assert [use.node.name for use in plan.uses] == ["n1", "n2"]
    assert [(one.offering.name, one.count) for one in plan.purchases] == [("od", 2)]
    assert standing(asked, here, plan)
    assert prove(plan, here, ANY) == ()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(used("n2"), id="a node twice"),
        pytest.param(used("full"), id="no room"),
        pytest.param(used("far"), id="another domain"),
        pytest.param(used("tainted"), id="a taint"),
        pytest.param(used("booked"), id="a booked node"),
        pytest.param(used("ending"), id="a node that goes away"),
        pytest.param(used("queued"), id="a type that the policy leaves out"),
        pytest.param(lambda given: replace(given[2], uses=given[2].uses[1:]), id="too few slots"),
        pytest.param(
            lambda given: replace(given[2], uses=(Use(given[2].uses[0].node, {"w": 2}), *given[2].uses[1:])), id="too many pods"
        ),
        pytest.param(
            lambda given: replace(given[2], uses=(Use(replace(given[2].uses[0].node), {"w": 1}), *given[2].uses[1:])),
            id="a node that is not of the snapshot",
        ),
        pytest.param(lambda given: replace(given[2], cost=19), id="another price"),
        pytest.param(lambda given: replace(given[2], domains={RACK: "other"}), id="another name of the domain"),
        pytest.param(bought("od", 3, 1), id="a shared limit"),
        pytest.param(bought("od", 2, 2), id="too many pods on a new node"),
        pytest.param(bought("shut", 2, 1), id="nothing there"),
    ],
)
def test_a_plan_that_was_changed_does_not(change: Callable[[Problem], Plan]) -> None:
    given = problem()
    asked, here, _ = given
    assert not standing(asked, here, change(given))


def test_more_than_there_is() -> None:
    given = problem()
    asked, here, _ = given
    assert standing(asked, replace(here, budgets=()), bought("od", 3, 1)(given))
    assert not standing(asked, replace(here, budgets=()), bought("od", 4, 1)(given))


def test_a_price_ceiling() -> None:
    asked, here, plan = problem()
    assert standing(asked, here, plan, Preferences(price_ceiling=20))
    assert not standing(asked, here, plan, Preferences(price_ceiling=19))


def test_a_required_level_that_the_plan_does_not_name() -> None:
    asked, here, plan = problem()
    assert not standing(asked, here, replace(plan, domains={}))
