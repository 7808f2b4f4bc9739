"""The quick answer is the search's: same price, broken levels, ranks, slots and nodes, on random snapshots; and it stands up to
its proof.
"""


from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity import quick
from capacity.model import (
    ZONE,
    CapacityType,
    Gang,
    Node,
    Offering,
    Plan,
    Preferences,
    Snapshot,
)
from capacity.prove import prove
from capacity.question import question
from capacity.requirements import Expression, NodeSelectorTerm, Taint, Toleration
from capacity.search import find
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

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


def worth(plan: Plan, preferences: Preferences) -> tuple[int, ...]:
    """Price, ranks, slots and nodes of a plan."""
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)}
    parts = [(u.node.price, 0 if u.node.capacity_type is None else ranks[u.node.capacity_type], u.pods["w"], 1) for u in plan.uses]
    parts += [(p.offering.price, ranks[p.offering.capacity_type] + 1, p.pods["w"], p.count) for p in plan.purchases]
    return tuple(sum(part[place] * part[3] for part in parts) for place in range(3)) + (sum(part[3] for part in parts),)


@given(problems())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_as_the_search(problem: tuple[Gang, Snapshot, Preferences]) -> None:
    asked, here, preferences = problem
    found, expected = quick.answer(*problem), find(question(*problem))
    assert (found is None) == (expected is None)
    if found and expected:
        assert found.cost == expected.cost
        assert set(found.domains) == set(expected.domains)
        assert worth(found, preferences) == worth(expected, preferences)
        assert prove(found, here, preferences) == ()
