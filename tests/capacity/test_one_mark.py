"""Gangs whose pods can't be steered by pod set: every pod may come to every node of the plan."""

from dataclasses import replace

import pytest

from capacity.model import HOSTNAME, ZONE, Gang, Node, Plan, PodSet, Preferences, Snapshot, Undecidable
from capacity.plan import plan
from tests.capacity.make import GPU, offering, snapshot

RACK = "rack"
BIG = PodSet("big", 1, {"gpu": 8, "pods": 1})
SMALL = PodSet("small", 1, {"gpu": 4, "pods": 1})


def node(name: str, gpu: int, rack: str = "r") -> Node:
    return Node(name, "p", {"gpu": gpu, "pods": 10}, {}, {HOSTNAME: name, RACK: rack})


def outcome(gang: Gang, *nodes: Node) -> object:
    return plan(gang, Snapshot(0, nodes, topology_keys=(RACK,)), Preferences())


def test_small_pods_on_the_node_of_a_big_one_break_it() -> None:
    """Eight and four GPUs are enough if each pod has a node of its own; with one mark the small one may take the large node."""
    gang = Gang("g", (BIG, SMALL))
    nodes = (node("a", 8), node("b", 4))
    assert isinstance(outcome(gang, *nodes), Plan)
    assert isinstance(outcome(replace(gang, one_mark=True), *nodes), Undecidable)


def test_nodes_on_which_either_will_do_are_a_plan() -> None:
    assert isinstance(outcome(Gang("g", (BIG, SMALL), one_mark=True), node("a", 8), node("b", 8)), Plan)


def test_kueue_places_a_small_pod_where_least_is_free() -> None:
    """Unconstrained pods go to the smallest node that holds them, so that the large one is left for the big pod."""
    pods = tuple(replace(one, placed_by_kueue=True) for one in (SMALL, BIG))
    assert isinstance(outcome(Gang("g", pods, one_mark=True), node("a", 8), node("b", 4)), Plan)


@pytest.mark.parametrize("one_mark", [False, True])
def test_pod_sets_with_a_rack_each_stay_apart_by_kueues_own_doing(one_mark: bool) -> None:
    pods = tuple(
        PodSet(name, 2, {"gpu": 8, "pods": 1}, required_topology=RACK, topology_group=name, placed_by_kueue=True)
        for name in ("v", "w")
    )
    nodes = [node(f"{rack}{number}", 8, rack) for rack in "st" for number in (1, 2)]
    found = outcome(Gang("g", pods, one_mark=one_mark), *nodes)
    assert isinstance(found, Plan)
    assert {use.node.labels[RACK] for use in found.uses} == {"s", "t"}


def test_levels_are_those_of_kueues_topology() -> None:
    """The planner's own levels know racks; Kueue's Topology here has rows, of which the nodes know nothing."""
    pods = (PodSet("v", 1, {"gpu": 8, "pods": 1}, placed_by_kueue=True, levels=("row", HOSTNAME)),)
    assert not isinstance(outcome(Gang("g", pods, one_mark=True), node("a", 8)), Plan)


def test_new_nodes_of_one_offering_that_pods_share_differently_are_different_nodes() -> None:
    """A leader and its three workers fill two machines of two slots: one has the leader, both have workers."""
    pods = tuple(
        PodSet(name, count, {GPU: 4, "pods": 1}, required_topology=RACK, topology_group="g", placed_by_kueue=True)
        for name, count in (("leader", 1), ("workers", 3))
    )
    machines = offering("o", 2, domain={ZONE: "z", RACK: "r"})
    found = plan(Gang("g", pods, one_mark=True), snapshot(machines), Preferences())
    assert isinstance(found, Plan)
    assert sum(purchase.count for purchase in found.purchases) == 2
