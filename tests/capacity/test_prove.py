"""Each flaw is found in a plan that is wrong in one thing only."""

from dataclasses import replace
from typing import Any

import pytest

from capacity.model import HOSTNAME, ZONE, Plan, Preferences, Purchase, Use
from capacity.prove import prove
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
