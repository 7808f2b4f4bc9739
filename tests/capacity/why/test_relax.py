"""Each change that is suggested makes the gang fit, and says so in words that can be acted on."""

from dataclasses import replace
from typing import Any

import pytest

from capacity.model import (
    HOSTNAME,
    ZONE,
    Budget,
    CapacityType,
    Change,
    Exclusive,
    Holder,
    Plan,
    Preferences,
    Shape,
    Shortfall,
    Slices,
)
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, NodeSelectorTerm, PodTerm, Spread, Taint
from capacity.why.changes import MOST_HOLDERS, candidates
from capacity.why.relax import MOST, MOST_PLANS
from capacity.why.survey import survey
from tests.capacity.make import ANY, BIG, RACK, gang, node, offering, pods, snapshot

RESERVED, BLOCK = CapacityType.RESERVED, CapacityType.CAPACITY_BLOCK
TYPE = "node.kubernetes.io/instance-type"
ME = LabelSelector((Expression("app", "In", ("me",)),))
HOUR = 3600


def fits(wanted: Any, places: Any, preferences: Preferences = ANY) -> dict[Change, str]:
    outcome = plan(wanted, places, preferences)
    assert isinstance(outcome, Shortfall)
    assert len(outcome.relaxations) <= MOST
    return {one.change: one.text for one in outcome.relaxations}


def of_type(name: str, available: int, **more: Any) -> Any:
    return offering(f"o-{name}", available, shape=Shape(name, BIG, {TYPE: name}), **more)


def test_another_model_is_named() -> None:
    wanted = gang(pods("w", 3, node_selector={TYPE: "p5"}))
    told = fits(wanted, snapshot(of_type("p5", 2), of_type("p5e", 3)))
    assert told == {Change.PODS: "with 2 pods of w instead of 3", Change.MODEL: f"with {TYPE} p5e as well as p5"}
    told = fits(wanted, snapshot(of_type("p5", 2), of_type("p5e", 3, zone="b")), Preferences(required_topology=ZONE))
    assert told[Change.MODEL] == f"with {TYPE} p5e instead of p5"


def test_another_zone_is_named() -> None:
    wanted = gang(pods("w", 3, node_selector={ZONE: "a"}))
    told = fits(wanted, snapshot(offering("a", 2), offering("b", 3, zone="b")))
    assert told[Change.ZONE] == f"with {ZONE} b instead of a"


def test_a_zone_that_affinity_asks_for_can_be_left_out_as_well() -> None:
    term = NodeSelectorTerm((Expression(ZONE, "In", ("a",)), Expression("team", "Exists")))
    wanted = gang(pods("w", 3, affinity=(term,)))
    places = snapshot(
        *(node(f"n{zone}{n}", labels={ZONE: zone, "team": "x"}) for zone, count in (("a", 2), ("b", 3)) for n in range(count))
    )
    assert fits(wanted, places)[Change.ZONE] == f"with {ZONE} b"


def test_another_label_that_pods_select_nodes_by() -> None:
    wanted = gang(pods("w", 1, node_selector={"team": "x"}))
    assert fits(wanted, snapshot(node("n", labels={"team": "y"})))[Change.SELECTOR] == "with team y instead of x"
    assert fits(wanted, snapshot(node("n")))[Change.SELECTOR] == "without team in node selector and affinity"


@pytest.mark.parametrize(
    ("taint", "told"),
    [
        pytest.param(
            Taint("gpu", "NoSchedule", "yes"), {Change.TOLERATION: "with the taint gpu=yes:NoSchedule tolerated"}, id="own"
        ),
        pytest.param(Taint("node.kubernetes.io/not-ready", "NoSchedule"), {}, id="of a fault"),
    ],
)
def test_a_taint_is_tolerated(taint: Taint, told: dict[Change, str]) -> None:
    assert fits(gang(pods("w", 1)), snapshot(node("n", taints=(taint,)))) == told


def test_the_start_of_a_reservation() -> None:
    places = snapshot(
        node("n"),
        offering("r", 1, kind=RESERVED, reservation="cr-1", starts=6 * HOUR),
        offering("s", 3, kind=RESERVED, reservation="cr-2", starts=30 * HOUR),
        now=HOUR,
    )
    assert fits(gang(pods("w", 2)), places)[Change.START] == "from 06:00Z, when cr-1 starts"
    assert fits(gang(pods("w", 3)), places)[Change.START] == "from 1970-01-02 06:00Z, when cr-2 starts"


