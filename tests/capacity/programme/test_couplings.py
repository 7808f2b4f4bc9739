"""Rules among the pods of a gang: what is planned survives every order, what is refused fits in none."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import (
    HOSTNAME,
    ZONE,
    Budget,
    Exclusive,
    Outcome,
    Plan,
    PodSet,
    Running,
    Shape,
    Shortfall,
    Slices,
    Undecidable,
    Use,
)
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, PodTerm, Spread
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods, snapshot
from tests.capacity.scheduling import binds_all

APP = LabelSelector((Expression("app", "In", ("x",)),))
OWN = frozenset({""})


def near(key: str) -> PodTerm:
    return PodTerm(key, APP, OWN)


def racks(*sizes: int, **more: Any) -> tuple[Any, ...]:
    """One node of so many GPUs for each size, two nodes a rack, two racks a zone."""
    return tuple(
        node(f"n{i}", gpu=size, labels={ZONE: f"z{i // 4}", RACK: f"r{i // 2}", HOSTNAME: f"n{i}"}, **more)
        for i, size in enumerate(sizes)
    )


def app(count: int, gpu: int = 1, **more: Any) -> PodSet:
    return pods("w", count, gpu=gpu, labels={"app": "x"}, **more)


def where(outcome: Outcome, name: str = "w") -> dict[str, int]:
    assert isinstance(outcome, Plan), outcome
    return {use.node.name: use.pods[name] for use in outcome.uses if name in use.pods}


def survives(outcome: Outcome) -> bool:
    return isinstance(outcome, Plan) and all(binds_all(outcome, seed) for seed in range(40))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(
            {"slices": Slices(RACK, 4)},
            "w: 6 pods are no whole slices of 4: ask for a multiple of 4, or for slices of another size",
            id="slices",
        ),
        pytest.param(
            {"exclusive": Exclusive(RACK, APP, 4)},
            "w: 6 pods are no whole units of 4: ask for a multiple of 4, or for units of another size",
            id="exclusive units",
        ),
    ],
)
def test_pods_that_are_no_whole_units_are_told_how_many_would_be(rule: dict[str, Any], text: str) -> None:
    assert plan(gang(app(6, **rule)), snapshot(*racks(8, 8)), ANY) == Undecidable((text,), lasting=True)


@pytest.mark.parametrize(
    ("pod_set", "sizes", "fits"),
    [
        pytest.param(app(4, near=(near(RACK),)), (2, 2, 3, 1), True, id="all in one rack, by its own affinity"),
        pytest.param(app(5, near=(near(RACK),)), (2, 2, 3, 1), False, id="one too many for any rack"),
        pytest.param(app(2, apart=(near(RACK),)), (8, 8, 8, 8), True, id="one in each rack"),
        pytest.param(app(3, apart=(near(RACK),)), (8, 8, 8, 8), False, id="more pods than racks"),
        pytest.param(app(4, apart=(near(HOSTNAME),)), (8, 8, 8, 8), True, id="one on each host"),
        pytest.param(app(5, apart=(near(HOSTNAME),)), (8, 8, 8, 8), False, id="more pods than hosts"),
        pytest.param(app(2, near=(near(ZONE),), apart=(near(RACK),)), (1, 1, 1, 1), True, id="one zone, two racks"),
        # racks of 4 and 2: the smaller is full at 2, so the larger takes up to 2 + skew
        pytest.param(app(5, spreads=(Spread(RACK, 1, APP),)), (2, 2, 1, 1), True, id="spread up to the skew"),
        pytest.param(app(6, spreads=(Spread(RACK, 1, APP),)), (2, 2, 1, 1), False, id="spread beyond the skew"),
        pytest.param(app(6, spreads=(Spread(RACK, 2, APP),)), (2, 2, 1, 1), True, id="a wider skew"),
        pytest.param(app(4, spreads=(Spread(RACK, 1, APP),)), (2, 2), True, id="one domain is even by itself"),
        pytest.param(
            app(4, spreads=(Spread(RACK, 1, APP, min_domains=2),)), (2, 2), False, id="too few domains count as an empty one"
        ),
        pytest.param(app(1, spreads=(Spread(RACK, 1, APP, min_domains=2),)), (2, 2), True, id="the skew over nothing"),
        pytest.param(app(7, spreads=(Spread(HOSTNAME, 1, APP),)), (3, 2, 2), True, id="over hosts"),
        pytest.param(app(8, spreads=(Spread(HOSTNAME, 1, APP),)), (5, 2, 2), False, id="over hosts beyond the skew"),
        pytest.param(app(8, spreads=(Spread(HOSTNAME, 2, APP),)), (5, 2, 2), True, id="over hosts, a wider skew"),
        pytest.param(app(40, spreads=(Spread(HOSTNAME, 1, APP),)), (20, 20), True, id="over hosts with many pods on each"),
        pytest.param(app(41, spreads=(Spread(HOSTNAME, 1, APP),)), (20, 20), False, id="one more than both hold"),
        pytest.param(app(40, spreads=(Spread(HOSTNAME, 1, APP),)), (40, 1), True, id="all on one host"),
        pytest.param(app(9, spreads=(Spread(RACK, 1, LabelSelector()),)), (8, 1), True, id="an empty selector counts nobody"),
        pytest.param(app(4, exclusive=Exclusive(RACK, APP, 2)), (1, 1, 2, 1), True, id="units in racks of their own"),
        pytest.param(app(6, exclusive=Exclusive(RACK, APP, 2)), (4, 4, 2, 2), False, id="a rack holds one unit only"),
        pytest.param(
            app(8, slices=Slices(RACK, 4), placed_by_kueue=True), (3, 2, 4, 3), True, id="whole slices, pinned by Kueue"
        ),
        pytest.param(app(12, slices=Slices(RACK, 4), placed_by_kueue=True), (3, 3, 3, 4), False, id="a slice too many"),
    ],
)
def test_one_pod_set(pod_set: PodSet, sizes: tuple[int, ...], fits: bool) -> None:
    outcome = plan(gang(pod_set), snapshot(*racks(*sizes)), ANY)
    assert isinstance(outcome, Plan if fits else Shortfall), outcome
    assert not fits or pod_set.placed_by_kueue or survives(outcome)


def test_slices_that_nobody_pins_fill_their_domains_to_the_last_slot() -> None:
    assert where(plan(gang(app(8, slices=Slices(RACK, 4))), snapshot(*racks(2, 2, 3, 1)), ANY)) == {
        "n0": 2,
        "n1": 2,
        "n2": 3,
        "n3": 1,
    }
    assert isinstance(plan(gang(app(8, slices=Slices(RACK, 4))), snapshot(*racks(3, 2, 3, 2)), ANY), Undecidable)


def test_a_running_pod_counts_in_its_domain() -> None:
    first, *rest = racks(8, 8, 8, 8)
    busy = replace(first, pods=(Running("", {"app": "x"}),))
    assert set(where(plan(gang(app(1, apart=(near(RACK),))), snapshot(busy, *rest), ANY))) <= {"n2", "n3"}
    assert set(where(plan(gang(app(2, near=(near(RACK),))), snapshot(busy, *rest), ANY))) <= {"n0", "n1"}
    wary = replace(first, pods=(Running("", {}, apart=(near(RACK),)),))
    assert set(where(plan(gang(app(1)), snapshot(wary, *rest), ANY))) <= {"n2", "n3"}
    even = plan(gang(app(5, spreads=(Spread(RACK, 1, APP),))), snapshot(busy, *rest), ANY)
    assert survives(even)


@pytest.mark.parametrize(
    ("running", "skew", "count", "fits"),
    [
        pytest.param((5, 6), 1, 4, True, id="evened out, then one each"),
        pytest.param((9, 0), 1, 6, True, id="only where none run"),
        pytest.param((9, 0), 1, 9, False, id="the emptier is full at eight, nine are one above it"),
        pytest.param((9, 0), 2, 9, True, id="one more on the fuller"),
    ],
)
def test_running_pods_count_on_their_hosts(running: tuple[int, int], skew: int, count: int, fits: bool) -> None:
    """Two hosts with room for eight more each; a second spread over racks counts the same pods, and never stands in the way."""
    busy = [replace(one, pods=(Running("", {"app": "x"}),) * n) for one, n in zip(racks(8, 8), running, strict=True)]
    spreads = (Spread(HOSTNAME, skew, APP), Spread(RACK, 1, APP))
    outcome = plan(gang(app(count, spreads=spreads)), snapshot(*busy), ANY)
    assert isinstance(outcome, Plan if fits else Shortfall), outcome


WHEREVER = Spread(HOSTNAME, 1, APP, honors_affinity=False)


@pytest.mark.parametrize(
    ("spread", "count", "sizes", "fits"),
    [
        pytest.param(WHEREVER, 6, (3, 3), True, id="all hosts there are filled evenly"),
        pytest.param(WHEREVER, 3, (8, 1, 0), False, id="one host stays empty: one pod on each other"),
        pytest.param(replace(WHEREVER, max_skew=2), 3, (8, 1, 0), True, id="two above the host that stays empty"),
    ],
)
def test_a_spread_over_all_hosts_there_are(spread: Spread, count: int, sizes: tuple[int, ...], fits: bool) -> None:
    outcome = plan(gang(app(count, spreads=(spread,))), snapshot(*racks(*sizes)), ANY)
    assert isinstance(outcome, Plan if fits else Shortfall), outcome


def test_a_zone_that_is_bought_into_counts_towards_the_least_number_of_domains() -> None:
    """Two pods in each of two zones, of which one is there only once a node is bought in it."""
    spread = Spread(ZONE, 1, APP, min_domains=2, honors_affinity=False)
    there = snapshot(node("n", 2, labels={ZONE: "a"}), offering("o", 1, 5, gpu=2, zone="b"))
    assert isinstance(plan(gang(app(4, spreads=(spread,))), there, ANY), Plan)
    assert isinstance(plan(gang(app(4, spreads=(replace(spread, min_domains=3),))), there, ANY), Shortfall)


def test_a_limit_that_is_overdrawn_forbids_only_what_counts_against_it() -> None:
    there = snapshot(node("n"), offering("o", 2, 5), budgets=(Budget("one node", {"o": 1}, -1, 1),))
    assert where(plan(gang(pods("a", 1, 3), pods("b", 1, 5)), there, ANY), "b") == {"n": 1}


def test_pod_sets_that_keep_apart_get_domains_of_their_own() -> None:
    other = pods("v", 2, gpu=1, labels={"app": "y"}, apart=(near(RACK),))
    outcome = plan(gang(app(2), other), snapshot(*racks(8, 8, 8, 8)), ANY)
    assert {name[1] in "01" for name in where(outcome)} != {name[1] in "01" for name in where(outcome, "v")}
    assert isinstance(plan(gang(app(2), other), snapshot(*racks(8, 8)), ANY), Shortfall)


def test_a_pod_set_that_follows_another_is_put_in_its_domain() -> None:
    follower = pods("f", 3, gpu=1, near=(near(RACK),))
    outcome = plan(gang(app(1, gpu=8), follower), snapshot(*racks(8, 2, 8, 3)), ANY)
    assert where(outcome) == {"n2": 1}
    assert where(outcome, "f") == {"n3": 3}
    assert isinstance(plan(gang(follower), snapshot(*racks(8, 8)), ANY), Shortfall)


def test_two_that_each_wait_for_the_other_never_start() -> None:
    y = PodTerm(RACK, LabelSelector((Expression("app", "In", ("y",)),)), OWN)
    outcome = plan(gang(app(1, near=(y,)), pods("v", 1, labels={"app": "y"}, near=(near(RACK),))), snapshot(*racks(8, 8)), ANY)
    assert isinstance(outcome, Shortfall)


def test_pod_sets_that_differ_in_name_only_share_all_slots() -> None:
    """Three nodes of 3 slots hold 4 + 5 pods only if they may mix."""
    outcome = plan(gang(pods("a", 4, gpu=1), pods("b", 5, gpu=1)), snapshot(*racks(3, 3, 3)), ANY)
    assert survives(outcome)


def test_sharing_is_proven_over_all_nodes_together() -> None:
    """Workers of 1 GPU and 8 CPUs, drivers of 4 CPUs: no node is safe for both, both nodes together are."""
    big = {"cpu": 80_000, "pods": 110, GPU: 8}
    here = snapshot(*[node(f"n{i}", allocatable=big, requested={}, labels={RACK: f"r{i}"}) for i in range(2)])
    outcome = plan(gang(pods("w", 13, gpu=1, cpu=8_000), pods("d", 8, gpu=0, cpu=4_000)), here, ANY)
    assert survives(outcome)


def test_another_zone_is_weighed() -> None:
    """Two idle reserved nodes elsewhere save 2 x $5 and cost 2 x the policy's price of crossing."""
    here = snapshot(
        *racks(8, 8),
        offering("od", 9, price=5, domain={ZONE: "z0"}),
        node("far1", labels={ZONE: "z9"}),
        node("far2", labels={ZONE: "z9"}),
    )
    four = gang(pods("w", 4))
    near_, far = (plan(four, here, replace(ANY, cross_zone_cost=cost)) for cost in (6, 4))
    assert isinstance(near_, Plan)
    assert isinstance(far, Plan)
    assert (near_.cost, sum(purchase.count for purchase in near_.purchases)) == (10, 2)
    assert (far.cost, len(far.uses)) == (0, 4)


