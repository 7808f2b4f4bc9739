"""Limits that several offerings share hold for their sum. The planner is the real one; a pod takes a node."""

from dataclasses import replace

from capacity.model import (
    ZONE,
    Budget,
    Bystander,
    CapacityType,
    Gang,
    Node,
    Offering,
    Outcome,
    Plan,
    PodSet,
    Preferences,
    ReservationUse,
    Running,
    Shape,
    Shortfall,
    Snapshot,
)
from capacity.plan import plan
from capacity.snapshot import taken
from provisioner.planning.room import Room
from tests.provisioner.make import ROOM

PREFERENCES = Preferences()


def offering(name: str, available: int, price: int = 10) -> Offering:
    shape = Shape("h100", ROOM)
    return Offering(name, "p", "od", shape, CapacityType.ON_DEMAND, available, available, price, {ZONE: name})


def gang(count: int) -> Gang:
    return Gang("g", (PodSet("main", count, {"nvidia.com/gpu": 8, "pods": 1}),))


def room(left: int, *offerings: Offering, whole: int = 8) -> Room:
    weight = {each.name: 1 for each in offerings}
    return Room(Snapshot(now=0, offerings=offerings, budgets=(Budget("onDemandNodes 8", weight, left, whole),)))


def planned(where: Room, count: int) -> Outcome:
    return plan(gang(count), where.snapshot, PREFERENCES)


def test_a_plan_within_the_limit_stands() -> None:
    found = planned(room(4, offering("a", 2), offering("b", 2)), 4)
    assert isinstance(found, Plan)
    assert sum(purchase.count for purchase in found.purchases) == 4


def test_the_sum_may_not_pass_the_limit() -> None:
    found = planned(room(3, offering("a", 2), offering("b", 2)), 4)
    assert isinstance(found, Shortfall)
    assert not found.hopeless
    assert found.message.endswith("LimitExceeded: onDemandNodes 8")


def test_what_no_limit_holds_for_fills_up() -> None:
    free = offering("free", 2, price=99)
    base = room(3, offering("a", 2), offering("b", 2))
    both = replace(base, snapshot=replace(base.snapshot, offerings=(*base.snapshot.offerings, free)))
    found = planned(both, 5)
    assert isinstance(found, Plan)
    assert taken(base.snapshot.budgets[0], found) == 3


def test_a_limit_that_is_used_up_says_so_at_each_offering() -> None:
    found = planned(room(0, offering("a", 2)), 1)
    assert isinstance(found, Shortfall)
    assert any("onDemandNodes 8" in finding.detail for finding in found.findings)


def test_a_limit_that_leaves_too_few_nodes_is_named() -> None:
    found = planned(room(1, offering("a", 4)), 2)
    assert isinstance(found, Shortfall)
    assert found.message.endswith("LimitExceeded: onDemandNodes 8")


def test_a_limit_that_changes_nothing_is_not_named() -> None:
    found = planned(room(4, offering("a", 1)), 2)
    assert isinstance(found, Shortfall)
    assert "LimitExceeded" not in found.message


def test_a_gang_beyond_the_whole_limit_is_hopeless() -> None:
    found = planned(room(8, offering("a", 20)), 9)
    assert isinstance(found, Shortfall)
    assert found.hopeless


def test_booking_takes_from_offerings_and_limits() -> None:
    base = room(4, offering("a", 4))
    found = planned(base, 3)
    assert isinstance(found, Plan)
    after = base.book(found, "b")
    assert (after.snapshot.offerings[0].available, after.snapshot.budgets[0].left) == (1, 1)


def test_held_places_are_not_there() -> None:
    left = room(8, offering("a", 2), offering("b", 2)).without(frozenset({"a"}), "team/head")
    assert [(o.available, o.unavailable) for o in left.snapshot.offerings] == [(0, "held for team/head"), (2, "")]


def test_a_room_of_other_pools_is_empty() -> None:
    assert room(8, offering("a", 2)).only(frozenset({"q"})).snapshot.offerings == ()


def test_reservations_of_other_pools_are_not_told() -> None:
    """Those that nothing here is of: their figures are other people's business."""
    uses = tuple(ReservationUse(name, "h100", "a", 8, 0, 0, 0, 0, 8) for name in ("cr-mine", "cr-node", "cr-other"))
    mine = replace(offering("a", 2), reservation="cr-mine")
    other = replace(offering("b", 2), pool="q", reservation="cr-other")
    node = Node("n", "p", ROOM, {}, reservation="cr-node")
    base = Room(Snapshot(now=0, nodes=(node,), offerings=(mine, other), reservations=uses))
    assert base.only(frozenset({"p"})).snapshot.reservations == uses[:2]


def test_nodes_of_other_pools_stay_as_bystanders() -> None:
    pods = (Running("team", {"app": "x"}),)
    here, there = Node("n", "p", ROOM, {}, {ZONE: "a"}, pods=pods), Node("m", "q", ROOM, {})
    base = Room(Snapshot(now=0, nodes=(here, there)))
    found = base.only(frozenset({"q"})).snapshot
    assert found.nodes == (there,)
    assert found.bystanders == (Bystander("n", {ZONE: "a"}, pods),)
    assert base.only(frozenset({"p", "q"})) is base


def test_held_nodes_are_booked_for_the_one_ahead() -> None:
    nodes = tuple(Node(name, "p", ROOM, {}) for name in ("a", "b"))
    found = Room(Snapshot(now=0, nodes=nodes)).without(frozenset({"b"}), "team/head")
    assert {node.name: node.booked_by for node in found.snapshot.nodes} == {"a": None, "b": "team/head"}
    assert isinstance(planned(found, 1), Plan)
    assert isinstance(planned(found, 2), Shortfall)
