"""The reconciler against an API server and a cloud in memory."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from kube import core
from kube.meta import decode
from kube.times import stamp
from provisioner.asking.acceptance import Accepted
from provisioner.bookings import BookingReconciler, controller
from provisioner.clouds.base import CloudError, ErrorKind, InstanceState, Inventory
from provisioner.ending.pace import Pace
from provisioner.state import Known
from runtime.controller import DONE
from runtime.errors import Conflict, NotFound, ServerError, TransportError
from tests.provisioner import fake_api
from tests.provisioner.fake_api import Api, Clock, FakeCloud
from tests.provisioner.world import booking, purchase

pytestmark = pytest.mark.looptime
KEY = "b.booking.corral.dev/main"


class Setting:
    """A booking of one free node and two machines, and everything around it."""

    asked: Accepted | None = None

    def __init__(self, **booked: Any) -> None:
        self.api, self.clock = Api(), Clock()
        self.cloud = FakeCloud(self.api)
        self.state = fake_api.state(self.api, self.cloud)
        self.api.put("capacitypools", fake_api.pool())
        self.api.put("nodes", fake_api.node("a"))
        self.api.put("provisioningrequests", fake_api.request())
        self.api.put("workloads", fake_api.workload("QuotaReserved"))
        made = booking(**(booked or {"nodes": ("a",), "purchases": (purchase("od", 2),)})).to_json()
        made["metadata"]["finalizers"] = ["corral.dev/booking"]
        recorder = fake_api.recorder(self.api, self.clock)
        self.reconciler = BookingReconciler(self.state, self.api, recorder, self.clock, asked=lambda _: self.asked)  # type: ignore[arg-type]
        self.controller = controller(self.reconciler, self.state)
        self.api.put("bookings", made)

    @property
    def status(self) -> Any:
        return self.api.of("bookings", "b").status

    async def until(self, *phases: str, turns: int = 60) -> None:
        """Reconciles until the booking is in one of these phases; waits as told."""
        for _ in range(turns):
            if self.status.phase in phases:
                return
            await self.turn()
        raise AssertionError(f"still {self.status.phase} ({self.status.message})")

    async def turn(self) -> None:
        result = await self.reconciler.reconcile("b")
        self.clock.pass_by(max(0.1, result.requeue_after or 0))


async def test_a_gang_gets_its_nodes_and_gives_them_back() -> None:
    here = Setting()

    await here.until("Provisioned")
    assert here.status.message == "3 of 3 nodes ready; the first pod is awaited until 10:15Z (15m left)"
    assert sorted(name for (kind, _, name) in here.api.objects if kind == "nodes") == ["a", "n-i0", "n-i1"]
    assert all(here.api.of("nodes", name).metadata.labels[KEY] == "true" for name in ("a", "n-i0", "n-i1"))

    here.api.put("pods", fake_api.pod("w", "n-i0", selector={KEY: "true"}))
    await here.turn()
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    for _ in range(5):
        await here.turn()
    assert here.status.phase == "Provisioned", "a consumer pod is still there"

    here.api.remove("pods", "w", "team")
    await here.until("Released")
    assert sorted(here.cloud.terminated) == ["i0", "i1"]
    assert KEY not in here.api.of("nodes", "a").metadata.labels
    assert not here.api.of("nodes", "a").spec.taints
    assert "CapacityProvisioned" in here.api.events
    assert "CapacityReleased" in here.api.events

    here.clock.pass_by(60)
    await here.turn()
    assert ("bookings", "", "b") not in here.api.objects


@pytest.mark.parametrize("error", [TransportError("reset"), ServerError("busy")], ids=["no answer", "refused"])
async def test_a_crash_after_the_cloud_answered_buys_nothing_twice(error: Exception) -> None:
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Launching")
    await here.turn()
    here.api.errors["replace"] = [error]

    with pytest.raises(type(error)):
        await here.turn()
    assert len(here.cloud.machines) == 2
    await here.until("Provisioned")

    assert len(here.cloud.orders) == 1
    assert len(here.cloud.machines) == 2


async def test_a_lost_reply_is_looked_up() -> None:
    here = Setting(purchases=(purchase("od", 2),))
    here.cloud.errors = [CloudError(ErrorKind.UNKNOWN, "timed out"), CloudError(ErrorKind.THROTTLED, "slow down")]

    await here.until("Provisioned")

    assert [order.count for order in here.cloud.orders] == [2]
    assert len(here.status.launches) == 1


async def test_no_capacity_backs_off_and_rolls_back() -> None:
    here = Setting()
    here.cloud.errors = [CloudError(ErrorKind.CAPACITY, "no h100 in z1")]

    await here.until("Failed")

    assert here.status.reason == "InsufficientCapacity"
    assert here.status.message == "2 of h100 in z1: no h100 in z1"
    assert not here.api.of("nodes", "a").spec.taints
    [backoff] = here.state.backoffs.of_pool("p", here.clock.now)
    assert (backoff.reason, backoff.source, backoff.zone) == ("InsufficientCapacity", "od", "z1")
    assert "PurchaseFailed" in here.api.events


async def test_nothing_more_is_bought_from_a_pool_that_was_paused() -> None:
    here = Setting()
    await here.turn()
    paused = fake_api.pool()
    paused["spec"]["mode"] = "Paused"
    here.api.put("capacitypools", paused)

    await here.until("Failed")

    assert (here.status.reason, here.status.message) == ("PoolClosed", "pool p is Paused")
    assert here.cloud.orders == []
    assert not here.api.of("nodes", "a").spec.taints


async def test_a_replacement_keeps_to_the_limit_though_the_store_lags() -> None:
    """The store doesn't show yet that the booking replaces a machine, which counts for the limit until it is gone."""
    here = Setting(purchases=(purchase("od", 2),))
    limited = fake_api.pool()
    limited["spec"]["limits"] = {"onDemandNodes": 2}
    here.api.put("capacitypools", limited)
    await here.until("Provisioned")
    here.api.put("pods", fake_api.pod("w", "n-i1", selector={KEY: "true"}))
    await here.turn()
    here.api.lag.add("bookings")
    here.api.remove("nodes", "n-i0")

    for _ in range(40):
        here.state.known["p"] = Known(Inventory(), tuple(here.cloud.machines.values()), here.clock.now)
        await here.turn()
        assert sum(each.state is InstanceState.RUNNING for each in here.cloud.machines.values()) <= 2
    assert [each.state for each in here.status.instances] == ["Gone", "Ready", "Ready"]


