"""The fewest racks: against every set of racks, on random fabrics; and cases by hand."""

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.common import quick
from capacity.model import ZONE, CapacityType, Node, Plan, Preferences, Snapshot
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods, snapshot

Fabric = dict[str, dict[str, list[int]]]  # zone, rack (may be ""), free GPUs of each node


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    most = draw(st.sampled_from([1, 1, 3]))
    racks = st.lists(st.lists(st.integers(1, most), min_size=1, max_size=4), min_size=1, max_size=5)
    loose = st.lists(st.just(1), max_size=2)
    return {zone: {**{f"{zone}{i}": free for i, free in enumerate(draw(racks))}, "": draw(loose)} for zone in "abc"}


def nodes(fabric: Fabric) -> list[Node]:
    return [
        node(f"{zone}-{rack}-{place}", gpu=free, labels={ZONE: zone, **({RACK: rack} if rack else {})})
        for zone, racks in fabric.items()
        for rack, frees in racks.items()
        for place, free in enumerate(frees)
    ]


def fewest(racks: dict[str, list[int]], wanted: int) -> int | None:
    """Every set of racks, the smallest sets first; where they don't hold all, each pod outside of them counts as one more."""
    sizes, loose = [sum(frees) for rack, frees in racks.items() if rack], sum(racks[""])
    sets = ((count, some) for count in range(len(sizes) + 1) for some in combinations(sizes, count))
    outside = wanted - sum(sizes)
    found = next((count for count, some in sets if sum(some) >= wanted), None)
    return len(sizes) + outside if 0 < outside <= loose else found


def answered(here: Snapshot, count: int, preferences: Preferences = ANY, **more: Any) -> Plan | None:
    settled = quick.answer(gang(pods("w", count, gpu=1, **more)), here, preferences)
    assert settled is not None
    return settled.plan


def used(plan: Plan) -> Counter[str]:
    """Nodes in each rack; each that is in none by its own name."""
    there = Counter(use.node.labels.get(RACK, use.node.name) for use in plan.uses)
    for one in plan.purchases:
        there[one.offering.domain[RACK]] += one.count
    return there


@given(fabrics(), st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_no_set_of_fewer_racks_holds_the_gang(fabric: Fabric, count: int) -> None:
    plan = answered(snapshot(*nodes(fabric)), count, required_topology=ZONE, preferred_topology=RACK)
    found = {zone: racks for zone, known in fabric.items() if (racks := fewest(known, count)) is not None}
    assert (plan is None) == (not found)
    if plan is not None:
        zone = plan.domains[ZONE]
        assert found[zone] == min(found.values())
        assert len(used(plan)) == found[zone] or len(fabric[zone]) - 1 < found[zone]  # some pods are in no rack


@given(fabrics(), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_reservations_of_alike_hosts(fabric: Fabric, count: int) -> None:
    known = {zone: {rack: frees for rack, frees in racks.items() if rack} | {"": []} for zone, racks in fabric.items()}
    offers = [
        offering(rack, sum(frees), 0, CapacityType.RESERVED, gpu=1, domain={ZONE: zone, RACK: rack})
        for zone, racks in known.items()
        for rack, frees in racks.items()
        if rack
    ]
    plan = answered(snapshot(*offers), count, required_topology=ZONE, preferred_topology=RACK)
    expected = min((racks for zone in known.values() if (racks := fewest(zone, count)) is not None), default=None)
    assert (plan is None) == (expected is None)
    if plan is not None:
        assert len(used(plan)) == expected


def test_the_largest_racks_and_of_the_rest_the_smallest_that_will_do() -> None:
    fabric: Fabric = {"a": {"a0": [1] * 2, "a1": [1] * 5, "a2": [1] * 3, "a3": [1] * 4, "": []}}
    plan = answered(snapshot(*nodes(fabric)), 7, preferred_topology=RACK)
    assert plan is not None
    assert used(plan) == {"a1": 5, "a0": 2}


def test_fewest_racks_go_before_the_smallest_zone() -> None:
    fabric: Fabric = {"a": {"a0": [1] * 2, "a1": [1] * 2, "a2": [1] * 2, "": []}, "b": {"b0": [1] * 4, "b1": [1] * 4, "": []}}
    plan = answered(snapshot(*nodes(fabric)), 5, required_topology=ZONE, preferred_topology=RACK)
    assert plan is not None
    assert used(plan) == {"b0": 4, "b1": 1}
    spread = answered(snapshot(*nodes(fabric)), 5, required_topology=ZONE)
    assert spread is not None
    assert spread.domains == {ZONE: "a"}


def test_a_gang_larger_than_any_zone_takes_the_fewest_zones() -> None:
    fabric: Fabric = {"a": {"a0": [1] * 2, "": []}, "b": {"b0": [1] * 3, "": []}, "c": {"c0": [1] * 4, "": []}}
    plan = answered(snapshot(*nodes(fabric)), 6, preferred_topology=RACK)
    assert plan is not None
    assert used(plan) == {"c0": 4, "a0": 2}


def test_nodes_that_cost_nothing_go_before_fewer_racks() -> None:
    free = nodes({"a": {"a0": [1] * 2, "a1": [1] * 2, "": []}})
    dear = offering("dear", 9, 5, gpu=1, domain={ZONE: "a", RACK: "a2"})
    plan = answered(snapshot(*free, dear), 3, required_topology=ZONE, preferred_topology=ZONE)
    assert plan is not None
    assert plan.cost == 0
    assert used(plan) == {"a0": 2, "a1": 1}


def test_amounts_per_node_are_what_counts() -> None:
    """A rack of one node of 3 slots holds as much as three nodes of one."""
    at = {ZONE: "a"}
    places = [node(f"m{i}", gpu=1, labels=at | {RACK: "r1"}) for i in range(2)]
    places += [node("n", gpu=3, labels=at | {RACK: "r2"}), node("o", gpu=4, requested={GPU: 2}, labels=at | {RACK: "r3"})]
    plan = answered(snapshot(*places), 5, preferred_topology=RACK)
    assert plan is not None
    assert set(used(plan)) in ({"r2", "r1"}, {"r2", "r3"})
