from dataclasses import replace
from typing import Any

import pytest

from capacity.describe import describe
from capacity.model import (
    ZONE,
    Budget,
    Bystander,
    CapacityType,
    Gang,
    Node,
    Offering,
    Plan,
    Preferences,
    Reason,
    ReservationUse,
    Running,
    Shortfall,
    Snapshot,
)
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, PodTerm, Spread, Taint
from capacity.why.explain import account
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods, snapshot

RESERVED = CapacityType.RESERVED
DOWN = "node.kubernetes.io/disk-pressure"


def short(wanted: Gang, places: Snapshot, preferences: Preferences = ANY) -> Shortfall:
    outcome = plan(wanted, places, preferences)
    assert isinstance(outcome, Shortfall)
    return outcome


def phrases(outcome: Shortfall) -> tuple[str, ...]:
    return tuple(one.text for one in outcome.relaxations)


def racks(*sizes: int) -> list[Any]:
    return [
        node(f"n{rack}-{index}", labels={ZONE: "a", RACK: f"r{rack}"}) for rack, size in enumerate(sizes) for index in range(size)
    ]


def test_topology_names_the_largest_domain() -> None:
    use = ReservationUse("cr-0abc", "p5", "a", 200, 128, 8, 4, 4, 60)
    places = snapshot(*(replace(n, reservation="cr-0abc") for n in racks(40, 20)), reservations=(use,))
    outcome = short(gang(pods("w", 56, required_topology=RACK)), places)
    assert outcome.reason is Reason.TOPOLOGY_UNSATISFIED
    assert outcome.message == (
        "needs 56 pods in one rack; largest has room for 40 (r0); "
        "cr-0abc: 200 = 128 booked + 8 outside + 4 quarantined + 60 free, 4 kept spare"
    )
    assert phrases(outcome) == (
        "with 40 pods of w instead of 56",
        f"with {ZONE} as the required level instead of rack",
    )


def test_a_level_that_can_never_be_met_is_told_whoever_holds_the_nodes_meanwhile() -> None:
    wanted = gang(pods("w", 6, required_topology=RACK))
    free, held = racks(4, 4), [replace(each, booked_by="bk") for each in racks(4, 4)]
    told = "needs 6 pods in one rack; largest has room for 4 (r1)"
    for nodes in (free, held, [*free[:4], *held[4:]]):
        outcome = short(wanted, snapshot(*nodes))
        assert (outcome.reason, outcome.message, outcome.hopeless) == (Reason.TOPOLOGY_UNSATISFIED, told, True)


def test_without_the_level_where_no_wider_one_helps() -> None:
    places = snapshot(*racks(2), node("far", labels={ZONE: "b"}))
    outcome = short(gang(pods("w", 3, required_topology=ZONE)), places)
    assert phrases(outcome)[-1] == f"without {ZONE} as a required level"


@pytest.mark.parametrize(
    ("fields", "selector", "why"),
    [
        pytest.param({}, {ZONE: "b"}, f"node selector asks for {ZONE}=b, here it is a", id="zone"),
        pytest.param({"gpu": 4}, {}, f"{GPU}: needs 8, 4 free", id="shape"),
        pytest.param({"ends": 100}, {}, "ends at 00:01Z, and the gang's run time is unknown", id="time"),
        pytest.param({"starts": 100}, {}, "starts at 00:01Z", id="not yet"),
    ],
)
def test_reservation_mismatch_says_which_and_why(fields: dict[str, Any], selector: dict[str, str], why: str) -> None:
    outcome = short(
        gang(pods("w", 2, node_selector=selector)), snapshot(offering("cr", 2, kind=RESERVED, reservation="cr-1", **fields))
    )
    assert outcome.reason is Reason.RESERVATION_MISMATCH
    assert "0 of 2 pods fit now; 2 prepaid nodes are free but do not suit: 2 of cr-1 (" in outcome.message
    assert why in outcome.message


def test_too_few_misfits_are_no_mismatch() -> None:
    places = snapshot(offering("cr", 1, kind=RESERVED, zone="a"), offering("od", 1, 9, zone="b"))
    outcome = short(gang(pods("w", 3, node_selector={ZONE: "b"})), places)
    assert outcome.reason is Reason.GANG_INCOMPLETE
    assert outcome.message == "1 of 3 pods can be had now"


