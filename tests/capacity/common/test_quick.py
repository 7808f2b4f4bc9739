"""The quick answer is the search's: same price, broken levels, ranks, slots and nodes, on random snapshots; and it stands up to
its proof.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity.common import quick
from capacity.fit import host, needs, new_host, slots
from capacity.index.fleet import Fleet
from capacity.model import (
    HOSTNAME,
    ZONE,
    Budget,
    Bystander,
    CapacityType,
    Gang,
    Node,
    Offering,
    Plan,
    Preferences,
    Running,
    Shape,
    Snapshot,
)
from capacity.programme.question import question
from capacity.programme.search import find
from capacity.proof.prove import prove
from capacity.requirements import Expression, LabelSelector, NodeSelectorTerm, PodTerm, Taint, Toleration
from tests.capacity.make import ANY, BIG, GPU, RACK, gang, node, offering, pods, snapshot

KINDS = (None, None, CapacityType.RESERVED, CapacityType.ON_DEMAND, CapacityType.CAPACITY_BLOCK)
LEVELS = st.sampled_from([None, None, ZONE, RACK])
TAINT = Taint("gpu", "NoSchedule")


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Node:
    zone = draw(st.sampled_from("ab"))
    return node(
        f"n{draw(st.integers(0, 9))}-{index}",
        gpu=draw(st.sampled_from([1, 2, 4, 8, 8])),
        used=draw(st.sampled_from([0, 0, 1, 3])),
        labels=draw(st.sampled_from([{}, {ZONE: zone}])) | draw(st.sampled_from([{RACK: f"{zone}{index % 3}"}, {RACK: ""}, {}])),
        taints=draw(st.sampled_from([(), (), (TAINT,)])),
        capacity_type=draw(st.sampled_from(KINDS)),
        price=draw(st.sampled_from([0, 0, 0, 5])),
        ends=draw(st.sampled_from([None, None, 100])),
        ready=draw(st.sampled_from([True, True, True, False])),
        booked_by=draw(st.sampled_from([None, None, None, "other"])),
    )


@st.composite
def offers(draw: st.DrawFn, index: int) -> Offering:
    zone = draw(st.sampled_from("ab"))
    where = draw(st.sampled_from([{ZONE: zone}, {ZONE: zone, RACK: f"{zone}{index % 3}"}]))
    kind = draw(st.sampled_from([CapacityType.RESERVED, CapacityType.ON_DEMAND, CapacityType.QUEUED]))
    gpu, price, there = draw(st.sampled_from([1, 4, 8])), draw(st.integers(0, 12)), draw(st.integers(0, 4))
    return offering(f"o{index}", there, price, kind, gpu=gpu, domain=where, ends=draw(st.sampled_from([None, None, 60])))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Gang, Snapshot, Preferences]:
    there = [draw(nodes(index)) for index in range(draw(st.integers(0, 14)))]
    bought = [draw(offers(index)) for index in range(draw(st.integers(0, 4)))]
    affinity = (NodeSelectorTerm((Expression(ZONE, "In", ("a",)),)), NodeSelectorTerm((Expression(RACK, "Exists"),)))
    asked = pods(
        "w",
        draw(st.integers(1, 14)),
        gpu=draw(st.sampled_from([1, 2, 3, 8])),
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
        node_selector=draw(st.sampled_from([{}, {}, {ZONE: "a"}])),
        affinity=draw(st.sampled_from([None, None, affinity])),
        required_topology=draw(LEVELS),
        preferred_topology=draw(LEVELS),
    )
    order = draw(st.sampled_from([ANY.capacity_order, (CapacityType.ON_DEMAND, CapacityType.RESERVED)]))
    preferences = Preferences(
        order,
        required_topology=draw(LEVELS),
        preferred_topology=draw(LEVELS),
        price_ceiling=draw(st.sampled_from([None, None, 20])),
    )
    wanted = gang(pods("none", 0), asked, run_duration=draw(st.sampled_from([None, 50, 90])))
    return wanted, snapshot(*there, *bought, now=draw(st.sampled_from([0, 20]))), preferences


def worth(plan: Plan, preferences: Preferences) -> tuple[tuple[int, ...], int]:
    """Price, ranks, slots and nodes of a plan."""
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)} | {None: 0}
    parts = [(use.node.price, ranks[use.node.capacity_type], use.pods["w"], 1) for use in plan.uses]
    parts += [(p.offering.price, ranks[p.offering.capacity_type] + 1, p.pods["w"], p.count) for p in plan.purchases]
    return tuple(sum(part[place] * part[3] for part in parts) for place in range(3)), sum(part[3] for part in parts)


@given(problems())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_as_the_search(problem: tuple[Gang, Snapshot, Preferences]) -> None:
    _, here, preferences = problem
    settled, expected = quick.answer(*problem), find(question(*problem))
    assert settled is not None
    found = settled.plan
    assert (found is None) == (expected is None)
    if found and expected:
        assert found.cost == expected.cost
        assert prove(found, here, preferences) == ()
        assert found.domains.keys() == expected.domains.keys()
        assert worth(found, preferences)[0][:2] == worth(expected, preferences)[0][:2]
        if _keeps(
            found, preferences
        ):  # else the fewest domains of the level given up go first, of which the search knows nothing
            assert found.domains == expected.domains
            assert worth(found, preferences) == worth(expected, preferences)


def _keeps(plan: Plan, preferences: Preferences) -> bool:
    wished = plan.gang.pod_sets[-1].preferred_topology or preferences.preferred_topology
    return wished is None or wished in plan.domains


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_order_of_the_input_does_not_matter(problem: tuple[Gang, Snapshot, Preferences], dice: Any) -> None:
    asked, here, preferences = problem
    mixed = replace(here, nodes=_shuffled(here.nodes, dice), offerings=_shuffled(here.offerings, dice))
    assert quick.answer(asked, mixed, preferences) == quick.answer(asked, here, preferences)


def _shuffled(items: tuple[Any, ...], dice: Any) -> tuple[Any, ...]:
    mixed = list(items)
    dice.shuffle(mixed)
    return tuple(mixed)


@given(problems(), st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_fleet_that_has_changed_answers_as_a_new_one(problem: tuple[Gang, Snapshot, Preferences], data: st.DataObject) -> None:
    asked, here, preferences = problem
    fleet = Fleet(here.nodes)
    for turn in range(data.draw(st.integers(1, 4))):
        quick.answer(asked, replace(here, nodes=fleet.stock().nodes, stock=fleet.stock()), preferences)
        if data.draw(st.booleans()) or not len(fleet):
            fleet.put(data.draw(nodes(20 + turn)))
        else:
            known = data.draw(st.sampled_from(fleet.stock().nodes))
            fleet.remove(known.name)
            if data.draw(st.booleans()):
                fleet.put(replace(known, requested={GPU: 1}, labels={ZONE: "c", RACK: "c0"}))
    stock = fleet.stock()
    there = replace(here, nodes=stock.nodes, stock=stock)
    assert quick.answer(asked, there, preferences) == quick.answer(asked, replace(there, stock=None), preferences)


def answered(asked: Gang, here: Snapshot, preferences: Preferences = ANY) -> Plan | None:
    settled = quick.answer(asked, here, preferences)
    assert settled is not None
    return settled.plan


TERM = PodTerm(ZONE, LabelSelector(()), None)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"near": (TERM,)}, id="affinity"),
        pytest.param({"apart": (TERM,)}, id="anti-affinity"),
        pytest.param({"placed_by_kueue": True}, id="placed by Kueue"),
        pytest.param({"required_topology": HOSTNAME}, id="one host"),
        pytest.param({"undecidable": ("a resource claim",)}, id="undecidable"),
        pytest.param(
            {"affinity": (NodeSelectorTerm((), (Expression("metadata.name", "In", ("n",)),)),)}, id="a node asked for by name"
        ),
    ],
)
def test_what_is_not_for_here(more: Mapping[str, Any]) -> None:
    assert quick.answer(gang(pods("w", 1, **more)), snapshot(node("n")), ANY) is None


def test_two_pod_sets_are_not_for_here() -> None:
    assert quick.answer(gang(pods("a", 1), pods("b", 1)), snapshot(node("n")), ANY) is None


@pytest.mark.parametrize(
    ("namespace", "ours"), [pytest.param("x", False, id="selected"), pytest.param("y", True, id="not selected")]
)
def test_running_pods_that_keep_others_off(namespace: str, ours: bool) -> None:
    shy = Running("x", {}, apart=(PodTerm(ZONE, LabelSelector(()), frozenset({"x"})),))
    asked = gang(pods("w", 1, namespace=namespace))
    assert (quick.answer(asked, snapshot(node("n", pods=(shy,))), ANY) is not None) is ours
    here = replace(snapshot(node("n")), bystanders=(Bystander("other", {}, (shy,)),))
    assert (quick.answer(asked, here, ANY) is not None) is ours


def test_a_shared_limit_that_the_best_plan_breaks_is_for_the_search() -> None:
    here = snapshot(offering("od", 4, 9))
    limits = [replace(here, budgets=(Budget("nodes", {"od": 1}, left, 9),)) for left in (2, 1)]
    assert answered(gang(pods("w", 2)), limits[0]) is not None
    assert quick.answer(gang(pods("w", 2)), limits[1], ANY) is None


def test_fullest_nodes_of_the_smallest_domain() -> None:
    at = {ZONE: "a", RACK: "r1"}
    places = [node(f"n{i}", labels=at, requested={GPU: 0, "cpu": 1000 * i}) for i in range(4)]
    places += [node(f"m{i}", labels=at | {RACK: "r2"}) for i in range(5)]
    found = answered(gang(pods("w", 2, required_topology=RACK)), snapshot(*places))
    assert found is not None
    assert [use.node.name for use in found.uses] == ["n2", "n3"]
    assert found.domains == {RACK: "r1"}


def test_thousands_of_nodes() -> None:
    """1,000 racks of 4 nodes, 3 in the last: the gang of 12 pods at 4 a node needs 3 nodes, and these are left whole for it."""
    places = [node(f"n{i:04}", labels={ZONE: "a", RACK: f"r{i // 4}"}) for i in range(4000)][:-1]
    found = answered(gang(pods("w", 6, gpu=4, required_topology=RACK)), snapshot(*places))
    assert found is not None
    assert [use.node.name for use in found.uses] == ["n3996", "n3997", "n3998"]


def test_offering_of_shapes_that_change_is_judged_again() -> None:
    """The same name, another shape: eight slots a node, then four."""
    here = snapshot(offering("od", 4, 9))
    fleet = Fleet()
    for gpu, count in ((8, 1), (4, 2)):
        offerings = (replace(here.offerings[0], shape=Shape("s", {**BIG, GPU: gpu})),)
        there = replace(here, offerings=offerings, nodes=fleet.stock().nodes, stock=fleet.stock())
        found = answered(gang(pods("w", 8, gpu=1)), there)
        assert found is not None
        assert [(one.count, dict(one.pods)) for one in found.purchases] == [(count, {"w": gpu})]


def test_the_slots_of_new_nodes() -> None:
    """What a new node is sure to have is what fit.slots says of it."""
    one = offering("od", 1, 9, shape=Shape("s", BIG, overhead={"cpu": 191_000}))
    asked = pods("w", 1, gpu=1, cpu=500)
    assert slots(needs(asked), new_host(one, (ZONE,)).free) == 2
    assert slots(needs(asked), host(node("n", requested={"cpu": 191_000})).free) == 2
    found = answered(gang(pods("w", 4, gpu=1, cpu=500)), snapshot(replace(one, available=2)))
    assert found is not None
    assert found.purchases[0].count == 2