KEYS = st.sampled_from([RACK, ZONE, HOSTNAME])


@st.composite
def coupled(draw: st.DrawFn) -> PodSet:
    kind = draw(st.sampled_from(["near", "apart", "spread", "two spreads", "both"]))
    rules: dict[str, Any] = {}
    if kind in ("near", "both"):
        rules["near"] = (near(draw(st.sampled_from([RACK, ZONE]))),)
    if kind in ("apart", "both"):
        rules["apart"] = (near(draw(KEYS)),)
    if "spread" in kind:
        count = 2 if kind.startswith("two") else 1
        rules["spreads"] = tuple(
            Spread(key, draw(st.integers(1, 2)), APP, min_domains=draw(st.integers(1, 3)))
            for key in draw(st.lists(KEYS, min_size=count, max_size=count, unique=True))
        )
    return app(draw(st.integers(1, 7)), **rules)


@given(coupled(), st.lists(st.integers(0, 4), min_size=2, max_size=6), st.integers(0, 3), st.integers(0, 2**20))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_planned_survives_random_orders(pod_set: PodSet, sizes: list[int], beside: int, seed: int) -> None:
    fellows = [pods("v", beside, gpu=1)] if beside else []
    outcome = plan(gang(pod_set, *fellows), snapshot(*racks(*sizes)), ANY)
    if isinstance(outcome, Plan):
        assert all(binds_all(outcome, seed + turn) for turn in range(15))


