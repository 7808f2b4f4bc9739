"""Limits that several offerings share hold for their sum. The planner is the real one; a pod takes a node."""

from dataclasses import replace

from capacity.model import ZONE, CapacityType, Gang, Offering, Plan, PodSet, Preferences, Shape, Shortfall, Snapshot
from capacity.plan import plan
from provisioner.room import Budget, Room, taken
from tests.provisioner.make import ROOM

PREFERENCES = Preferences()


def offering(name: str, available: int, price: int = 10) -> Offering:
    shape = Shape("h100", ROOM)
    return Offering(name, "p", "od", shape, CapacityType.ON_DEMAND, available, available, price, {ZONE: name})


def gang(count: int) -> Gang:
    return Gang("g", (PodSet("main", count, {"nvidia.com/gpu": 8, "pods": 1}),))


def room(left: int, *offerings: Offering, whole: int = 8) -> Room:
    weight = {each.name: 1 for each in offerings}
    return Room(Snapshot(now=0, offerings=offerings), (Budget("onDemandNodes 8", weight, left, whole),))


def test_a_plan_within_the_limit_stands() -> None:
    found = room(4, offering("a", 2), offering("b", 2)).plan(gang(4), PREFERENCES, plan)
    assert isinstance(found, Plan)
    assert sum(purchase.count for purchase in found.purchases) == 4


def test_the_sum_may_not_pass_the_limit() -> None:
    found = room(3, offering("a", 2), offering("b", 2)).plan(gang(4), PREFERENCES, plan)
    assert isinstance(found, Shortfall)
    assert not found.hopeless
    assert found.message.endswith("LimitExceeded: onDemandNodes 8")


def test_what_no_limit_holds_for_fills_up() -> None:
    free = offering("free", 2, price=99)
    base = room(3, offering("a", 2), offering("b", 2))
    both = replace(base, snapshot=replace(base.snapshot, offerings=(*base.snapshot.offerings, free)))
    found = both.plan(gang(5), PREFERENCES, plan)
    assert isinstance(found, Plan)
    assert taken(base.budgets[0], found) == 3


def test_a_limit_that_is_used_up_says_so_at_each_offering() -> None:
    found = room(0, offering("a", 2)).plan(gang(1), PREFERENCES, plan)
    assert isinstance(found, Shortfall)
    assert any("onDemandNodes 8" in finding.detail for finding in found.findings)


def test_a_limit_that_leaves_too_few_nodes_is_named() -> None:
    found = room(1, offering("a", 4)).plan(gang(2), PREFERENCES, plan)
    assert isinstance(found, Shortfall)
    assert found.message.endswith("LimitExceeded: onDemandNodes 8")


def test_a_limit_that_changes_nothing_is_not_named() -> None:
    found = room(4, offering("a", 1)).plan(gang(2), PREFERENCES, plan)
    assert isinstance(found, Shortfall)
    assert "LimitExceeded" not in found.message


def test_a_gang_beyond_the_whole_limit_is_hopeless() -> None:
    found = room(8, offering("a", 20)).plan(gang(9), PREFERENCES, plan)
    assert isinstance(found, Shortfall)
    assert found.hopeless


def test_booking_takes_from_offerings_and_limits() -> None:
    base = room(4, offering("a", 4))
    found = base.plan(gang(3), PREFERENCES, plan)
    assert isinstance(found, Plan)
    after = base.book(found, "b")
    assert (after.snapshot.offerings[0].available, after.budgets[0].left) == (1, 1)


def test_held_places_are_not_there() -> None:
    left = room(8, offering("a", 2), offering("b", 2)).without(frozenset({"a"}), "team/head")
    assert [(o.available, o.unavailable) for o in left.snapshot.offerings] == [(0, "held for team/head"), (2, "")]


def test_a_room_of_other_pools_is_empty() -> None:
    assert room(8, offering("a", 2)).only(frozenset({"q"})).snapshot.offerings == ()
