"""On random tiny cases the planner agrees with plain enumeration, and its plans survive any order of scheduling."""

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.model import (
    ZONE,
    CapacityType,
    Gang,
    Node,
    Offering,
    Plan,
    PodSet,
    Preferences,
    Shape,
    Shortfall,
    Snapshot,
    Undecidable,
)
from capacity.plan import plan
from capacity.proof.prove import prove
from tests.capacity.oracle import Case, Host, least_packed_cost, least_safe_cost, packs, scheduled

CPU, GPU = "cpu", "nvidia.com/gpu"
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SMALL = st.tuples(st.integers(0, 3), st.integers(0, 2))
LARGE = st.tuples(st.integers(1, 6), st.integers(0, 4))
LEVELS = st.sampled_from([None, None, ZONE])


@st.composite
def problems(draw: st.DrawFn) -> tuple[Gang, Snapshot, Preferences]:
    """Up to four nodes and two offerings of up to two nodes, two resources, three pod sets, two zones."""
    pod_sets = tuple(
        PodSet(
            name=f"s{index}",
            count=draw(st.sampled_from([0, 1, 1, 2, 2, 3])),
            requests={CPU: cpu, GPU: gpu, "pods": 1},
            node_selector=draw(st.sampled_from([{}, {}, {}, {"fast": "yes"}])),
            required_topology=draw(LEVELS),
        )
        for index, (cpu, gpu) in enumerate(draw(st.lists(SMALL, min_size=1, max_size=3)))
    )
    nodes = tuple(
        Node(
            name=f"n{index}",
            pool="p",
            allocatable={CPU: cpu, GPU: gpu, "pods": 5},
            requested={},
            labels={ZONE: draw(st.sampled_from("ab")), **draw(st.sampled_from([{}, {"fast": "yes"}]))},
            price=draw(st.sampled_from([0, 0, 3])),
        )
        for index, (cpu, gpu) in enumerate(draw(st.lists(LARGE, min_size=1, max_size=4)))
    )
    offerings = tuple(
        Offering(
            name=f"o{index}",
            pool="p",
            source="od",
            shape=Shape(f"t{index}", {CPU: cpu, GPU: gpu, "pods": 5}, labels=draw(st.sampled_from([{}, {"fast": "yes"}]))),
            capacity_type=CapacityType.ON_DEMAND,
            available=(available := draw(st.integers(0, 2))),
            total=available,
            price=draw(st.integers(0, 5)),
            domain={ZONE: draw(st.sampled_from("ab"))},
        )
        for index, (cpu, gpu) in enumerate(draw(st.lists(LARGE, max_size=2)))
    )
    ceiling = draw(st.sampled_from([None, None, 6]))
    return Gang("g", pod_sets), Snapshot(0, nodes, offerings), Preferences(price_ceiling=ceiling)


def as_case(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Case:
    def admits(labels: dict[str, str]) -> tuple[bool, ...]:
        return tuple(all(labels.get(k) == v for k, v in p.node_selector.items()) for p in gang.pod_sets)

    hosts = [
        Host((n.allocatable[CPU], n.allocatable[GPU], 5), admits(dict(n.labels)), n.price, n.labels[ZONE]) for n in snapshot.nodes
    ]
    for o in snapshot.offerings:
        room = (o.shape.allocatable[CPU], o.shape.allocatable[GPU], 5)
        hosts += [Host(room, admits(dict(o.shape.labels)), o.price, o.domain[ZONE])] * o.available
    requests = tuple((p.requests[CPU], p.requests[GPU], 1) for p in gang.pod_sets)
    bound = tuple(p.required_topology is not None and p.count > 0 for p in gang.pod_sets)
    return Case(tuple(hosts), requests, tuple(p.count for p in gang.pod_sets), bound, preferences.price_ceiling)


@given(problems())
@QUICK
def test_agrees_with_enumeration(problem: tuple[Gang, Snapshot, Preferences]) -> None:
    case, outcome = as_case(*problem), plan(*problem)
    if isinstance(outcome, Plan):
        safe, packed = least_safe_cost(case), least_packed_cost(case)
        assert safe is None or outcome.cost <= safe
        assert packed is not None
        assert outcome.cost - outcome.gap <= packed <= outcome.cost
    elif isinstance(outcome, Undecidable):
        assert least_safe_cost(case) is None
        assert packs(case)
    else:
        assert not packs(case)


@given(problems(), st.integers(0, 2**32))
@QUICK
def test_any_order_binds_every_pod(problem: tuple[Gang, Snapshot, Preferences], seed: int) -> None:
    outcome = plan(*problem)
    if isinstance(outcome, Plan):
        assert all(scheduled(outcome, seed + turn) for turn in range(10))


@given(problems())
@QUICK
def test_takes_no_more_than_there_is(problem: tuple[Gang, Snapshot, Preferences]) -> None:
    outcome = plan(*problem)
    if isinstance(outcome, Plan):
        assert prove(outcome, problem[1], problem[2]) == ()
        assert max(Counter(use.node.name for use in outcome.uses).values(), default=0) <= 1
        bought = Counter[str]()
        for purchase in outcome.purchases:
            bought[purchase.offering.name] += purchase.count
        assert all(bought[o.name] <= o.available for o in problem[1].offerings)


@given(problems(), st.randoms(use_true_random=False))
@QUICK
def test_the_order_of_the_input_does_not_matter(problem: tuple[Gang, Snapshot, Preferences], dice: object) -> None:
    gang, snapshot, preferences = problem
    mixed = replace(snapshot, nodes=_shuffled(snapshot.nodes, dice), offerings=_shuffled(snapshot.offerings, dice))
    assert plan(gang, mixed, preferences) == plan(gang, snapshot, preferences)


@given(problems())
@QUICK
def test_a_shortfall_is_hopeless_only_if_emptying_all_would_not_help(problem: tuple[Gang, Snapshot, Preferences]) -> None:
    gang, snapshot, preferences = problem
    busy = replace(snapshot, nodes=tuple(replace(n, booked_by="other") for n in snapshot.nodes))
    outcome = plan(gang, busy, preferences)
    if isinstance(outcome, Shortfall):
        assert outcome.hopeless == isinstance(plan(gang, snapshot, preferences), Shortfall)


def _shuffled(items: tuple[object, ...], dice: object) -> tuple[object, ...]:
    mixed = list(items)
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    return tuple(mixed)
