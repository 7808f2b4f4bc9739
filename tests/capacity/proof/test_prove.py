"""Each flaw is found in a plan that is wrong in one thing only."""

from dataclasses import replace
from typing import Any

import pytest

from capacity.model import HOSTNAME, ZONE, Bystander, Exclusive, Gang, Plan, Preferences, Purchase, Running, Use
from capacity.proof.prove import prove
from capacity.requirements import Expression, LabelSelector, PodTerm, Spread
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

N1, N2 = node("n1", labels={ZONE: "a", RACK: "r1"}), node("n2", labels={ZONE: "a", RACK: "r2"})
OD = offering("od", 2, 5)
TWO = gang(pods("w", 2))
PLACES = snapshot(N1, N2, OD)


def good() -> Plan:
    return Plan(TWO, (Use(N1, {"w": 1}),), (Purchase(OD, 1, {"w": 1}),), 5)


def test_a_good_plan_has_no_flaw() -> None:
    assert prove(good(), PLACES, ANY) == ()


@pytest.mark.parametrize(
    ("change", "preferences", "flaw"),
    [
        pytest.param({"purchases": (), "cost": 0}, ANY, "w is sure of 1 places for 2 pods", id="too few"),
        pytest.param({"uses": (Use(N1, {"w": 2}),)}, ANY, "n1 has fewer than 2 slots for w", id="more than fit"),
        pytest.param({"uses": (Use(N1, {"w": 1}),) * 2}, ANY, "n1 is used 2 times", id="twice"),
        pytest.param({"uses": (Use(replace(N1, booked_by="b"), {"w": 1}),)}, ANY, "n1 is booked", id="booked"),
        pytest.param({"purchases": (Purchase(OD, 3, {"w": 1}),), "cost": 15}, ANY, "od: 3 nodes of 2", id="more than there are"),
        pytest.param({"purchases": (Purchase(OD, 2, {"w": 1}),) * 2, "cost": 20}, ANY, "od: 4 nodes of 2", id="in two parts"),
        pytest.param(
            {"purchases": (Purchase(offering("x", 0), 1, {"w": 1}),), "cost": 0}, ANY, "x: 0 of 0 available", id="closed"
        ),
        pytest.param({"cost": 4}, ANY, "costs 5, not 4", id="cost"),
        pytest.param({}, Preferences(price_ceiling=4), "costs 5, above the ceiling of 4", id="ceiling"),
        pytest.param({}, Preferences(required_topology=RACK), f"{RACK} is not one domain", id="domain not known"),
        pytest.param({}, Preferences(required_topology=HOSTNAME), f"{HOSTNAME} is not one domain", id="two hosts"),
        pytest.param(
            {"uses": (Use(N1, {"w": 1}), Use(N2, {"w": 1})), "purchases": (), "cost": 0},
            Preferences(required_topology=RACK),
            f"{RACK} is not one domain",
            id="two domains",
        ),
        pytest.param(
            {"gang": gang(pods("w", 2, node_selector={"team": "a"}))},
            ANY,
            "n1 refuses w: node selector asks for team=a, here it is absent",
            id="filter",
        ),
    ],
)
def test_flaw(change: dict[str, Any], preferences: Preferences, flaw: str) -> None:
    assert flaw in prove(replace(good(), **change), PLACES, preferences)


def test_pod_sets_that_compete_are_found() -> None:
    """Both threes on one node leave room for one five in all."""
    mixed = gang(pods("five", 2, gpu=5), pods("three", 2, gpu=3))
    uses = (Use(N1, {"five": 1, "three": 1}), Use(N2, {"five": 1, "three": 1}))
    assert prove(Plan(mixed, uses, (), 0), PLACES, ANY) == ("five is sure of 1 places for 2 pods",)


def test_pod_sets_that_share_nodes_need_not_compete() -> None:
    """Wherever the two threes go, a five fits on n1 or n2."""
    mixed = gang(pods("five", 1, gpu=5), pods("three", 2, gpu=3))
    uses = (Use(N1, {"five": 1, "three": 1}), Use(N2, {"five": 1, "three": 1}))
    assert prove(Plan(mixed, uses, (), 0), PLACES, ANY) == ()


def test_interchangeable_pods_that_are_let_in_elsewhere_compete() -> None:
    """Pods of b could take n1 before a's, which have no other node."""
    same = gang(pods("a", 1), pods("b", 1))
    apart = Plan(same, (Use(N1, {"a": 1, "b": 1}), Use(N2, {"b": 1})), (), 0)
    assert prove(apart, PLACES, ANY) == ("a is sure of 0 places for 1 pods",)
    assert prove(Plan(same, (Use(N1, {"a": 1, "b": 1}), Use(N2, {"a": 1, "b": 1})), (), 0), PLACES, ANY) == ()


APP_A = LabelSelector((Expression("app", "In", ("a",)),))
APP_B = LabelSelector((Expression("app", "In", ("b",)),))
ONE_A_RACK = PodTerm(RACK, APP_A, frozenset({""}))
EVERYWHERE = Spread(ZONE, 1, APP_A, honors_affinity=False)


