from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from capacity.model import Labels
from kube.meta import decode
from kube.ours import Source
from provisioner.clouds.base import CloudError, ErrorKind, Instance, InstanceState, Order
from provisioner.ending.pace import Pace
from provisioner.ending.scalein import Idle, Move, ScaleInLoop, next_move
from runtime.errors import TooManyRequests
from tests.provisioner import fake_api
from tests.provisioner.world import booking

pytestmark = pytest.mark.looptime
NOW = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
WHEN_IDLE, NEVER = 600, None


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("node", "move"),
    [
        pytest.param(Idle(ago(599), None, WHEN_IDLE), Move.STAY, id="not yet"),
        pytest.param(Idle(ago(600), None, WHEN_IDLE), Move.CLOSE, id="long enough"),
        pytest.param(Idle(ago(9999), None, NEVER), Move.STAY, id="never"),
        pytest.param(Idle(ago(600), None, WHEN_IDLE, used=True), Move.CLOSE, id="pods run there that come back elsewhere"),
        pytest.param(Idle(ago(600), None, WHEN_IDLE, used=True, held=True), Move.STAY, id="not to be disturbed"),
        pytest.param(Idle(ago(600), None, WHEN_IDLE, planned=True), Move.STAY, id="a booking names it"),
        pytest.param(Idle(None, None, WHEN_IDLE), Move.STAY, id="no known beginning"),
        pytest.param(Idle(ago(700), ago(2), WHEN_IDLE), Move.STAY, id="closed, settling"),
        pytest.param(Idle(ago(700), ago(3), WHEN_IDLE), Move.END, id="closed and still empty"),
        pytest.param(Idle(ago(700), ago(2), WHEN_IDLE, used=True), Move.STAY, id="closed, settling, with pods"),
        pytest.param(Idle(ago(700), ago(3), WHEN_IDLE, used=True), Move.DRAIN, id="to be emptied"),
        pytest.param(Idle(ago(1300), ago(600), WHEN_IDLE, used=True), Move.RENEW, id="can't be emptied"),
        pytest.param(Idle(ago(1300), ago(600), WHEN_IDLE), Move.END, id="empty at last"),
        pytest.param(Idle(ago(700), ago(3), WHEN_IDLE, used=True, held=True), Move.OPEN, id="a pod slipped in that must stay"),
        pytest.param(Idle(ago(700), ago(3), NEVER), Move.OPEN, id="the pool says now that it stays"),
        pytest.param(Idle(ago(700), ago(3), WHEN_IDLE, planned=True), Move.OPEN, id="a booking came"),
        pytest.param(Idle(None, ago(3), WHEN_IDLE), Move.OPEN, id="taken again"),
    ],
)
def test_next_move(node: Idle, move: Move) -> None:
    assert next_move(node, NOW, settle=2) is move


class Setting:
    """One machine, idle for an hour; its source lets it go after ten minutes."""

    def __init__(self, limit: int = 20) -> None:
        self.api, self.clock = fake_api.Api(), fake_api.Clock()
        self.cloud = fake_api.FakeCloud(self.api)
        self.state = fake_api.state(self.api, self.cloud)
        self.api.put("capacitypools", fake_api.pool({"policy": "WhenIdle", "after": "10m"}))
        labels = {"corral.dev/pool": "p", "corral.dev/source": "od"}
        idle = {"corral.dev/idle-since": "2026-09-01T09:00:00Z"}
        tags = {"corral.dev/installation": "here", "corral.dev/booking": "old"}
        self.cloud.add("i0", Order("t", "h100", "z1", "on-demand", 1, labels=labels, annotations=idle, tags=tags))
        self.loop = ScaleInLoop(self.state, self.api, self.clock, Pace(limit))  # type: ignore[arg-type]

    async def turns(self, number: int = 4) -> None:
        for _ in range(number):
            await self.loop.turn()
            self.clock.pass_by(5)

    def node(self) -> Any:
        return self.api.of("nodes", "n-i0")


async def test_an_idle_machine_is_closed_then_ended() -> None:
    here = Setting()

    await here.turns(1)
    assert here.node().spec.unschedulable
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_a_pod_that_the_store_does_not_show_saves_it() -> None:
    here = Setting()
    await here.turns(1)
    here.api.lag.add("pods")
    here.api.put("pods", fake_api.pod("w", "n-i0"))

    await here.turns()

    assert not here.cloud.terminated


async def test_a_booking_that_takes_it_opens_it_again() -> None:
    here = Setting()
    await here.turns(1)
    here.api.put("bookings", booking(nodes=("n-i0",)).to_json())

    await here.turns()

    assert not here.cloud.terminated
    assert not here.node().spec.unschedulable
    assert "corral.dev/scale-in" not in here.node().metadata.annotations


async def test_daemon_sets_do_not_hold_it() -> None:
    here = Setting()
    here.api.put("pods", fake_api.pod("ds", "n-i0", owner="DaemonSet"))

    await here.turns(2)

    assert here.cloud.terminated == ["i0"]


