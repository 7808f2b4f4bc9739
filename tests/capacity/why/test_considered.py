"""The tree of what was considered: every place adds up, and each node counts for the first constraint that fails."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.model import HOSTNAME, ZONE, Budget, CapacityType, Considered, Constraint, Preferences, Running, Snapshot
from capacity.requirements import Expression, HostPort, LabelSelector, NodeSelectorTerm, PodTerm, Taint
from capacity.why.considered import MOST_PLACES, considered
from capacity.why.survey import survey
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods, snapshot

RESERVED, BLOCK = CapacityType.RESERVED, CapacityType.CAPACITY_BLOCK
BEARS_X = NodeSelectorTerm((Expression("x", "Exists"),))
OTHERS = LabelSelector((Expression("app", "In", ("other",)),))


def tree(wanted: Any, places: Snapshot, preferences: Preferences = ANY) -> Considered:
    [found] = considered(survey(gang(wanted), places, preferences))
    return found


def ruled_out(place: Considered) -> dict[Constraint, tuple[int, int]]:
    return {one.constraint: (one.nodes, one.pods) for one in place.ruled_out}


@pytest.mark.parametrize(
    ("place", "pod_set", "constraint", "pods_lost"),
    [
        pytest.param(node("n", booked_by="b", ready=False), {}, Constraint.BOOKED, 1, id="booked before not ready"),
        pytest.param(node("n", ready=False, unschedulable=True), {}, Constraint.NOT_READY, 1, id="not ready before cordoned"),
        pytest.param(node("n", unschedulable=True), {}, Constraint.CORDONED, 1, id="cordoned"),
        pytest.param(node("n", capacity_type=CapacityType.QUEUED), {}, Constraint.CAPACITY_ORDER, 1, id="capacity order"),
        pytest.param(node("n", ends=99), {}, Constraint.ENDS_TOO_SOON, 1, id="ends"),
        pytest.param(offering("o", 1, kind=BLOCK, starts=99), {}, Constraint.NOT_STARTED, 1, id="starts"),
        pytest.param(offering("o", 0, total=1), {}, Constraint.NOT_AVAILABLE, 1, id="not available"),
        pytest.param(
            node("n", taints=(Taint("a", "NoExecute"),)), {"node_selector": {"x": "y"}}, Constraint.TAINT, 1, id="taint"
        ),
        pytest.param(node("n"), {"node_selector": {"x": "y"}}, Constraint.NODE_SELECTOR, 1, id="selector"),
        pytest.param(node("n"), {"affinity": (BEARS_X,)}, Constraint.NODE_AFFINITY, 1, id="affinity"),
        pytest.param(node("n"), {"volumes": ((BEARS_X,),)}, Constraint.VOLUME, 1, id="volume"),
        pytest.param(node("n"), {"required_topology": RACK}, Constraint.TOPOLOGY, 1, id="level"),
        pytest.param(node("n", gpu=4), {}, Constraint.TOO_SMALL, 0, id="too small"),
        pytest.param(node("n", used=1), {}, Constraint.IN_USE, 1, id="in use"),
        pytest.param(
            node("n", pods=(Running("", {}, (HostPort(80),)),)), {"ports": (HostPort(80),)}, Constraint.PORT, 1, id="port"
        ),
        pytest.param(
            node("n", labels={HOSTNAME: "n"}, pods=(Running("", {"app": "other"}),)),
            {"apart": (PodTerm(HOSTNAME, OTHERS, None),)},
            Constraint.RUNNING_PODS,
            1,
            id="running pods",
        ),
    ],
)
def test_the_first_constraint_that_fails(place: Any, pod_set: dict[str, Any], constraint: Constraint, pods_lost: int) -> None:
    found = tree(pods("w", 2, **pod_set), snapshot(place))
    assert ruled_out(found) == {constraint: (1, pods_lost)}
    assert (found.nodes, found.usable_nodes, found.usable_pods) == (1, 0, 0)


def test_a_node_in_use_in_part_stays_usable_with_less_room() -> None:
    found = tree(pods("w", 9, gpu=2), snapshot(node("n", used=3), node("m", used=7)))
    assert ruled_out(found) == {Constraint.IN_USE: (1, 2 + 4)}
    assert (found.pods, found.usable_nodes, found.usable_pods) == (8, 1, 2)
    assert [one.detail for one in found.ruled_out] == [f"{GPU}: needs 2, 1 free"]


def test_an_offering_is_cut_by_what_is_left_by_limits_and_by_the_price() -> None:
    places = snapshot(offering("od", 7, 10, total=9), budgets=(Budget("maxNodes 5", {"od": 1}, 5, 9),))
    found = tree(pods("w", 9), places, Preferences(price_ceiling=39))
    assert ruled_out(found) == {Constraint.NOT_AVAILABLE: (2, 2), Constraint.LIMIT: (2, 2), Constraint.PRICE_CEILING: (2, 2)}
    assert (found.nodes, found.usable_nodes) == (9, 3)


def test_sources_and_domains() -> None:
    racks = [node(f"n{rack}{n}", labels={ZONE: "a", RACK: f"r{rack:02}"}) for rack in range(12) for n in range(12 - rack)]
    places = snapshot(
        *racks, offering("od", 4, 9), offering("cr", 2, kind=RESERVED, reservation="cr-1", domain={ZONE: "a", RACK: "r00"})
    )
    found = tree(pods("w", 99, required_topology=RACK), places)
    assert [(one.subject, one.nodes, one.usable_pods) for one in found.inside] == [
        ("nodes of pool p", 78, 78),
        ("reservation cr-1", 2, 2),
        ("on-demand of pool p", 4, 0),
    ]
    assert [(one.subject, one.nodes) for one in found.domains[:2]] == [("r00", 14), ("r01", 11)]
    assert (found.domains[-1].subject, found.domains[-1].nodes) == ("5 other domains", 4 + 3 + 2 + 1 + 4)
    assert len(found.domains) == MOST_PLACES + 1


def test_the_offerings_of_one_source_stand_below_it() -> None:
    found = tree(pods("w", 9), snapshot(offering("a", 1, 5), offering("b", 3, 9, zone="b")))
    [source] = found.inside
    assert [(one.subject, one.usable_pods) for one in source.inside] == [("b", 3), ("a", 1)]


def test_one_tree_for_each_pod_set() -> None:
    trees = considered(
        survey(gang(pods("a", 1, gpu=0, cpu=1000), pods("b", 4), pods("none", 0)), snapshot(node("n", used=8)), ANY)
    )
    assert [(one.subject, one.usable_nodes) for one in trees] == [("a", 1), ("b", 0)]


def sums_up(place: Considered) -> None:
    assert min(place.usable_nodes, place.usable_pods, *(min(one.nodes, one.pods) for one in place.ruled_out), 0) == 0
    for parts in filter(None, (place.inside, place.domains)):
        assert len(parts) <= MOST_PLACES + 1
        assert sum(one.nodes for one in parts) == place.nodes
        assert sum(one.pods for one in parts) == place.pods
        for constraint in Constraint:
            whole = ruled_out(place).get(constraint, (0, 0))
            each = [ruled_out(one).get(constraint, (0, 0)) for one in parts]
            assert (sum(nodes for nodes, _ in each), sum(room for _, room in each)) == whole
        for one in parts:
            sums_up(one)


NODES = st.builds(
    lambda number, used, rack, pool, more: node(f"n{number}", used=used, pool=pool, labels={RACK: rack} if rack else {}, **more),
    st.integers(0, 10**9),
    st.integers(0, 8),
    st.sampled_from(["", *(f"r{n}" for n in range(12))]),
    st.sampled_from("ab"),
    st.sampled_from([{}, {"booked_by": "x"}, {"ready": False}, {"taints": (Taint("t", "NoSchedule"),)}, {"ends": 5}]),
)
OFFERINGS = st.builds(
    lambda number, available, more, price, kind, domain: offering(
        f"o{number}", available, price, kind, total=available + more, domain=domain
    ),
    st.integers(0, 10**9),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 20),
    st.sampled_from(list(CapacityType)),
    st.sampled_from([{ZONE: "a"}, {ZONE: "a", RACK: "r1"}]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NODES, max_size=30, unique_by=lambda one: one.name),
    st.lists(OFFERINGS, max_size=14, unique_by=lambda one: one.name),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([None, RACK, ZONE]),
    st.sampled_from([None, 0, 25]),
)
def test_every_place_adds_up(nodes: Any, offerings: Any, gpu: int, level: str | None, ceiling: int | None) -> None:
    places = snapshot(*nodes, *offerings)
    found = tree(pods("w", 5, gpu=gpu, required_topology=level), places, Preferences(price_ceiling=ceiling))
    assert found.nodes == len(nodes) + sum(one.total for one in offerings)
    sums_up(found)
