"""Nodes and offerings that are alike are judged once, and told of as if each had been looked at alone."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.index.fleet import Fleet
from capacity.index.standing import standing
from capacity.model import (
    HOSTNAME,
    ZONE,
    CapacityType,
    Change,
    Constraint,
    Gang,
    Holder,
    Node,
    Plan,
    Relaxation,
    Running,
    Shortfall,
    Snapshot,
)
from capacity.plan import plan
from capacity.requirements import HostPort, LabelSelector, PodTerm, Taint
from capacity.snapshot import book
from capacity.why.rooms import holding_enough
from capacity.why.survey import survey
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods, snapshot

PORT = (HostPort(80),)
SHY = Running("", {}, apart=(PodTerm(ZONE, LabelSelector(()), None),))
WANTED = st.sampled_from(
    [
        gang(pods("w", 2)),
        gang(pods("w", 9, gpu=4, cpu=1000, required_topology=ZONE)),
        gang(pods("w", 2, node_selector={"disk": "ssd"}), pods("l", 1, gpu=0, cpu=100), run_duration=10),
        gang(pods("w", 2, gpu=1, ports=PORT), pods("none", 0), pods("l", 3, required_topology=HOSTNAME)),
    ]
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    labels = draw(st.sampled_from([{}, {ZONE: "a"}, {ZONE: "b", RACK: "r"}]))
    return node(
        name,
        gpu=draw(st.sampled_from([0, 4, 8])),
        used=draw(st.integers(0, 8)),
        labels={HOSTNAME: name, **labels, **draw(st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd"}]))},
        taints=draw(st.sampled_from([(), (), (Taint("t", "NoSchedule"),), (Taint("node.kubernetes.io/x", "NoSchedule"),)])),
        pool=draw(st.sampled_from("pq")),
        reservation=draw(st.sampled_from([None, "r"])),
        capacity_type=draw(st.sampled_from([None, CapacityType.RESERVED, CapacityType.QUEUED])),
        booked_by=draw(st.sampled_from([None, None, "b", "c"])),
        ready=draw(st.sampled_from([True, True, False])),
        unschedulable=draw(st.sampled_from([False, False, True])),
        ends=draw(st.sampled_from([None, 5, 20])),
        pods=draw(st.sampled_from([(), (), (Running("", {}, PORT),)])),
    )


def there(*found: Node) -> Snapshot:
    return snapshot(*found)


def told(wanted: Gang, places: Snapshot) -> Counter[Any]:
    """What is told of nodes, how often."""
    counts = Counter[Any]()
    for lot in survey(wanted, places, ANY).lots:
        subject = lot.subject
        assert isinstance(subject, Node)
        same = (tuple(sorted(lot.where.items(), key=str)), lot.verdicts, lot.usable, subject.pool, subject.reservation)
        for why, count in lot.whys.items():
            counts[(*same, subject.booked_by, "why", why)] += count
        for index, details in enumerate(lot.details):
            for detail, count in details.items():
                counts[(*same, index, detail)] += count
        assert {lot.count} == {sum(each.values()) for each in (lot.whys, *lot.details)}
    return counts


@given(WANTED, st.integers(0, 6).flatmap(lambda size: st.tuples(*[nodes(f"n{number}") for number in range(size)])))
@settings(max_examples=100, deadline=None)
def test_all_at_once_as_one_by_one(wanted: Gang, found: tuple[Node, ...]) -> None:
    singly = sum((told(wanted, there(one)) for one in found), Counter[Any]())
    assert told(wanted, there(*found)) == singly
    usable = [name for one in found for name in survey(wanted, there(one), ANY).usable]
    assert survey(wanted, there(*found), ANY).usable == set(usable)


@given(st.tuples(*[nodes(f"n{number}") for number in range(6)]))
def test_a_standing_has_one_code(found: tuple[Node, ...]) -> None:
    codes = Fleet(found).column("standing").tolist()
    pairs = {*zip(codes, map(standing, found), strict=True)}
    assert len(pairs) == len({*codes}) == len({*map(standing, found)})


def test_nodes_booked_in_the_same_pass_are_told_by_who_booked_them() -> None:
    places = snapshot(*[node(f"n{number}") for number in range(4)])
    stock = Fleet(places.nodes).stock()
    places = replace(places, nodes=stock.nodes, stock=stock)
    for booking, count in (("first", 1), ("second", 2)):
        planned = plan(gang(pods("w", count)), places, ANY)
        assert isinstance(planned, Plan)
        places = book(places, planned, booking)
    lots = survey(gang(pods("w", 1)), places, ANY).lots
    held = {lot.subject.booked_by: lot.count for lot in lots if isinstance(lot.subject, Node)}
    assert held == {None: 1, "first": 1, "second": 2}
    assert {lot.verdicts[0].constraint for lot in lots} == {None, Constraint.BOOKED}


def test_what_keeps_all_gangs_off_is_told_once_for_all_pod_sets() -> None:
    wanted = gang(pods("a", 1), pods("b", 1, gpu=4))
    outcome = plan(wanted, snapshot(node("n", booked_by="x"), node("m", used=6)), ANY)
    assert isinstance(outcome, Shortfall)
    assert {one.detail for one in outcome.findings} == {
        "booked",
        f"a: {GPU}: needs 8, 2 free; b: {GPU}: needs 4, 2 free",
    }


@pytest.mark.parametrize(
    ("one", "constraint", "words"),
    [
        pytest.param(node("n", gpu=4), Constraint.TOO_SMALL, "cpu: needs 200, 192 free", id="too small in both"),
        pytest.param(
            node("n", allocatable={"cpu": 300_000, GPU: 8, "pods": 9}, requested={"cpu": 150_000, GPU: 8}),
            Constraint.IN_USE,
            "cpu: needs 200, 150 free",
            id="both in use",
        ),
        pytest.param(
            node("n", allocatable={"cpu": 300_000, GPU: 4, "pods": 9}, requested={"cpu": 150_000}),
            Constraint.TOO_SMALL,
            f"{GPU}: needs 8, 4 free",
            id="too small before in use",
        ),
    ],
)
def test_the_first_thing_that_is_short_is_told(one: Node, constraint: Constraint, words: str) -> None:
    [lot] = survey(gang(pods("w", 1, cpu=200_000)), snapshot(one), ANY).lots
    assert (lot.verdicts[0].constraint, lot.details) == (constraint, ({words: 1},))


@pytest.mark.parametrize("where", ["node", "bystander"])
def test_running_pods_that_shun_the_gang_are_heard(where: str) -> None:
    places = snapshot(node("n", labels={ZONE: "a"}), node("m", labels={ZONE: "a"}, used=8, pods=(SHY,)))
    if where == "bystander":
        placed = gang(pods("o", 1, apart=SHY.apart))
        other = plan(placed, snapshot(node("m", labels={ZONE: "a"})), ANY)
        assert isinstance(other, Plan)
        beside = book(snapshot(node("m", labels={ZONE: "a"})), other, "o").bystanders
        places = snapshot(node("n", labels={ZONE: "a"}), bystanders=beside)
    [free] = [lot for lot in survey(gang(pods("w", 1)), places, ANY).lots if lot.verdicts[0].size]
    assert free.verdicts[0].constraint is Constraint.RUNNING_PODS


def test_offerings_of_one_shape_and_place_count_as_one() -> None:
    offers = [offering(name, 2, zone=zone) for name, zone in (("o1", "a"), ("o2", "a"), ("o3", "b"), ("o4", "b"))]
    seen = survey(gang(pods("w", 9, required_topology=ZONE)), snapshot(*offers, offering("o5", 0, total=3)), ANY)
    assert len(seen.lots) == 5
    assert [(lot.where[ZONE], lot.verdicts[0].constraint, count) for lot, count in seen.alike] == [
        ("a", None, 4),
        ("b", None, 4),
        ("a", Constraint.NOT_AVAILABLE, 3),
    ]


@pytest.mark.parametrize(
    ("wanted", "enough"),
    [
        pytest.param(gang(pods("w", 3)), {"a", "b"}, id="with what is free"),
        pytest.param(gang(pods("w", 4)), {"b"}, id="only the larger one"),
        pytest.param(gang(pods("w", 3, required_topology=ZONE)), {"b"}, id="in one domain"),
        pytest.param(gang(pods("w", 1)), {"a", "b"}, id="there is room anyway"),
        pytest.param(gang(pods("w", 3), pods("v", 5)), set[str](), id="for all pod sets"),
    ],
)
def test_bookings_that_hold_enough(wanted: Gang, enough: set[str]) -> None:
    """One free node in x; booking a holds one in x and one in y, b two in x and one in y."""
    held = [("", "x"), ("a", "x"), ("a", "y"), ("b", "x"), ("b", "x"), ("b", "y")]
    found = [node(f"n{n}", booked_by=by or None, labels={ZONE: zone}) for n, (by, zone) in enumerate(held)]
    assert holding_enough(survey(wanted, snapshot(*found), ANY)) == enough


def test_a_booking_whose_pods_shun_the_gang_holds_more_than_its_nodes() -> None:
    places = snapshot(
        node("n", labels={ZONE: "a"}), node("m", labels={ZONE: "a"}, booked_by="b", pods=(SHY,)), holders={"b": Holder("job/b")}
    )
    outcome = plan(gang(pods("w", 2)), places, ANY)
    assert isinstance(outcome, Shortfall)
    assert Relaxation(Change.HOLDER, "when job/b ends") in outcome.relaxations
