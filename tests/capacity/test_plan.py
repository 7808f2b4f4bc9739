"""Plans by hand: what is chosen, in the order of the objective."""

from typing import Any

import pytest

from capacity.model import HOSTNAME, ZONE, CapacityType, Outcome, Plan, Preferences, Shortfall, Undecidable
from capacity.plan import plan
from capacity.requirements import Taint
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

RESERVED, OD = CapacityType.RESERVED, CapacityType.ON_DEMAND


def at(zone: str, rack: str) -> dict[str, Any]:
    return {"labels": {ZONE: zone, RACK: rack}}


def nodes(prefix: str, count: int, zone: str = "a", rack: str = "r", **more: Any) -> list[Any]:
    return [node(f"{prefix}{index}", **at(zone, rack), **more) for index in range(count)]


def used(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Plan)
    return [use.node.name for use in outcome.uses]


def bought(outcome: Outcome) -> dict[str, int]:
    assert isinstance(outcome, Plan)
    return {purchase.offering.name: purchase.count for purchase in outcome.purchases}


def test_free_nodes_then_reservations_then_on_demand() -> None:
    outcome = plan(gang(pods("w", 6)), snapshot(node("n"), offering("od", 9, 98), offering("cr", 3, kind=RESERVED)), ANY)
    assert used(outcome) == ["n"]
    assert bought(outcome) == {"cr": 3, "od": 2}
    assert isinstance(outcome, Plan)
    assert outcome.cost == 2 * 98


def test_prepaid_types_follow_the_policy_order() -> None:
    places = snapshot(offering("cr", 2, kind=RESERVED), offering("cb", 2, kind=CapacityType.CAPACITY_BLOCK))
    assert bought(plan(gang(pods("w", 2)), places, ANY)) == {"cr": 2}
    order = Preferences(capacity_order=(CapacityType.CAPACITY_BLOCK, RESERVED))
    assert bought(plan(gang(pods("w", 2)), places, order)) == {"cb": 2}


def test_cost_comes_before_order_and_nodes() -> None:
    places = snapshot(offering("small", 8, 10, gpu=4), offering("big", 8, 25, gpu=8))
    assert bought(plan(gang(pods("w", 4, gpu=4)), places, ANY)) == {"small": 4}


def test_one_price_fewer_nodes() -> None:
    places = snapshot(offering("small", 8, 10, gpu=4), offering("big", 8, 20, gpu=8))
    assert bought(plan(gang(pods("w", 4, gpu=4)), places, ANY)) == {"big": 2}


def test_least_cost_mixes_sizes() -> None:
    """Nine pods: one of 8 slots for 10 and one of 1 slot for 2 make 12; any other mix costs more."""
    places = snapshot(offering("one", 9, 2, gpu=1), offering("eight", 9, 10, gpu=8))
    outcome = plan(gang(pods("w", 9, gpu=1)), places, ANY)
    assert bought(outcome) == {"one": 1, "eight": 1}


def test_types_that_the_policy_leaves_out_are_not_used() -> None:
    assert isinstance(plan(gang(pods("w", 1)), snapshot(offering("q", 1, kind=CapacityType.QUEUED)), ANY), Shortfall)


@pytest.mark.parametrize(
    ("ceiling", "fits"), [pytest.param(200, True, id="at the ceiling"), pytest.param(199, False, id="one below")]
)
def test_price_ceiling(ceiling: int, fits: bool) -> None:
    outcome = plan(gang(pods("w", 2)), snapshot(offering("od", 2, 100)), Preferences(price_ceiling=ceiling))
    assert isinstance(outcome, Plan) is fits


@pytest.mark.parametrize(
    ("run_duration", "fits"),
    [pytest.param(None, False, id="unknown"), pytest.param(3600, True, id="fits"), pytest.param(3601, False, id="too long")],
)
def test_capacity_that_ends(run_duration: int | None, fits: bool) -> None:
    places = snapshot(offering("cb", 1, kind=CapacityType.CAPACITY_BLOCK, ends=4600), now=1000)
    assert isinstance(plan(gang(pods("w", 1), run_duration=run_duration), places, ANY), Plan) is fits


def test_required_level_takes_one_domain_and_the_smallest_that_fits() -> None:
    places = snapshot(*nodes("x", 3, rack="r1"), *nodes("y", 5, rack="r2"), *nodes("z", 4, rack="r3"))
    outcome = plan(gang(pods("w", 4, required_topology=RACK)), places, ANY)
    assert used(outcome) == ["z0", "z1", "z2", "z3"]
    assert isinstance(outcome, Plan)
    assert outcome.domains == {RACK: "r3"}


def test_cost_comes_before_the_size_of_the_domain() -> None:
    places = snapshot(*nodes("x", 4, rack="r1"), *nodes("y", 2, rack="r2"), offering("od", 2, 9, domain={ZONE: "a", RACK: "r2"}))
    assert used(plan(gang(pods("w", 4, required_topology=RACK)), places, ANY)) == ["x0", "x1", "x2", "x3"]