@given(coupled(), st.lists(st.integers(0, 4), min_size=2, max_size=6), st.integers(0, 2**20))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_refused_fits_in_no_order_on_any_nodes(pod_set: PodSet, sizes: list[int], seed: int) -> None:
    here = snapshot(*racks(*sizes))
    outcome = plan(gang(pod_set), here, ANY)
    if isinstance(outcome, Shortfall):
        everywhere = Plan(gang(pod_set), tuple(_use(one) for one in here.nodes), (), 0)
        assert not any(binds_all(everywhere, seed + turn) for turn in range(15))


def _use(one: Any) -> Use:

    return Use(one, {"w": 1})


def test_in_one_domain_slices_are_whole_whatever_the_slots() -> None:
    """Rack r1 has 3 slots and a slice of two: nobody fills it to the last slot, and nobody needs to."""
    assert sum(where(plan(gang(app(2, slices=Slices(RACK, 2))), snapshot(*racks(1, 0, 3, 0)), ANY)).values()) >= 2
    assert isinstance(plan(gang(app(4, slices=Slices(RACK, 2))), snapshot(*racks(3, 0, 3, 0)), ANY), Undecidable)


def test_pods_of_daemon_sets_on_nodes_to_be_bought_are_not_guessed_at() -> None:
    """What runs there would meet the affinity in its rack, or break the anti-affinity in it."""
    shape = Shape("s", {"cpu": 8_000, "pods": 10, GPU: 8}, pods=(Running("", {"app": "x"}),))
    here = snapshot(offering("od", 2, shape=shape, domain={ZONE: "z0", RACK: "r0"}))
    follower = pods("f", 1, gpu=1, near=(near(RACK),))
    assert isinstance(plan(gang(follower), here, ANY), Undecidable)
    assert isinstance(plan(gang(replace(follower, near=(), apart=(near(RACK),))), here, ANY), Undecidable)
    assert isinstance(plan(gang(replace(follower, near=())), here, ANY), Plan)