async def test_a_node_with_a_startup_taint_does_not_count_yet() -> None:
    here = Setting(purchases=(purchase("od", 1),))
    await here.until("Joining")
    raw = here.api.objects["nodes", "", "n-i0"]
    starting = {"key": "starting", "effect": "NoSchedule"}
    here.api.put("nodes", {**raw, "spec": {**raw["spec"], "taints": [*raw["spec"]["taints"], starting]}})
    for _ in range(6):
        await here.turn()
    assert here.status.phase == "Joining"
    [machine] = here.status.instances
    assert machine.message == "still has taint starting:NoSchedule"

    here.api.put("nodes", raw)
    await here.until("Provisioned")


async def test_a_wrong_configuration_backs_nobody_off() -> None:
    here = Setting()
    here.cloud.errors = [CloudError(ErrorKind.CONFIG, "no such launch template")]

    await here.until("Failed")

    assert not here.state.backoffs.of_pool("p", here.clock.now)


async def test_a_pod_that_slipped_in_gives_the_node_up() -> None:
    here = Setting(nodes=("a",))
    here.api.put(
        "pods",
        {**fake_api.pod("x", "a"), "spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"nvidia.com/gpu": 1}}}]}},
    )

    await here.until("Failed")

    assert here.status.reason == "NodeTaken"
    assert not here.api.of("nodes", "a").spec.taints


async def test_a_machine_with_a_device_less_is_quarantined_and_replaced() -> None:
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Joining")
    here.api.put(
        "nodes",
        {
            **fake_api.node("n-i0", gpus=7, labels=here.api.of("nodes", "n-i0").metadata.labels),
            "spec": {"providerID": "sim://i0"},
        },
    )

    await here.until("Provisioned")
    await here.turn()

    assert here.cloud.terminated == ["i0"]
    assert [order.count for order in here.cloud.orders] == [2, 1]
    assert "MachineBad" in here.api.events


async def test_a_stale_write_is_taken_up_again() -> None:
    here = Setting()
    here.api.errors["replace"] = [Conflict("changed")]

    await here.until("Provisioned")


async def test_before_a_machine_ends_its_pods_are_looked_up_live() -> None:
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Provisioned")
    here.api.lag.add("pods")
    here.api.put("pods", fake_api.pod("w", "n-i0", selector={KEY: "true"}))
    here.api.put("workloads", fake_api.workload("Finished"))

    for _ in range(12):
        await here.turn()

    assert here.cloud.terminated == ["i1"]
    here.api.remove("pods", "w", "team")
    await here.until("Released")
    assert here.cloud.terminated == ["i1", "i0"]


async def test_a_machine_that_never_counted_as_joined_is_looked_at_as_well() -> None:
    here = Setting(purchases=(purchase("od", 1),))
    here.api.lag = {"nodes", "pods"}
    await here.until("Joining")
    here.api.put("workloads", fake_api.workload("Finished"))
    await here.until("Failing")
    assert [each.node for each in here.status.instances] == [""]
    here.api.lag = {"pods"}
    here.api.put("nodes", here.api.objects["nodes", "", "n-i0"])
    here.api.put("pods", fake_api.pod("tolerates-all", "n-i0"))

    for _ in range(12):
        await here.turn()

    assert here.cloud.terminated == []


async def test_a_cloud_that_refuses_to_end_machines_is_not_asked_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Setting(purchases=(purchase("od", 1),))
    await here.until("Provisioned")
    here.api.put("workloads", fake_api.workload("Finished"))
    asked = list[Any]()

    async def refuse(ids: Any) -> None:
        asked.append(here.clock.now)
        raise CloudError(ErrorKind.THROTTLED, "slower")

    monkeypatch.setattr(here.cloud, "terminate", refuse)
    while len(asked) < 3:
        await here.turn()

    assert min((later - sooner).total_seconds() for sooner, later in itertools.pairwise(asked)) >= 5


async def test_an_odd_404_is_not_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that doesn't serve the kind answers 404 without naming the object."""
    here = Setting(purchases=(purchase("od", 2),))
    await here.until("Provisioned")
    here.api.remove("workloads", "job", "team")
    real = here.api.get

    async def odd(resource: Any, name: str, namespace: str = "") -> Any:
        if resource.plural == "workloads":
            raise NotFound("the server could not find the requested resource")
        return await real(resource, name, namespace)

    with monkeypatch.context() as patch:
        patch.setattr(here.api, "get", odd)
        for _ in range(3):
            await here.turn()
        assert here.status.phase == "Provisioned"

    await here.turn()
    assert here.status.phase == "Releasing"


async def test_a_job_of_nobody_wakes_nobody() -> None:
    here = Setting()
    made = decode({"metadata": {"name": "by-hand", "labels": {"corral.dev/health-check": "true"}}}, core.Job)
    here.state.jobs.put(("default", "by-hand"), made)
    here.controller.stop()  # the queue takes what is there, nobody works on it
    await here.controller.run()
    assert sorted(here.controller.queue._wanted) == ["b"]


async def test_a_vanished_booking_is_done() -> None:
    here = Setting()
    here.api.remove("bookings", "b")

    assert (await here.reconciler.reconcile("b")).requeue_after is None


async def test_a_crash_point_is_inert_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Setting()
    died: list[int] = []
    monkeypatch.setattr("os._exit", died.append)
    monkeypatch.setenv("CORRAL_CRASH_AT", "buy")

    await here.until("Provisioned")

    assert died == [137]


async def test_an_api_server_that_does_not_serve_bookings_ends_none() -> None:
    setting = Setting()
    setting.api.errors["get"] = [NotFound("the server could not find the requested resource")]
    with pytest.raises(NotFound):
        await setting.reconciler.reconcile("b")
    setting.api.remove("bookings", "b")
    assert await setting.reconciler.reconcile("b") == DONE


class Hung(Setting):
    """A running gang on two machines; the kubelet of the first says nothing from now on. Its pod is told to end 5 min later."""

    async def begin(self, told: bool = True) -> None:
        await self.until("Provisioned")
        for name in ("n-i0", "n-i1"):
            self.api.put("pods", fake_api.pod(f"on-{name}", name, selector={KEY: "true"}))
        await self.turn()
        node, pod = self.api.objects["nodes", "", "n-i0"], self.api.objects["pods", "team", "on-n-i0"]
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": stamp(self.clock.now)}]
        self.api.put("nodes", node)
        if told:
            pod["metadata"]["deletionTimestamp"] = stamp(self.clock.now + timedelta(minutes=5))
            self.api.put("pods", pod)

    async def minutes(self, number: float) -> None:
        end = self.clock.now + timedelta(minutes=number)
        while self.clock.now < end:
            await self.turn()


async def test_a_machine_whose_kubelet_hangs_is_replaced_at_once_and_ended_after_half_an_hour() -> None:
    here = Hung(purchases=(purchase("od", 2),))
    await here.begin()

    await here.minutes(7)
    assert sorted(here.cloud.machines) == ["i0", "i1", "i2"], "the replacement waits for no pod"
    await here.minutes(21)
    assert not here.cloud.terminated, "behind a partition its pod may still run"
    await here.minutes(4)

    assert here.cloud.terminated == ["i0"]
    assert here.status.phase == "Provisioned"


async def test_a_pod_that_nobody_told_to_end_keeps_its_machine() -> None:
    here = Hung(purchases=(purchase("od", 2),))
    await here.begin(told=False)

    await here.minutes(120)

    assert not here.cloud.terminated


async def test_a_kubelet_that_is_back_at_the_last_look_keeps_its_machine() -> None:
    here = Hung(purchases=(purchase("od", 2),))
    await here.begin()
    await here.minutes(20)
    here.api.lag.add("nodes")
    node = here.api.objects["nodes", "", "n-i0"]
    here.api.put("nodes", {**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    await here.minutes(30)

    assert not here.cloud.terminated


async def test_no_more_of_them_are_ended_in_a_minute_than_allowed() -> None:
    here = Hung(purchases=(purchase("od", 2),))
    here.reconciler._pace = Pace(1)
    await here.begin()
    await here.minutes(29)
    for _ in range(30):
        here.reconciler._pace.take(here.clock.now)
        await here.turn()

    assert not here.cloud.terminated
    await here.minutes(4)
    assert here.cloud.terminated == ["i0"]


async def test_a_pod_left_behind_holds_no_booking() -> None:
    here = Hung(purchases=(purchase("od", 2),))
    await here.begin()
    here.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
    here.api.remove("pods", "on-n-i1", "team")

    await here.minutes(25)
    assert here.status.phase == "Provisioned"
    await here.minutes(6)
    assert sorted(here.cloud.terminated) == ["i0", "i1"]

    here.api.remove("pods", "on-n-i0", "team")  # as the pod garbage collector does when the Node is gone
    await here.until("Released", turns=5)