def stranger(here: Setting, name: str = "w") -> None:
    here.api.put("pods", fake_api.pod(name, "n-i0", owner="ReplicaSet"))


async def test_pods_that_come_back_elsewhere_are_asked_to_leave_first() -> None:
    here = Setting()
    stranger(here)

    await here.turns(2)
    assert ("pods", "team", "w") not in here.api.objects
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_a_disruption_budget_holds_the_node_until_it_allows_or_time_is_up() -> None:
    here = Setting()
    stranger(here)
    here.api.errors["evict"] = [TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")] * 200

    await here.turns(100)
    assert here.node().spec.unschedulable
    await here.turns(25)

    assert not here.cloud.terminated
    assert not here.node().spec.unschedulable
    assert here.node().metadata.annotations["corral.dev/idle-since"] == "2026-09-01T10:10:00Z"
    here.api.errors.clear()
    await here.turns(130)
    assert here.cloud.terminated == ["i0"]


@pytest.mark.parametrize(
    ("owner", "notes"),
    [
        pytest.param("ReplicaSet", {"corral.dev/do-not-disrupt": "true"}, id="ours"),
        pytest.param("ReplicaSet", {"karpenter.sh/do-not-disrupt": "true"}, id="Karpenter's"),
        pytest.param("ReplicaSet", {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, id="Cluster Autoscaler's"),
        pytest.param("Job", {}, id="work that would be lost"),
        pytest.param("", {}, id="made by nobody"),
    ],
)
async def test_a_pod_that_must_stay_keeps_its_node(owner: str, notes: dict[str, str]) -> None:
    here = Setting()
    here.api.put("pods", fake_api.pod("w", "n-i0", owner=owner, notes=notes))
    stranger(here, "other")

    await here.turns(200)

    assert not here.cloud.terminated
    assert not here.node().spec.unschedulable
    assert ("pods", "team", "other") in here.api.objects


@pytest.mark.parametrize(
    ("notes", "stays"),
    [
        pytest.param({"corral.dev/do-not-disrupt": "true"}, True, id="ours"),
        pytest.param({"karpenter.sh/do-not-disrupt": "true"}, True, id="a user's"),
        pytest.param({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}, True, id="a user's of Cluster Autoscaler"),
        pytest.param({"karpenter.sh/do-not-disrupt": "false"}, False, id="taken back"),
        pytest.param(
            {"karpenter.sh/do-not-disrupt": "true", "corral.dev/guards": "karpenter.sh/do-not-disrupt"}, False, id="set by us"
        ),
    ],
)
async def test_a_node_that_is_not_to_be_disturbed_stays(notes: dict[str, str], stays: bool) -> None:
    here = Setting()
    body = here.api.objects["nodes", "", "n-i0"]
    body["metadata"]["annotations"] |= notes
    here.api.put("nodes", body)

    await here.turns()

    assert bool(here.cloud.terminated) is not stays


@pytest.mark.parametrize(
    ("capacity_type", "scale_in", "stay"),
    [
        pytest.param("on-demand", {}, 600, id="costs extra"),
        pytest.param("on-demand", {"after": "30s"}, 30, id="costs extra, told when"),
        pytest.param("on-demand", {"policy": "Never"}, None, id="costs extra, kept"),
        pytest.param("reserved", {}, None, id="prepaid"),
        pytest.param("capacity-block", {}, None, id="a block"),
        pytest.param("reserved", {"policy": "WhenIdle"}, 600, id="prepaid, to go"),
        pytest.param("reserved", {"after": "1h"}, 3600, id="prepaid, told when"),
        pytest.param("reserved", {"policy": "Never", "after": "1h"}, None, id="kept whatever the time"),
    ],
)
def test_how_long_machines_may_be_idle(capacity_type: str, scale_in: dict[str, str], stay: int | None) -> None:
    source = decode({"name": "s", "capacityType": capacity_type, "scaleIn": scale_in}, Source)
    assert source.idle_seconds == stay


@pytest.mark.parametrize(
    ("scale_in", "notes", "ended"),
    [
        pytest.param({"after": "10m"}, {}, True, id="costs extra"),
        pytest.param({"policy": "Never"}, {}, False, id="its source lets none go"),
        pytest.param({"after": "10m"}, {"corral.dev/do-not-disrupt": "true"}, False, id="somebody looks into it"),
    ],
)
async def test_a_quarantined_node_that_no_booking_holds_goes_as_an_idle_one(
    scale_in: dict[str, str], notes: dict[str, str], ended: bool
) -> None:
    here = Setting()
    here.api.put("capacitypools", fake_api.pool(scale_in))
    bad = here.api.objects["nodes", "", "n-i0"]
    bad["metadata"]["labels"]["corral.dev/quarantined"] = "true"
    bad["metadata"]["annotations"] |= notes
    here.api.put("nodes", bad)
    assert list(here.loop._quarantined()) == [(1, {"pool": "p"})]

    await here.turns()

    assert bool(here.cloud.terminated) is ended
    assert list(here.loop._quarantined()) == [(int(not ended), {"pool": "p"})]


async def test_a_sick_idle_node_counts_as_quarantined() -> None:
    here = Setting()
    sick = here.api.objects["nodes", "", "n-i0"]
    ready = sick["status"]["conditions"]
    assert list(here.loop._quarantined()) == [(0, {"pool": "p"})]

    sick["status"]["conditions"] = [*ready, {"type": "KernelDeadlock", "status": "True"}]
    here.api.put("nodes", sick)

    assert list(here.loop._quarantined()) == [(1, {"pool": "p"})]


async def test_pods_left_behind_on_a_silent_node_do_not_keep_its_machine() -> None:
    here = Setting()
    node = here.api.objects["nodes", "", "n-i0"]
    node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-09-01T09:30:05Z"}]
    here.api.put("nodes", node)
    left = fake_api.pod("w", "n-i0")
    left["metadata"]["deletionTimestamp"] = "2026-09-01T09:35:05Z"
    here.api.put("pods", left)

    await here.turns(2)
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


class Counting(fake_api.FakeCloud):
    """Notes each call that ends machines."""

    def __init__(self, api: fake_api.Api) -> None:
        super().__init__(api)
        self.calls: list[list[str]] = []
        self.lists = 0

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        self.lists += 1
        return await super().instances(tags)

    async def terminate(self, ids: Sequence[str]) -> None:
        self.calls.append([*ids])
        await super().terminate(ids)


class Many(Setting):
    """Some idle machines of one pool."""

    def __init__(self, number: int, limit: int) -> None:
        super().__init__(limit)
        self.cloud = self.state.clouds["p"] = self.counted = Counting(self.api)
        node = self.api.objects["nodes", "", "n-i0"]
        tags = {"corral.dev/installation": "here"}
        labels, notes = node["metadata"]["labels"], node["metadata"]["annotations"]
        for each in range(number):
            order = Order("t", "h100", "z1", "on-demand", 1, labels=labels, annotations=notes, tags=tags)
            self.cloud.add(f"i{each}", order)


async def test_idle_machines_of_a_pool_are_ended_in_one_call() -> None:
    here = Many(120, limit=100)

    await here.turns(4)

    assert [len(ids) for ids in here.counted.calls] == [50, 50]
    assert here.counted.lists == 2
    await here.turns(12)
    assert [len(ids) for ids in here.counted.calls] == [50, 50, 20]
    assert sorted(here.cloud.terminated) == sorted(f"i{each}" for each in range(120)), "each once"


async def test_a_node_that_cannot_be_read_holds_up_none_of_the_others() -> None:
    here = Many(3, limit=20)
    await here.turns(1)
    here.api.errors["list"] = [ValueError("Expected `str`, got `int` - at `$.metadata.name`")]

    await here.turns(1)

    assert here.counted.calls == [["i1", "i2"]]


async def test_what_a_pool_that_is_gone_left_is_not_touched() -> None:
    here = Setting()
    here.api.remove("capacitypools", "p")

    await here.turns()

    assert not here.cloud.terminated
    assert not here.node().spec.unschedulable


class DeadCloud(fake_api.FakeCloud):
    """Never answers; counts how often it was asked."""

    asked = 0

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        self.asked += 1
        raise CloudError(ErrorKind.UNKNOWN, "connection refused")


async def test_a_cloud_that_fails_holds_up_no_other_pool() -> None:
    here = Setting(limit=1)
    dead = DeadCloud(here.api)
    here.state.clouds["a-dead-one"] = dead
    pool = {**fake_api.pool({"policy": "WhenIdle", "after": "10m"}), "metadata": {"name": "a-dead-one", "uid": "u"}}
    here.api.put("capacitypools", pool)
    for name in ("a", "b", "c"):
        node = fake_api.node(name, labels={"corral.dev/pool": "a-dead-one", "corral.dev/source": "od"})
        node["metadata"]["annotations"] = dict(here.node().metadata.annotations)
        here.api.put("nodes", node)
    last = here.api.objects["nodes", "", "n-i0"]
    here.api.remove("nodes", "n-i0")
    here.api.put("nodes", last)

    await here.turns(2)

    assert here.cloud.terminated == ["i0"]
    assert dead.asked == 1


async def test_a_machine_that_is_ending_is_ended_once() -> None:
    here = Setting()
    await here.turns(1)
    here.api.lag.add("nodes")
    here.cloud.machines["i0"] = replace(here.cloud.machines["i0"], state=InstanceState.STOPPING)

    await here.turns(3)

    assert not here.cloud.terminated


def test_pace() -> None:
    pace = Pace(2)

    assert [pace.take(NOW), pace.take(NOW), pace.take(NOW)] == [True, True, False]
    assert not pace.take(NOW + timedelta(seconds=59))
    assert pace.take(NOW + timedelta(seconds=60))


async def test_what_cannot_be_read_is_tried_again() -> None:
    here = Setting()
    await here.turns(1)
    here.api.errors["list"] = [ValueError("Expected `str`, got `int` - at `$.metadata.name`")]

    await here.turns(1)
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]
