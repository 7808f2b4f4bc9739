"""Pods that Kueue has pinned to nodes before anybody asked: booked are those nodes and no others."""

from dataclasses import replace

import pytest

from capacity.model import HOSTNAME, Gang, Node, Plan, PodSet, Preferences, Snapshot, Undecidable
from capacity.plan import plan
from capacity.requirements import PodTerm, Taint

ROOM = {"gpu": 8, "pods": 10}


def node(name: str, **fields: object) -> Node:
    made = Node(name, "p", ROOM, {"gpu": 0, "pods": 1}, {HOSTNAME: f"{name}.x"})
    return replace(made, **fields)  # type: ignore[arg-type]  # by keyword


def gang(*pod_sets: PodSet) -> Gang:
    return Gang("g", pod_sets)


W = PodSet("w", 3, {"gpu": 4, "pods": 1}, placed_by_kueue=True, pinned={"a.x": 2, "b.x": 1})
V = PodSet("v", 1, {"gpu": 4, "pods": 1}, placed_by_kueue=True, pinned={"b.x": 1})


def test_the_nodes_are_booked_as_they_were_given() -> None:
    found = plan(gang(W, V), Snapshot(0, (node("a"), node("b"), node("c"))), Preferences())
    assert isinstance(found, Plan)
    assert {use.node.name: dict(use.pods) for use in found.uses} == {"a": {"w": 2}, "b": {"w": 1, "v": 1}}
    assert (found.purchases, found.cost) == ((), 0)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        pytest.param((node("a"),), "on node b.x, which is not one of the pools'", id="gone"),
        pytest.param((node("a"), node("b", booked_by="other")), "on node b.x, which is booked", id="booked"),
        pytest.param((node("a"), node("b", requested={"gpu": 5, "pods": 1})), "which has no room for them", id="taken"),
        pytest.param((node("a"), node("b", taints=(Taint("t", "NoSchedule"),))), "does not admit w: taint t", id="taint"),
    ],
)
def test_what_stands_in_the_way_is_waited_for(nodes: tuple[Node, ...], text: str) -> None:
    found = plan(gang(W), Snapshot(0, nodes), Preferences())
    assert isinstance(found, Undecidable)
    assert text in found.reasons[0]
    assert not found.lasting


@pytest.mark.parametrize(
    ("pod_set", "text"),
    [
        pytest.param(replace(W, count=4), "placed 3 of 4 pods", id="not-all"),
        pytest.param(replace(W, apart=(PodTerm("rack", None, None),)), "inter-pod rules", id="rules"),
    ],
)
def test_what_no_waiting_mends(pod_set: PodSet, text: str) -> None:
    found = plan(gang(pod_set), Snapshot(0, (node("a"), node("b"))), Preferences())
    assert isinstance(found, Undecidable)
    assert text in found.reasons[0]
    assert found.lasting


def test_a_price_above_the_ceiling_is_not_paid() -> None:
    found = plan(gang(W), Snapshot(0, (node("a", price=7), node("b", price=7))), Preferences(price_ceiling=13))
    assert isinstance(found, Undecidable)
    assert "ceiling" in found.reasons[0]
