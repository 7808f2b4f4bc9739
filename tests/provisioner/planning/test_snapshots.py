"""From a view to the room that plans are made in."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from capacity.model import ZONE, CapacityType, Gang, Holder, Node, Plan, PodSet, Preferences, Running, Shortfall
from capacity.plan import plan
from capacity.requirements import Toleration
from kube import core, ours
from kube.meta import decode
from provisioner.clouds.base import Announcement, InstanceState
from provisioner.planning.grounds import Grounds
from provisioner.planning.snapshots import MARKED, QUARANTINE, room
from provisioner.view import View
from tests.provisioner.make import (
    NOW,
    RACK,
    booking,
    daemon_set,
    deleting,
    instance,
    inventory,
    known,
    node,
    pod,
    pool,
    reservation,
    source,
    view,
)

ADOPTING = {"nodeSelector": {"matchLabels": {"team": "train"}}}
KEY, OTHER = {"b.booking.corral.dev/main": "true"}, {"x.booking.corral.dev/main": "true"}
OVER = (booking("b", nodes=("n",), phase="Releasing"),)
BOOKED = {"taints": [{"key": "corral.dev/booked", "effect": "NoSchedule"}]}


def nodes(seen: View) -> dict[str, Node]:
    return {each.name: each for each in room(seen, seen.pools.values(), Grounds()).snapshot.nodes}


@pytest.mark.parametrize(
    ("there", "more", "expected"),
    [
        pytest.param(node("n"), {}, (None, True, ()), id="free"),
        pytest.param(node("n", spec=BOOKED), {"bookings": (booking("b", nodes=("n",)),)}, ("b", True, ()), id="booked"),
        pytest.param(node("n", spec=BOOKED), {}, (MARKED, True, ()), id="a-mark-of-no-booking"),
        pytest.param(node("n", spec=BOOKED, labels=KEY), {"bookings": OVER}, (None, True, ()), id="on-offer"),
        pytest.param(node("n", spec=BOOKED, labels={**KEY, **OTHER}), {"bookings": OVER}, (MARKED, True, ()), id="shared"),
        pytest.param(node("n", labels={"corral.dev/quarantined": "true"}), {}, (QUARANTINE, True, ()), id="quarantined"),
        pytest.param(node("n", metadata={"deletionTimestamp": "2026-09-01T09:00:00Z"}), {}, (None, False, ()), id="leaving"),
    ],
)
def test_who_has_a_node(there: Any, more: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = nodes(view(pool("p", **ADOPTING), nodes=(there,), **more))["n"]
    assert (found.booked_by, found.ready, found.taints) == expected


SICK = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "KernelDeadlock", "status": "True"}]}
NEEDY = {"readiness": {"requiredDaemonSets": ["kube-system/plugin"]}}
PLUGIN = decode(
    {
        "metadata": {
            "name": "plugin-1",
            "namespace": "kube-system",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plugin", "uid": "u"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    core.Pod,
)


@pytest.mark.parametrize(
    ("of", "there", "pods", "holder"),
    [
        pytest.param(pool("p", **ADOPTING), node("n", **SICK), [], "(unhealthy: KernelDeadlock=True)", id="sick"),
        pytest.param(
            pool("p", **ADOPTING, **NEEDY),
            node("n"),
            [],
            "(no ready pod of DaemonSet kube-system/plugin)",
            id="without its plugin",
        ),
        pytest.param(pool("p", **ADOPTING, **NEEDY), node("n"), [PLUGIN], None, id="with its plugin"),
    ],
)
def test_a_node_that_would_fail_later_is_not_planned_on(of: Any, there: Any, pods: list[Any], holder: str | None) -> None:
    assert nodes(view(of, nodes=(there,), pods_on=lambda _: pods))["n"].booked_by == holder


def test_an_idle_machine_that_is_announced_to_go_is_not_planned_on() -> None:
    said = (Announcement("Maintenance", 2_000_000_000, "host retirement"),)
    there = node("n", provider_id="sim:///east/i-1")
    assert not nodes(view(pool("p", **ADOPTING), nodes=(there,), known={"p": known(instance(1, announced=said))}))["n"].ready


def test_a_node_of_two_pools_is_not_planned_on() -> None:
    assert nodes(view(pool("p", **ADOPTING), pool("q", **ADOPTING), nodes=(node("n"),))) == {}


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(pool("p", mode="Paused", **ADOPTING), "pool p is Paused", id="paused"),
        pytest.param(deleting(pool("p", **ADOPTING)), "pool p is being deleted", id="deleting"),
    ],
)
def test_nothing_new_on_a_closed_pool(of: ours.CapacityPool, why: str) -> None:
    seen = view(of, nodes=(node("n"),))
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert [each.booked_by for each in made.nodes] == [f"({why})"]
    assert {(each.available, each.unavailable) for each in made.offerings} == {(0, why)}


def test_a_gang_is_not_planned_on_one_reservation_twice() -> None:
    """cr-1 has 8 machines in all, whichever pool buys them."""
    seen = view(pool("p", source()), pool("q", source()))
    pods = PodSet("main", 9, {"cpu": 8000, "nvidia.com/gpu": 8}, tolerations=(Toleration("gpu", "Exists"),))
    made = room(seen, seen.pools.values(), Grounds())
    outcome = plan(Gang("g", (pods,)), made.snapshot, Preferences())
    assert isinstance(outcome, Shortfall)
    assert isinstance(plan(Gang("g", (replace(pods, count=8),)), made.snapshot, Preferences()), Plan)


def test_an_idle_machine_is_known_by_its_reservation() -> None:
    of = pool("p", source(drainBeforeEnd="60m"))
    there = node("n", provider_id="sim:///east/i-1", labels={"corral.dev/pool": "p"})
    machines = known(instance(1, reservation="cr-1"), inventory=inventory(reservation(ends=10_000)))
    found = nodes(view(of, nodes=(there,), known={"p": machines}))["n"]
    assert (found.capacity_type, found.reservation, found.ends, found.price) == (CapacityType.RESERVED, "cr-1", 6400, 0)


def test_an_idle_machine_on_demand_adds_nothing() -> None:
    there = node("n", provider_id="sim:///east/i-1", labels={"corral.dev/pool": "p"})
    found = nodes(view(nodes=(there,), known={"p": known(instance(1))}))["n"]
    assert (found.capacity_type, found.reservation, found.price) == (CapacityType.ON_DEMAND, None, 0)


def test_a_machine_that_is_stopping_is_not_ready() -> None:
    there = node("n", provider_id="sim:///east/i-1", labels={"corral.dev/pool": "p"})
    machines = known(instance(1, state=InstanceState.STOPPING))
    assert not nodes(view(nodes=(there,), known={"p": machines}))["n"].ready


def test_a_node_with_unreadable_amounts_is_left_out() -> None:
    assert nodes(view(pool("p", **ADOPTING), nodes=(node("n", allocatable={"cpu": "lots"}),))) == {}


@pytest.mark.parametrize(
    ("age", "bought"),
    [pytest.param(299, True, id="still-counts"), pytest.param(301, False, id="too-old")],
)
def test_an_old_word_of_the_cloud(age: int, bought: bool) -> None:
    seen = view(known={"p": known(at=NOW - timedelta(seconds=age), error="connection refused")})
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert any(each.available for each in made.offerings) is bought
    assert all(each.total for each in made.offerings)


def test_nothing_is_bought_where_a_required_daemon_set_is_missing() -> None:
    seen = view(pool("p", readiness={"requiredDaemonSets": ["kube-system/d"]}))
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert {each.available for each in made.offerings} == {0}
    assert made.offerings[0].unavailable.startswith("DaemonSetsBlocked in pool p: DaemonSet kube-system/d: required")


def test_one_that_is_not_required_blocks_nothing() -> None:
    seen = view(daemon_sets=(daemon_set("d", {"key": "gpu", "operator": "Exists"}),))
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert all(each.available for each in made.offerings)


def test_keys_of_all_pools_from_wide_to_narrow() -> None:
    seen = view(pool("a", topologyKeys=[ZONE, "block"]), pool("b", topologyKeys=[ZONE, RACK]))
    assert room(seen, seen.pools.values(), Grounds()).snapshot.topology_keys == (ZONE, "block", RACK)


def test_nodes_of_no_pool_and_their_pods_stand_by() -> None:
    away, shared = node("away", labels={"team": "web"}), node("shared", labels={"x": "y"})
    pods = {"away": [pod("a"), pod("b", phase="Failed")]}
    pools = pool("p", **ADOPTING), pool("q", nodeSelector={"matchLabels": {"x": "y"}})
    seen = view(*pools, nodes=(node("n"), away, shared), pods_on=lambda name: pods.get(name, []))
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert [each.name for each in made.nodes] == ["n"]
    assert {each.name: [pod.labels for pod in each.pods] for each in made.bystanders} == {"away": [{"app": "x"}], "shared": []}
    assert made.bystanders[0].labels["team"] == "web"


def test_limits_and_holders_are_part_of_the_snapshot() -> None:
    held = booking("b", nodes=("n",))
    seen = view(
        pool("p", limits={"onDemandNodes": 3}, **ADOPTING),
        nodes=(node("n"),),
        bookings=(held,),
        holder_of=lambda each: Holder(f"job/{each.metadata.name}", 7),
    )
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert [(each.left, each.whole, each.same) for each in made.budgets] == [(3, 3, False)]
    assert made.holders == {"b": Holder("job/b", 7)}
    assert made.nodes[0].booked_by == "b"


def test_pods_to_come_for_a_booking_are_seen_on_its_nodes() -> None:
    here = pod("b-1", nodeSelector={"b.booking.corral.dev/main": "true"})
    held = booking("b", nodes=("n", "m"))
    coming = Running("team", {"app": "y"})
    seen = view(
        pool("p", **ADOPTING),
        nodes=(node("n"), node("m")),
        bookings=(held,),
        pods_on=lambda name: [here] if name == "n" else [],
        pods_of=lambda _: {"main": coming},
    )
    made = room(seen, seen.pools.values(), Grounds()).snapshot
    assert {each.name: [pod.labels for pod in each.pods] for each in made.nodes} == {"n": [{"app": "x"}], "m": [{"app": "y"}]}


def test_the_index_of_nodes_is_the_snapshots_own() -> None:
    seen, grounds = view(pool("p", **ADOPTING), nodes=(node("n"), node("m"))), Grounds()
    first = room(seen, seen.pools.values(), grounds).snapshot
    again = room(seen, seen.pools.values(), grounds).snapshot
    assert first.stock is not None
    assert first.stock.nodes is first.nodes
    assert again.nodes is first.nodes
    assert again.bystanders is first.bystanders


def test_a_pool_whose_cloud_was_never_heard_sells_nothing() -> None:
    seen = view(known={})
    assert room(seen, seen.pools.values(), Grounds()).snapshot.offerings == ()
