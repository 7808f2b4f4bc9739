"""Booking a plan takes its nodes whole and its purchases off the offerings, and nothing else."""

from capacity.model import CapacityType, Gang, Node, Offering, Plan, PodSet, Purchase, Shape, Snapshot, Use
from capacity.snapshot import book

SHAPE = Shape(name="s", allocatable={"cpu": 8000, "pods": 10})


def offering(name: str, available: int) -> Offering:
    return Offering(
        name=name, pool="p", source="od", shape=SHAPE, capacity_type=CapacityType.ON_DEMAND, available=available, total=available
    )


def test_a_booked_plan_is_gone_from_the_next_snapshot():
    nodes = tuple(Node(name=f"n{i}", pool="p", allocatable={"cpu": 8000}, requested={}) for i in range(2))
    before = Snapshot(now=0, nodes=nodes, offerings=(offering("a", 5), offering("b", 5)))
    gang = Gang(name="g", pod_sets=(PodSet(name="w", count=4, requests={"cpu": 8000}),))
    purchases = (Purchase(before.offerings[0], 2, {"w": 1}), Purchase(before.offerings[0], 1, {"w": 1}))
    after = book(before, Plan(gang=gang, uses=(Use(nodes[1], {"w": 1}),), purchases=purchases, cost=0), "bk")
    assert [node.booked_by for node in after.nodes] == [None, "bk"]
    assert [o.available for o in after.offerings] == [2, 5]
    assert [o.total for o in after.offerings] == [5, 5]