def test_the_policy_level_holds_for_pod_sets_without_their_own() -> None:
    places = snapshot(*nodes("x", 3, rack="r1"), *nodes("y", 3, rack="r2"))
    rack = Preferences(required_topology=RACK)
    assert isinstance(plan(gang(pods("w", 4)), places, rack), Shortfall)
    assert len(used(plan(gang(pods("w", 4, required_topology=ZONE)), places, rack))) == 4


def test_pod_sets_that_name_one_key_share_one_domain() -> None:
    places = snapshot(*nodes("x", 3, rack="r1"), *nodes("y", 3, rack="r2"))
    apart = gang(pods("a", 3, required_topology=RACK), pods("b", 1, required_topology=RACK))
    assert isinstance(plan(apart, places, ANY), Shortfall)
    other = plan(gang(pods("a", 3, required_topology=RACK), pods("b", 1, required_topology=ZONE)), places, ANY)
    assert isinstance(other, Plan)
    assert set(other.domains) == {RACK, ZONE}


def test_what_is_not_known_before_launch_meets_no_required_level() -> None:
    outcome = plan(gang(pods("w", 1, required_topology=RACK)), snapshot(offering("od", 4, 9)), ANY)
    assert isinstance(outcome, Shortfall)
    assert "known to carry" in outcome.message


def test_one_host() -> None:
    four = pods("w", 4, gpu=2, required_topology=HOSTNAME)
    places = snapshot(node("n1", used=2, labels={HOSTNAME: "n1"}), node("n2", labels={HOSTNAME: "n2"}))
    assert used(plan(gang(four), places, ANY)) == ["n2"]
    assert bought(plan(gang(four), snapshot(offering("od", 4, 9)), ANY)) == {"od": 1}
    assert isinstance(plan(gang(pods("w", 5, gpu=2, required_topology=HOSTNAME)), snapshot(offering("od", 4, 9)), ANY), Shortfall)


def test_preferred_level_is_worth_more_than_money() -> None:
    places = snapshot(*nodes("x", 1, rack="r1"), *nodes("y", 1, rack="r2"), offering("od", 2, 9, domain={ZONE: "a", RACK: "r3"}))
    assert bought(plan(gang(pods("w", 2, preferred_topology=RACK)), places, ANY)) == {"od": 2}
    assert used(plan(gang(pods("w", 2)), places, ANY)) == ["x0", "y0"]


def test_preferred_level_is_given_up_one_level_at_a_time() -> None:
    places = snapshot(*nodes("x", 1, "a", "r1"), *nodes("y", 1, "b", "r2"), *nodes("z", 1, "b", "r3"))
    assert used(plan(gang(pods("w", 2, preferred_topology=RACK)), places, ANY)) == ["y0", "z0"]
    assert used(plan(gang(pods("w", 3, preferred_topology=RACK)), places, ANY)) == ["x0", "y0", "z0"]


def test_the_smallest_domain_that_holds_all_is_used_even_where_none_is_asked_for() -> None:
    places = snapshot(*nodes("x", 5, rack="r1"), *nodes("y", 3, rack="r2"), *nodes("z", 1, rack="r3"))
    assert used(plan(gang(pods("w", 3)), places, ANY)) == ["y0", "y1", "y2"]


def test_where_no_domain_holds_all_the_largest_is_taken_whole() -> None:
    places = snapshot(*nodes("x", 5, rack="r1"), *nodes("y", 3, rack="r2"), *nodes("z", 1, rack="r3"))
    assert used(plan(gang(pods("w", 6)), places, ANY)) == ["x0", "x1", "x2", "x3", "x4", "z0"]


def test_the_fuller_node_is_used_up_first() -> None:
    assert used(plan(gang(pods("w", 1, gpu=2)), snapshot(node("empty"), node("half", used=6)), ANY)) == ["half"]


def test_pod_sets_that_never_compete_share_a_node() -> None:
    outcome = plan(gang(pods("leader", 1, gpu=0, cpu=4000), pods("worker", 2, cpu=8000)), snapshot(node("n1"), node("n2")), ANY)
    assert isinstance(outcome, Plan)
    assert sorted(sorted(use.pods) for use in outcome.uses) == [["leader", "worker"], ["worker"]]


def test_pod_sets_that_compete_get_nodes_of_their_own() -> None:
    """4-GPU pods could take the 8-GPU pod's node: reproduced on the real scheduler (two 4-GPU pods first, then none is whole)."""
    mixed = gang(pods("half", 2, gpu=4), pods("whole", 1, gpu=8))
    outcome = plan(mixed, snapshot(node("n1"), node("n2")), ANY)
    assert isinstance(outcome, Plan)
    assert sorted(str(dict(use.pods)) for use in outcome.uses) == ["{'half': 2}", "{'whole': 1}"]