def test_a_run_time_that_is_over_when_capacity_ends() -> None:
    places = snapshot(node("n"), *(offering(f"b{end}", 1, kind=BLOCK, ends=end * HOUR) for end in (3, 5)))
    assert fits(gang(pods("w", 2)), places)[Change.RUN_TIME] == "with a declared run time that is over by 05:00Z"
    assert fits(gang(pods("w", 3)), places)[Change.RUN_TIME] == "with a declared run time that is over by 03:00Z"
    assert (
        fits(gang(pods("w", 3), run_duration=4 * HOUR), places)[Change.RUN_TIME]
        == "with a declared run time that is over by 03:00Z"
    )


def test_the_price_that_is_needed() -> None:
    places = snapshot(offering("od", 3, 98_320_000))
    told = fits(gang(pods("w", 3)), places, Preferences(price_ceiling=200_000_000))
    assert told[Change.PRICE_CEILING] == "with a price ceiling of $294.96/h"


def test_a_limit_is_named_but_not_that_machines_are_sold_twice() -> None:
    places = snapshot(
        offering("od", 3, 9), budgets=(Budget("onDemandNodes 2 of pool p: 0 running or on order", {"od": 1}, 2, 2),)
    )
    assert (
        fits(gang(pods("w", 3)), places)[Change.LIMIT] == "with a higher limit: onDemandNodes 2 of pool p: 0 running or on order"
    )
    twice = snapshot(
        offering("x", 2), offering("y", 2), budgets=(Budget("x and y are the same", {"x": 1, "y": 1}, 2, 2, same=True),)
    )
    assert Change.LIMIT not in fits(gang(pods("w", 3)), twice)


def test_a_kind_of_capacity_that_the_policy_leaves_out() -> None:
    told = fits(gang(pods("w", 2)), snapshot(node("n"), offering("od", 2, 5_000_000)), Preferences(capacity_order=(RESERVED,)))
    assert told[Change.CAPACITY_ORDER] == "with on-demand in the policy's capacityOrder, at $5.00/h"


def test_the_end_of_one_other_gang_the_first_known_to_end() -> None:
    held = [
        node(f"{holder}{n}", used=8, booked_by=holder)
        for holder, count in (("a", 1), ("b", 2), ("c", 2), ("d", 3))
        for n in range(count)
    ]
    holders = {"a": Holder("job/a", HOUR), "b": Holder("job/b"), "c": Holder("job/c", 6 * HOUR + 600), "d": Holder("job/d")}
    places = snapshot(node("n"), *held, holders=holders)
    assert fits(gang(pods("w", 3)), places)[Change.HOLDER] == "when job/c ends (06:10Z at the latest)"
    assert fits(gang(pods("w", 4)), places)[Change.HOLDER] == "when job/d ends"
    assert Change.HOLDER not in fits(gang(pods("w", 5)), places)


def test_what_daemon_sets_take_stays_taken_when_a_gang_ends() -> None:
    shape = Shape("s", BIG, {TYPE: "s"}, overhead={"cpu": 32_000, "pods": 3})
    places = snapshot(
        node("n", labels={TYPE: "s"}, requested={"cpu": 190_000}, booked_by="a"),
        offering("o", 0, shape=shape, total=0),
        holders={"a": Holder("job/a")},
    )
    assert Change.HOLDER in fits(gang(pods("w", 1, gpu=1, cpu=160_000)), places)
    assert Change.HOLDER not in fits(gang(pods("w", 1, gpu=1, cpu=160_001)), places)


def test_waiting_is_not_suggested_where_it_can_not_help() -> None:
    places = snapshot(node("n", used=8, booked_by="a"), holders={"a": Holder("job/a")})
    outcome = plan(gang(pods("w", 2)), places, ANY)
    assert isinstance(outcome, Shortfall)
    assert outcome.hopeless
    assert outcome.relaxations == ()


