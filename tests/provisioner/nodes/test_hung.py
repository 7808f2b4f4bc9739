"""A node is silent from 10:00 on; Kubernetes told its pods to end at 10:05."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kube import core, ours
from kube.meta import decode
from provisioner import view
from provisioner.clouds.base import Instance, InstanceState, Inventory
from provisioner.nodes import hung
from provisioner.nodes.hung import Use
from provisioner.state import Known
from runtime.errors import TransportError
from tests.provisioner import fake_api
from tests.provisioner.fake_api import START

pytestmark = pytest.mark.looptime
SILENT, TOLD = "2026-09-01T10:00:00Z", "2026-09-01T10:05:00Z"


def condition(status: str = "Unknown", since: str | None = SILENT) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": since}


def node(name: str = "n0", ready: dict[str, Any] | None = None, pool: str = "p") -> dict[str, Any]:
    made = fake_api.node(name, labels={"corral.dev/pool": pool})
    return {**made, "status": {**made["status"], "conditions": [condition() if ready is None else ready]}}


def pod(name: str, on: str = "n0", told: str | None = TOLD, **more: Any) -> dict[str, Any]:
    made = fake_api.pod(name, on, **more)
    made["metadata"]["deletionTimestamp"] = told
    return made


class Setting:
    """A pool of `nodes` nodes of which the first `silent` say nothing."""

    def __init__(self, nodes: int = 5, silent: int = 1) -> None:
        self.api = fake_api.Api()
        self.state = fake_api.state(self.api)
        self.api.put("capacitypools", fake_api.pool())
        for number in range(nodes):
            self.api.put("nodes", node(f"n{number}", None if number < silent else condition("True")))

    def counting(self, *pods: dict[str, Any], minutes: float = 30, **more: Any) -> list[str]:
        decoded = [decode(each, core.Pod) for each in pods]
        found = hung.counting(self.state, decoded, START + timedelta(minutes=minutes), **more)
        return [each.metadata.name for each in found]

    async def use(self, minutes: float = 30) -> Use:
        return await hung.use(self.api, self.state, "n0", START + timedelta(minutes=minutes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ready", "minutes", "silent"),
    [
        pytest.param(condition(), 29.9, False, id="not for long enough"),
        pytest.param(condition(), 30, True, id="half an hour"),
        pytest.param(condition("False"), 30, True, id="the kubelet itself says that nothing runs"),
        pytest.param(condition("True"), 999, False, id="ready"),
        pytest.param(condition(since=None), 999, False, id="nobody knows since when"),
        pytest.param({"type": "Other", "status": "False", "lastTransitionTime": SILENT}, 999, False, id="it never said anything"),
    ],
)
def test_silent(ready: dict[str, Any], minutes: float, silent: bool) -> None:
    found = decode(node(ready=ready), core.Node)
    assert hung.silent(found, START + timedelta(minutes=minutes)) is silent


@pytest.mark.parametrize(
    ("unready", "nodes", "doubt"),
    [(1, 1, False), (1, 5, False), (2, 5, True), (2, 6, False), (20, 100, False), (21, 100, True)],
)
def test_too_many(unready: int, nodes: int, doubt: bool) -> None:
    assert hung.too_many(unready, nodes) is doubt


def test_who_counts() -> None:
    here = Setting()
    pods = (pod("told"), pod("told later", told="2026-09-01T10:31:00Z"), pod("not told", told=None), pod("elsewhere", on="n1"))

    assert here.counting(*pods) == ["told later", "not told", "elsewhere"]
    assert here.counting(*pods, minutes=29) == ["told", "told later", "not told", "elsewhere"]


def test_a_node_that_was_just_read_counts_for_more_than_the_stored_one() -> None:
    here = Setting()
    assert here.counting(pod("w"), fresh=decode(node(ready=condition("True")), core.Node)) == ["w"]


def test_when_many_nodes_of_a_pool_are_not_ready_all_pods_count_and_an_alarm_says_so() -> None:
    here, later = Setting(nodes=10, silent=2), START + timedelta(minutes=30)
    assert here.counting(pod("w")) == []
    assert hung.alarm(here.state, "p", later) == ""

    here.api.put("nodes", node("n2", condition("False", "2026-09-01T10:29:59Z")))

    assert here.counting(pod("w")) == ["w"]
    assert hung.alarm(here.state, "p", later).startswith("3 of 10 nodes are not Ready, such as n0, n1, n2: none is given up")
    assert hung.alarm(here.state, "p", START + timedelta(minutes=5)), "others would be given up now"
    assert hung.alarm(here.state, "p", START + timedelta(seconds=299)) == "", "nothing to be concluded yet"
    assert hung.alarm(here.state, "q", later) == ""


def test_nodes_are_counted_anew_only_after_a_change_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rack of hundreds falls silent in a cluster of thousands: each of their pods asks how many nodes are Ready."""
    here, looks = Setting(nodes=50, silent=5), list[str]()

    def selecting(node: core.Node, pools: Iterable[ours.CapacityPool]) -> tuple[str, ...]:
        looks.append(node.metadata.name)
        return view.selecting(node, pools)

    monkeypatch.setattr(hung, "selecting", selecting)
    pods = [pod(f"w{number}", on=f"n{number}") for number in range(5)]

    for _ in range(3):
        assert here.counting(*pods) == []
    here.api.put("nodes", node("n9", {**condition("True"), "message": "a heartbeat"}))
    assert here.counting(*pods) == []
    assert len(looks) == 50 + 4 * 5

    for number in range(5, 11):
        here.api.put("nodes", node(f"n{number}", condition(since="2026-09-01T10:29:00Z")))
    assert len(here.counting(*pods)) == 5
    here.api.put("capacitypools", {**fake_api.pool(), "metadata": {"name": "q", "uid": "q-uid"}})
    here.api.remove("capacitypools", "p")
    assert here.counting(pods[0]) == ["w0"], "nodes of no pool: 11 of 50"