def test_a_lucky_order_is_not_a_plan() -> None:
    """Each of two nodes holds 5 + 3, and nothing else works: pods of three taken first could fill one node."""
    mixed = gang(pods("five", 2, gpu=5), pods("three", 2, gpu=3))
    outcome = plan(mixed, snapshot(node("n1"), node("n2")), ANY)
    assert isinstance(outcome, Undecidable)
    assert "lucky order" in outcome.reasons[0]


def test_what_is_not_modelled_is_undecidable() -> None:
    outcome = plan(gang(pods("w", 1, undecidable=("PVC data",))), snapshot(node("n")), ANY)
    assert outcome == Undecidable(("w: PVC data",), lasting=True)
    assert isinstance(plan(gang(pods("w", 0, undecidable=("PVC",)), pods("v", 1)), snapshot(node("n")), ANY), Plan)


def test_what_is_not_there_yet_may_come() -> None:
    outcome = plan(gang(pods("w", 1, awaits=("PVC data",))), snapshot(node("n")), ANY)
    assert outcome == Undecidable(("w: PVC data",), lasting=False)
    both = gang(pods("w", 1, awaits=("PVC data",)), pods("v", 1, undecidable=("a resource claim",)))
    assert plan(both, snapshot(node("n")), ANY) == Undecidable(("w: PVC data", "v: a resource claim"), lasting=True)


def test_a_gang_of_nothing_has_an_empty_plan() -> None:
    outcome = plan(gang(pods("w", 0)), snapshot(), ANY)
    assert isinstance(outcome, Plan)
    assert (outcome.uses, outcome.purchases, outcome.cost) == ((), (), 0)


def test_taints_and_selectors_keep_pods_apart() -> None:
    places = snapshot(node("bad", taints=(Taint("gpu", "NoSchedule"),)), node("good", labels={"team": "a"}))
    assert used(plan(gang(pods("w", 1, node_selector={"team": "a"})), places, ANY)) == ["good"]


def test_slots_count_what_the_scheduler_may_put_on_each() -> None:
    outcome = plan(gang(pods("w", 5, gpu=2)), snapshot(offering("od", 9, 7)), ANY)
    assert isinstance(outcome, Plan)
    assert [(purchase.count, dict(purchase.pods)) for purchase in outcome.purchases] == [(2, {"w": 4})]


def test_surplus_nodes_are_not_marked() -> None:
    outcome = plan(gang(pods("leader", 1, gpu=0, cpu=4000), pods("worker", 16, cpu=8000)), snapshot(offering("od", 16, 7)), ANY)
    assert isinstance(outcome, Plan)
    counts = {tuple(sorted(purchase.pods)): purchase.count for purchase in outcome.purchases}
    assert counts == {("leader", "worker"): 1, ("worker",): 15}


def test_a_node_that_is_there_goes_before_one_that_must_be_bought() -> None:
    """Even where buying would leave the larger domain whole."""
    places = snapshot(*nodes("idle", 3, capacity_type=RESERVED), offering("cr", 1, kind=RESERVED, zone="b"))
    assert used(plan(gang(pods("w", 1)), places, ANY)) == ["idle0"]


def test_too_many_mixes_to_list_are_no_reason_to_guess() -> None:
    """Thirty of each by whole cores: over four hundred mixes a node. 180 cores on 183 may fit, on 60 they can't."""
    mixed = gang(*(pods(name, 30, gpu=0, cpu=cores * 1000) for name, cores in (("one", 1), ("two", 2), ("three", 3))))
    three = [node(f"n{index}", allocatable={"cpu": 61_000, "pods": 110}) for index in range(3)]
    outcome = plan(mixed, snapshot(*three), ANY)
    assert isinstance(outcome, Undecidable)
    assert isinstance(plan(mixed, snapshot(node("n1", allocatable={"cpu": 60_000, "pods": 110})), ANY), Shortfall)


def test_a_search_that_is_cut_off_says_how_much_could_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller rack comes first: two nodes at 9. In the larger they are at 5; the bound is one such node, for a pod alone."""
    small = offering("small", 2, 9, domain={RACK: "r1"})
    large = offering("large", 3, 5, domain={RACK: "r2"})
    wanted = gang(pods("a", 1, 8, required_topology=RACK), pods("b", 1, 5, required_topology=RACK))
    best = plan(wanted, snapshot(small, large), ANY)
    assert isinstance(best, Plan)
    assert (best.cost, best.gap) == (10, 0)
    monkeypatch.setattr("capacity.programme.search.MAX_WORK", 0)
    first = plan(wanted, snapshot(small, large), ANY)
    assert isinstance(first, Plan)
    assert (first.cost, first.gap) == (18, 13)