def racks(*sizes: int) -> list[Any]:
    return [
        node(f"n{rack}-{index}", labels={ZONE: "a", RACK: f"r{rack}", HOSTNAME: f"n{rack}-{index}"})
        for rack, size in enumerate(sizes)
        for index in range(size)
    ]


@pytest.mark.parametrize(
    ("rule", "told", "said"),
    [
        pytest.param(
            {"apart": (PodTerm(RACK, ME, None),)},
            "without the pod anti-affinity of w",
            "w: must not share a rack with the pods that it names (pod anti-affinity); 2 have room",
            id="apart",
        ),
        pytest.param(
            {"spreads": (Spread(RACK, 1, ME, honors_affinity=False),)},
            "without the topology spread of w",
            "w: spread over rack with maxSkew 1; least room: r1 1, r0 4",
            id="spread",
        ),
        pytest.param(
            {"exclusive": Exclusive(RACK, LabelSelector((Expression("job", "Exists"),)), 1)},
            "without the exclusive domains of w",
            "w: needs 4 units of 1 pod, each alone in one rack; there is room for 2",
            id="exclusive",
        ),
        pytest.param(
            {"slices": Slices(RACK, 2)},
            "without the slices of w",
            "w: needs 2 slices of 2 pods, each in one rack; there is room for 1",
            id="slices",
        ),
    ],
)
def test_a_rule_among_pods_left_out(rule: dict[str, Any], told: str, said: str) -> None:
    sizes = (3, 1) if "slices" in rule else (4, 1)
    outcome = plan(gang(pods("w", 4, labels={"app": "me"}, **rule)), snapshot(*racks(*sizes)), ANY)
    assert isinstance(outcome, Shortfall)
    assert outcome.reason == "TopologyUnsatisfied"
    assert outcome.message == said
    assert {one.change: one.text for one in outcome.relaxations}[Change.PLACEMENT] == told


def test_every_suggestion_fits_when_it_is_planned_again() -> None:
    wanted = gang(pods("w", 4, required_topology=RACK, node_selector={"team": "x"}))
    nodes = [replace(one, labels={**one.labels, "team": "x" if n < 5 else "y"}) for n, one in enumerate(racks(3, 3, 4))]
    places = snapshot(
        *nodes, node("h", labels={ZONE: "a", RACK: "r0", "team": "x"}, used=8, booked_by="b"), holders={"b": Holder("job/b")}
    )
    outcome = plan(wanted, places, ANY)
    assert isinstance(outcome, Shortfall)
    assert {one.change for one in outcome.relaxations} == {Change.PODS, Change.LEVEL, Change.SELECTOR, Change.HOLDER}
    texts = {one.text for one in outcome.relaxations}
    for candidate in candidates((wanted, places, ANY), survey(wanted, places, ANY), waiting_helps=True):
        again = plan(*candidate.question)
        if isinstance(again, Plan):
            texts.discard(candidate.tell if isinstance(candidate.tell, str) else candidate.tell(again))
    assert texts == {"with 3 pods of w instead of 4"}


def test_the_number_of_plans_is_bounded() -> None:
    held = [node(f"b{n}", used=8, booked_by=f"b{n}") for n in range(40)]
    places = snapshot(*held, holders={f"b{n}": Holder(f"job/{n}") for n in range(40)})
    wanted = gang(pods("w", 1))
    tried = [
        one
        for one in candidates((wanted, places, ANY), survey(wanted, places, ANY), waiting_helps=True)
        if one.change is Change.HOLDER
    ]
    assert len(tried) == MOST_HOLDERS < MOST_PLANS


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        pytest.param({"slices": Slices(RACK, 4)}, "with 8 pods of w instead of 12", id="slices"),
        pytest.param({"exclusive": Exclusive(RACK, ME, 4)}, "with 8 pods of w instead of 12", id="units"),
        pytest.param({}, "with 10 pods of w instead of 12", id="pods"),
    ],
)
def test_fewer_pods_are_whole_slices_and_units(rule: dict[str, Any], told: str) -> None:
    """Two racks of five nodes."""
    places = snapshot(*[node(f"n{number}", labels={ZONE: "a", RACK: f"r{number % 2}"}) for number in range(10)])
    assert fits(gang(pods("w", 12, **rule)), places)[Change.PODS] == told