def test_gang_incomplete_counts_each_pod_set() -> None:
    outcome = short(gang(pods("leader", 1, gpu=0, cpu=4000), pods("worker", 5)), snapshot(*racks(3)))
    assert outcome.reason is Reason.GANG_INCOMPLETE
    assert outcome.message == "4 of 6 pods can be had now; missing 2 of worker"
    assert phrases(outcome) == ("with 3 pods of worker instead of 5",)


def test_price_ceiling_is_named_with_both_prices() -> None:
    outcome = short(gang(pods("w", 3)), snapshot(offering("od", 3, 98_320_000)), Preferences(price_ceiling=200_000_000))
    assert outcome.reason is Reason.GANG_INCOMPLETE
    assert outcome.message == "2 of 3 pods can be had under the price ceiling of $200.00/h; all would cost $294.96/h"
    assert "with a price ceiling of $294.96/h" in phrases(outcome)


@pytest.mark.parametrize(
    ("places", "hopeless"),
    [
        pytest.param(snapshot(offering("cr", 0, kind=RESERVED, total=3)), False, id="booked by others"),
        pytest.param(snapshot(offering("cr", 0, kind=RESERVED, total=1)), True, id="never enough"),
        pytest.param(snapshot(*(replace(n, booked_by="b") for n in racks(2))), False, id="nodes booked"),
        pytest.param(snapshot(*(replace(n, unschedulable=True, ready=False) for n in racks(2))), False, id="nodes down"),
        pytest.param(snapshot(*(replace(n, taints=(Taint(DOWN, "NoSchedule"),)) for n in racks(2))), False, id="nodes at fault"),
        pytest.param(snapshot(*(replace(n, taints=(Taint("team", "NoSchedule"),)) for n in racks(2))), True, id="taints"),
        pytest.param(snapshot(*racks(1)), True, id="one node too few"),
        pytest.param(snapshot(offering("cb", 2, kind=CapacityType.CAPACITY_BLOCK, starts=50)), False, id="starts later"),
        pytest.param(
            snapshot(offering("cb", 2, kind=CapacityType.CAPACITY_BLOCK, ends=50)), True, id="ends: waiting does not help"
        ),
    ],
)
def test_hopeless(places: Snapshot, hopeless: bool) -> None:
    assert short(gang(pods("w", 2)), places).hopeless is hopeless


def test_a_limit_is_named() -> None:
    places = snapshot(offering("od", 5, 9), budgets=(Budget("maxNodes 2 of source od", {"od": 1}, 1, 2),))
    outcome = short(gang(pods("w", 2)), places)
    assert (outcome.reason, outcome.hopeless) == (Reason.GANG_INCOMPLETE, False)
    assert outcome.message == "1 of 2 pods can be had now; LimitExceeded: maxNodes 2 of source od"
    assert short(gang(pods("w", 3)), places).hopeless


def test_competes_names_what_the_gang_could_use_now() -> None:
    nodes = (node("free"), node("part", used=1), node("booked", booked_by="b"))
    places = snapshot(*nodes, offering("od", 1, 9), offering("none", 0, total=4), offering("small", 5, gpu=4))
    assert short(gang(pods("w", 9)), places).competes == {"free", "od"}


def test_findings_say_what_kept_each_out() -> None:
    places = snapshot(
        *racks(2), replace(node("x"), ready=False), offering("od", 0, 9, total=4, unavailable="InsufficientCapacity")
    )
    found = {finding.subject: (finding.detail, finding.pods) for finding in short(gang(pods("w", 3)), places).findings}
    assert found == {
        "2 nodes": ("free", 2),
        "1 node": ("not ready", 0),
        "od": ("0 of 4 available: InsufficientCapacity", 0),
    }