def test_other_pools_are_looked_at_by_themselves() -> None:
    here = Setting()
    here.api.put("capacitypools", {**fake_api.pool(), "metadata": {"name": "q", "uid": "q-uid"}})
    for number in range(9):
        here.api.put("nodes", node(f"q{number}", pool="q"))

    assert here.counting(pod("w"), pod("x", on="q1")) == ["x"]
    assert list(hung.silent_nodes(here.state, START + timedelta(minutes=30))) == [(1, {"pool": "p"}), (9, {"pool": "q"})]


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        pytest.param((), Use.NONE, id="empty"),
        pytest.param((pod("d", owner="DaemonSet", told=None),), Use.NONE, id="DaemonSets"),
        pytest.param((pod("w"), pod("x")), Use.LEFT_BEHIND, id="left behind"),
        pytest.param((pod("w"), pod("x", told=None)), Use.PODS, id="one that nobody told to end"),
    ],
)
async def test_a_live_look(pods: tuple[dict[str, Any], ...], found: Use) -> None:
    here = Setting()
    for each in pods:
        here.api.put("pods", each)
    assert await here.use() is found


async def test_a_live_look_sees_that_the_node_is_back_or_gone() -> None:
    here = Setting()
    here.api.put("pods", pod("w"))
    here.api.lag.add("nodes")
    here.api.put("nodes", node(ready=condition("True")))
    assert await here.use() is Use.PODS

    here.api.remove("nodes", "n0")
    assert await here.use() is Use.PODS
    here.api.errors["list"] = [TransportError("reset")]
    with pytest.raises(TransportError):
        await here.use()


CLOUD = Instance("i", "sim://n0", InstanceState.RUNNING, "h100", "z1", "t")


@pytest.mark.parametrize(
    ("more", "machine", "doubted"),
    [
        pytest.param({}, None, True, id="as most of its pool"),
        pytest.param({"ready": condition("True")}, None, False, id="it is Ready"),
        pytest.param({"created": "2026-09-01T09:59:30Z"}, None, False, id="it never was Ready"),
        pytest.param({"created": "2026-09-01T09:50:00Z"}, None, True, id="it was Ready for a while"),
        pytest.param({"taints": [{"key": hung.OUT_OF_SERVICE, "effect": "NoExecute"}]}, None, False, id="an operator says so"),
        pytest.param({}, CLOUD, True, id="its cloud says that it runs"),
        pytest.param({}, replace(CLOUD, state=InstanceState.STOPPING), False, id="its cloud says that it ends"),
    ],
)
def test_which_nodes_are_doubted(more: dict[str, Any], machine: Instance | None, doubted: bool) -> None:
    here = Setting(nodes=5, silent=3)
    raw = node("n0", more.get("ready"))
    raw["metadata"]["creationTimestamp"] = more.get("created")
    raw["spec"]["taints"] = more.get("taints", [])
    here.api.put("nodes", raw)
    here.state.known["p"] = Known(Inventory(), (machine,) if machine else (), START)
    assert hung.doubted(here.state, decode(raw, core.Node)) is doubted


def test_one_of_a_small_pool_is_not_doubted() -> None:
    here = Setting(nodes=5, silent=1)
    assert not hung.doubted(here.state, decode(node(), core.Node))


def test_nodes_that_boot_say_nothing_of_the_network() -> None:
    """A gang of six joins a pool of five, one of which falls silent."""
    here, later = Setting(nodes=5, silent=1), START + timedelta(minutes=30)
    for number in range(6):
        raw = node(f"new{number}", condition("False"))
        raw["metadata"]["creationTimestamp"] = "2026-09-01T09:59:59Z"
        here.api.put("nodes", raw)
    assert not hung.doubted(here.state, decode(node(), core.Node))
    assert here.counting(pod("w")) == []
    assert hung.alarm(here.state, "p", later) == ""

    here.api.put("nodes", node("n1"))
    assert hung.doubted(here.state, decode(node(), core.Node))
    assert hung.alarm(here.state, "p", later).startswith("2 of 5 nodes are not Ready, such as n0, n1: none is given up")
