"""Booking a plan takes its nodes whole and its purchases off offerings and limits; its pods count for the next gang."""

from dataclasses import replace

from capacity.model import (
    HOSTNAME,
    Budget,
    CapacityType,
    Exclusive,
    Gang,
    Node,
    Offering,
    Plan,
    PodSet,
    Preferences,
    Purchase,
    Shape,
    Snapshot,
    Use,
)
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, PodTerm
from capacity.snapshot import book

SHAPE = Shape(name="s", allocatable={"cpu": 8000, "pods": 10})


def offering(name: str, available: int) -> Offering:
    return Offering(
        name=name, pool="p", source="od", shape=SHAPE, capacity_type=CapacityType.ON_DEMAND, available=available, total=available
    )


def test_a_booked_plan_is_gone_from_the_next_snapshot() -> None:
    nodes = tuple(Node(name=f"n{i}", pool="p", allocatable={"cpu": 8000}, requested={}) for i in range(2))
    before = Snapshot(now=0, nodes=nodes, offerings=(offering("a", 5), offering("b", 5)))
    gang = Gang(name="g", pod_sets=(PodSet(name="w", count=4, requests={"cpu": 8000}),))
    purchases = (Purchase(before.offerings[0], 2, {"w": 1}), Purchase(before.offerings[0], 1, {"w": 1}))
    after = book(before, Plan(gang=gang, uses=(Use(nodes[1], {"w": 1}),), purchases=purchases, cost=0), "bk")
    assert [node.booked_by for node in after.nodes] == [None, "bk"]
    assert [o.available for o in after.offerings] == [2, 5]
    assert [o.total for o in after.offerings] == [5, 5]


def test_limits_have_less_left() -> None:
    sold = (offering("a", 5), offering("b", 5))
    before = Snapshot(now=0, offerings=sold, budgets=(Budget("b", {"a": 1, "b": 10}, 30, 40), Budget("other", {"c": 1}, 7, 7)))
    gang = Gang(name="g", pod_sets=(PodSet(name="w", count=3, requests={"cpu": 8000}),))
    booked = Plan(gang, (), (Purchase(sold[0], 1, {"w": 1}), Purchase(sold[1], 2, {"w": 1})), 0)
    assert [(each.left, each.whole) for each in book(before, booked, "bk").budgets] == [(9, 40), (7, 7)]


APP = LabelSelector((Expression("app", "In", ("x",)),))


def test_pods_to_come_stand_in_the_places_of_their_nodes() -> None:
    node = Node(name="n", pool="p", allocatable={"cpu": 8000}, requested={}, labels={"rack": "r1"})
    sold = replace(offering("a", 5), domain={"rack": "r2"})
    workers = PodSet("w", 4, {"cpu": 1}, namespace="team", labels={"app": "x"}, apart=(PodTerm("rack", APP, None),))
    gang = Gang("g", (workers, PodSet("head", 1, {"cpu": 1}, exclusive=Exclusive("rack", APP))))
    booked = Plan(gang, (Use(node, {"w": 2, "head": 1}),), (Purchase(sold, 2, {"w": 1}),), 0)
    found = book(Snapshot(now=0, nodes=(node,), offerings=(sold,)), booked, "bk").bystanders
    assert [(each.labels["rack"], [pod.labels for pod in each.pods]) for each in found] == [
        ("r1", [{}, {"app": "x"}, {"app": "x"}]),
        ("r2", [{"app": "x"}]),
        ("r2", [{"app": "x"}]),
    ]
    assert len({each.labels.get(HOSTNAME) for each in found}) == 3
    head, worker, _ = found[0].pods
    assert (worker.namespace, worker.apart) == ("team", (PodTerm("rack", APP, None),))
    assert head.apart == (PodTerm("rack", APP, None),)


def test_the_next_gang_keeps_its_distance_from_the_one_just_booked() -> None:
    nodes = tuple(Node(f"n{i}", "p", {"cpu": 8000, "pods": 10}, {}, {"rack": f"r{i // 2}"}) for i in range(4))
    shy = PodSet("w", 1, {"cpu": 8000}, labels={"app": "x"}, apart=(PodTerm("rack", APP, frozenset({""})),))
    gang, here, racks = Gang("g", (shy,)), Snapshot(now=0, nodes=nodes), []
    for number in range(3):
        found = plan(gang, here, Preferences())
        if isinstance(found, Plan):
            racks += [use.node.labels["rack"] for use in found.uses]
            here = book(here, found, f"b{number}")
    assert sorted(racks) == ["r0", "r1"]