@pytest.mark.parametrize(
    ("place", "named"),
    [
        pytest.param(offering("cr", 0, kind=RESERVED, reservation="cr-1", total=8), True, id="all in use"),
        pytest.param(node("n", labels={ZONE: "a"}, reservation="cr-1", booked_by="bk", used=8), True, id="its node is booked"),
        pytest.param(node("n", labels={ZONE: "a"}, reservation="cr-1", used=8), True, id="pods run on its node"),
        pytest.param(offering("cr", 0, kind=RESERVED, reservation="cr-1", total=8, gpu=4), False, id="too small"),
        pytest.param(offering("cr", 0, kind=RESERVED, reservation="cr-1", total=8, zone="b"), False, id="another zone"),
        pytest.param(node("n", labels={ZONE: "b"}, reservation="cr-1", booked_by="bk"), False, id="its node, in another zone"),
        pytest.param(
            offering("cr", 2, kind=CapacityType.CAPACITY_BLOCK, reservation="cr-1", starts=50), False, id="not yet begun"
        ),
    ],
)
def test_a_reservation_that_is_used_up_is_named_if_it_would_suit(place: Node | Offering, named: bool) -> None:
    use = ReservationUse("cr-1", "p5", "a", 8, 3, 5, 0, 0, 0)
    outcome = short(gang(pods("w", 20, node_selector={ZONE: "a"})), snapshot(place, *racks(2), reservations=(use,)))
    told = "; cr-1: 8 = 3 booked + 5 outside + 0 free" if named else ""
    assert outcome.message == f"2 of 20 pods can be had now{told}"


def test_an_account_adds_up() -> None:
    assert account(ReservationUse("cr", "p5", "a", 8, 3, 0, 0, 0, 5)) == "cr: 8 = 3 booked + 5 free"


def test_describe_a_plan() -> None:
    outcome = plan(gang(pods("w", 7)), snapshot(*racks(5), offering("od", 2, 98_320_000)), ANY)
    assert isinstance(outcome, Plan)
    assert describe(outcome).splitlines() == [
        "g: 7 pods on 7 nodes, $196.64/h more",
        "  buy 2 of gpu8 from od (on-demand, $98.32/h each): 1 w each",
        "  use 5 of p (n0-0, n0-1, n0-2, n0-3 and 1 more): 1 w each",
    ]


def test_describe_a_shortfall() -> None:
    assert describe(short(gang(pods("w", 3)), snapshot(*racks(2)))).splitlines() == [
        "GangIncomplete: 2 of 3 pods can be had now",
        "  waiting can't help: it would not fit even if everything were free",
        "  would fit: with 2 pods of w instead of 3",
        "  looked at for w:",
        "    nodes of pool p: 2 nodes = 2 usable, with room for 2 pods",
    ]


APP = LabelSelector((Expression("app", "In", ("db",)),))
EVEN = Spread(ZONE, 1, APP, honors_affinity=False)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"near": (PodTerm(ZONE, APP, None),)}, id="affinity to pods that run"),
        pytest.param(
            {"spreads": (Spread(ZONE, 1, APP, honors_affinity=False),), "labels": {"app": "db"}}, id="a spread that counts them"
        ),
    ],
)
def test_waiting_may_help_a_gang_that_needs_what_runs_now(rule: dict[str, Any]) -> None:
    """Both nodes of zone a would do, and one is booked. Without what runs in it and in zone b, no two pods could be there."""
    db = Running("team", {"app": "db"})
    near = Bystander("x", {ZONE: "a"}, (db,) if "near" in rule else ())
    beside = (near, Bystander("y", {ZONE: "b"}, (db,)))
    nodes = [node("n", labels={ZONE: "a"}), node("m", labels={ZONE: "a"}, booked_by="bk")]
    wanted = gang(pods("w", 2, required_topology=ZONE, namespace="team", **rule))
    assert not short(wanted, snapshot(*nodes, bystanders=beside)).hopeless
    assert isinstance(plan(wanted, snapshot(nodes[0], replace(nodes[1], booked_by=None), bystanders=beside), ANY), Plan)


def test_domains_without_room_are_not_told_as_unknown() -> None:
    lonely = pods("w", 1, required_topology=ZONE, near=(PodTerm(ZONE, APP, None),))
    outcome = short(gang(lonely), snapshot(node("n", labels={ZONE: "a"})))
    assert outcome.hopeless
    assert outcome.message.startswith(f"needs 1 pods in one {ZONE}; none has room for any; w: has to be near")