def a(count: int, gpu: int = 8, **more: Any) -> Gang:
    return gang(pods("a", count, gpu, labels={"app": "a"}, **more), pods("b", 1, labels={"app": "b"}))


@pytest.mark.parametrize(
    ("mine", "flaw"),
    [
        pytest.param({"apart": (ONE_A_RACK,), "count": 2}, "a is sure of 1 places for 2 pods", id="both new nodes in one rack"),
        pytest.param(
            {"apart": (PodTerm(RACK, APP_B, frozenset({""})),), "count": 1},
            f"a and b may meet in a {RACK} that only the launch will tell",
            id="in the rack of the other",
        ),
    ],
)
def test_racks_that_only_a_launch_tells_may_be_the_same(mine: dict[str, Any], flaw: str) -> None:
    """The rack of `od` is not known; `n2` is in a rack."""
    bought = (Purchase(OD, mine["count"], {"a": 1}),)
    one = Plan(a(**mine), (Use(N2, {"b": 1}),), bought, 5 * mine["count"])
    assert flaw in prove(one, PLACES, ANY)


def test_a_domain_that_other_new_nodes_open_counts_as_empty() -> None:
    """Zone b, empty of pods of a, is there once the node for b has joined: the second pod of a would be two more than there."""
    elsewhere = offering("o", 1, 5, zone="b")
    one = Plan(a(2, 4, spreads=(EVERYWHERE,)), (Use(N1, {"a": 2}),), (Purchase(elsewhere, 1, {"b": 1}),), 5)
    assert prove(one, snapshot(N1, elsewhere), ANY) == ("a is sure of 1 places for 2 pods",)
    kept = replace(one, gang=a(2, 4, spreads=(replace(EVERYWHERE, max_skew=2),)))
    assert prove(kept, snapshot(N1, elsewhere), ANY) == ()


def test_a_domain_that_new_nodes_open_makes_others_too_full() -> None:
    """Two pods run in zone a, the only one, and may; with an empty zone b they are two more than in the emptiest."""
    elsewhere = offering("o", 1, 5, zone="b")
    running = Bystander("x", {ZONE: "a"}, (Running("", {"app": "c"}),) * 2)
    counts_others = Spread(ZONE, 1, LabelSelector((Expression("app", "In", ("c",)),)), honors_affinity=False)
    one = Plan(a(1, spreads=(counts_others,)), (Use(N1, {"a": 1}),), (Purchase(elsewhere, 1, {"b": 1}),), 5)
    flaws = prove(one, snapshot(N1, elsewhere, bystanders=(running,)), ANY)
    assert flaws == (f"new nodes open a domain of {ZONE} to a spread of a",)
    assert prove(one, snapshot(N1, elsewhere), ANY) == ()


EVEN = Spread(ZONE, 1, APP_A, min_domains=2)
R1, R2, R3 = (node(f"m{i}", gpu, labels={ZONE: zone, RACK: f"r{i}"}) for i, gpu, zone in ((1, 2, "a"), (2, 2, "a"), (3, 2, "b")))


@pytest.mark.parametrize(
    ("count", "uses", "flaws"),
    [
        pytest.param(4, (R1, R3), (), id="a rack for each unit"),
        pytest.param(
            4, (R1, R2, R3), ("a: its spread may keep units of 2 from where they have room",), id="both first pods in zone a"
        ),
    ],
)
def test_a_unit_must_not_begin_where_the_spread_keeps_its_rest_out(count: int, uses: Any, flaws: tuple[str, ...]) -> None:
    """With units begun in both racks of zone a, no pod is left that may go to zone b, and none more may go to zone a."""
    workers = pods("a", count, 1, labels={"app": "a"}, spreads=(replace(EVEN, max_skew=2),), exclusive=Exclusive(RACK, APP_B, 2))
    assert prove(Plan(gang(workers), tuple(Use(one, {"a": 2}) for one in uses), (), 0), snapshot(R1, R2, R3), ANY) == flaws


def test_a_spread_counts_no_node_that_anti_affinity_leaves_empty() -> None:
    """The rack in zone b takes one pod, on whichever of its two nodes: zone a then takes two, not three."""
    zone_a = [node(f"m{i}", 1, labels={ZONE: "a", RACK: f"r{i}"}) for i in range(3)]
    zone_b = [node(f"m{i}", 1, labels={ZONE: "b", RACK: "r3"}) for i in (3, 4)]
    workers = pods("a", 4, 1, labels={"app": "a"}, spreads=(EVEN,), apart=(ONE_A_RACK,))
    plan = Plan(gang(workers), tuple(Use(one, {"a": 1}) for one in (*zone_a, *zone_b)), (), 0)
    assert prove(plan, snapshot(*zone_a, *zone_b), ANY) == ("a: its spread may count nodes that its anti-affinity leaves empty",)