def test_a_spread_that_counts_only_others_is_looked_at_as_it_stands() -> None:
    first, second, *_ = racks(1, 0, 1, 0)
    crowded = replace(first, pods=(Running("", {"app": "x"}),) * 2)
    far = replace(second, labels={**second.labels, RACK: "r9"}, allocatable={"cpu": 1_000, "pods": 9, GPU: 1})
    stranger = pods("w", 2, gpu=1, spreads=(Spread(RACK, 2, APP),))
    assert survives(plan(gang(stranger), snapshot(crowded, far), ANY))
    assert isinstance(plan(gang(replace(stranger, spreads=(Spread(RACK, 1, APP),))), snapshot(crowded, far), ANY), Undecidable)
    assert isinstance(plan(gang(replace(stranger, count=3)), snapshot(crowded, far), ANY), Shortfall)


def test_slots_are_taken_in_reserve_for_what_others_may_take() -> None:
    """Three nodes of 7 hold a 4 and a 3 each; two 3s on one of them cost a 4 its place, which a fourth node gives it."""
    offer = offering("od", 3, price=5, shape=Shape("g7", {"cpu": 8_000, "pods": 10, GPU: 7}))
    outcome = plan(gang(pods("a", 3, gpu=4), pods("b", 3, gpu=3)), snapshot(*racks(6, 2), offer), ANY)
    assert survives(outcome)
    assert isinstance(outcome, Plan)
    assert (outcome.cost, outcome.gap, len(outcome.uses)) == (15, 0, 1)


def test_hosts_where_running_pods_meet_the_affinity_need_no_other() -> None:
    """Workers of 2 on 4, 3 and 3, leaders of 1 beside them: it takes luck to keep the leaders apart, but it can be."""
    hosts = [replace(one, pods=(Running("", {"app": "x"}),)) for one in racks(4, 3, 3)]
    workers, leaders = pods("w", 4, gpu=2, near=(near(HOSTNAME),)), replace(app(2), name="l")
    assert isinstance(plan(gang(workers, leaders), snapshot(*hosts), ANY), Undecidable)
    assert isinstance(plan(gang(replace(workers, count=5), leaders), snapshot(*hosts), ANY), Shortfall)
