"""The pools' reconciler: a cloud that is asked now and then, and never forgotten for one bad answer."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kube import ours
from kube.meta import decode
from provisioner.buying.backoff import Key
from provisioner.clouds.base import CloudError, ErrorKind, Instance, Inventory
from provisioner.clouds.registry import Clouds
from provisioner.pools import PoolReconciler
from runtime.controller import DONE
from runtime.errors import Conflict
from runtime.events import Recorder
from runtime.fence import Deposed, Fence
from tests.conftest import WallClock
from tests.provisioner.make import booking, deleting, instance, inventory, node, pool, purchase, source
from tests.provisioner.world_of_requests import Events, World

pytestmark = pytest.mark.looptime


class Cloud:
    def __init__(self) -> None:
        self.asked = 0
        self.there: Sequence[Instance] = (instance(1),)
        self.stock = inventory()
        self.error: CloudError | None = None
        self.fence = Fence()

    def connect(self, _: ours.Provider) -> Any:
        return self

    async def instances(self, tags: Any) -> tuple[Instance, ...]:
        assert tags == {"corral.dev/installation": "here"}
        self.asked += 1
        if self.error:
            raise self.error
        return tuple(self.there)

    async def inventory(self, _: Any) -> Inventory:
        return self.stock


class Pooling(World):
    def __init__(self, clock: WallClock) -> None:
        super().__init__(clock)
        self.state.known.clear()
        self.cloud, self.events, self.woken = Cloud(), Events(), 0
        self.reconciler = PoolReconciler(
            self.state, self, cast("Recorder", self.events), cast("Clouds", self.cloud), clock, self._wake
        )

    def _wake(self) -> None:
        self.woken += 1

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.objects["capacitypools", "", "p"]["status"]
        return found

    def ready(self) -> tuple[str, str]:
        found = next(each for each in self.status()["conditions"] if each["type"] == "Ready")
        return found["status"], found["reason"]


@pytest.fixture
def world(clock: WallClock) -> Pooling:
    return Pooling(clock)


async def test_the_cloud_is_known_and_told_of(world: Pooling) -> None:
    assert (await world.reconciler.reconcile("p")).requeue_after == 10.0
    assert world.state.known["p"].inventory == world.cloud.stock
    with pytest.raises(Deposed):  # it doesn't lead
        await world.state.clouds["p"].terminate(["i"])
    assert world.ready() == ("True", "Ready")
    assert (world.woken, world.events.told) == (1, [("Normal", "Ready")])


async def test_it_is_not_asked_more_often_than_set(world: Pooling) -> None:
    for _ in range(3):
        await world.reconciler.reconcile("p")
    assert world.cloud.asked == 1
    await asyncio.sleep(10)
    await world.reconciler.reconcile("p")
    assert (world.cloud.asked, world.woken) == (2, 1)
    assert world.calls == [("patch", "capacitypools", "p"), ("apply", "capacitypools", "p")]


async def test_while_the_store_lags_the_same_is_not_written_again_with_another_time(world: Pooling) -> None:
    """Two statuses that differ in their times alone would be written by turns for ever, as the store shows the other."""
    world.lag = True
    for _ in range(3):
        await world.reconciler.reconcile("p")
        world.clock.advance(1)
    assert world.calls.count(("apply", "capacitypools", "p")) == 1


async def test_one_bad_answer_forgets_nothing(world: Pooling) -> None:
    await world.reconciler.reconcile("p")
    world.cloud.error = CloudError(ErrorKind.UNKNOWN, "connection refused")
    await asyncio.sleep(10)
    await world.reconciler.reconcile("p")
    known = world.state.known["p"]
    assert (known.inventory, known.error) == (world.cloud.stock, "Unknown: connection refused")
    assert world.ready() == ("False", "ProviderUnreachable")
    assert world.events.told[-1] == ("Warning", "ProviderUnreachable")
    world.cloud.error = None
    await asyncio.sleep(10)
    await world.reconciler.reconcile("p")
    assert world.ready() == ("True", "Ready")


async def test_a_cloud_never_reached_is_not_known(world: Pooling) -> None:
    world.cloud.error = CloudError(ErrorKind.CONFIG, "bad credentials")
    await world.reconciler.reconcile("p")
    assert "p" not in world.state.known
    assert world.ready() == ("False", "ProviderUnreachable")


async def test_another_provider_is_asked_at_once(world: Pooling) -> None:
    await world.reconciler.reconcile("p")
    world.add(pool(provider={"simulated": {"endpoint": "http://other"}}))
    await world.reconciler.reconcile("p")
    assert world.cloud.asked == 2


async def test_backoffs_and_money_are_taken_up_from_the_status(world: Pooling) -> None:
    until = world.clock() + timedelta(minutes=5)
    backoff = {
        "source": "od",
        "shape": "h100",
        "zone": "east",
        "reason": "InsufficientCapacity",
        "message": "no",
        "since": "2026-11-30T11:59:00Z",
        "until": "2026-11-30T12:05:00Z",
    }
    stored = {"backoffs": [backoff], "spend": {"day": "2026-11-30", "onDemand": "7.00"}}
    world.add(decode({**pool().to_json(), "status": stored}, ours.CapacityPool))
    await world.reconciler.reconcile("p")
    entry = world.state.backoffs.active(Key("p", "od", "h100", "east"), world.clock())
    assert entry is not None
    assert entry.until == until
    assert world.state.ledger.spent("p", [], world.clock()) == 7_000_000
    assert list(world.status()["backoffs"]) == [backoff]
    assert world.status()["spend"]["onDemand"] == "7.00"


async def test_a_pool_that_is_gone_is_forgotten(world: Pooling) -> None:
    await world.reconciler.reconcile("p")
    world.state.pools.put(("", "p"), None)
    assert await world.reconciler.reconcile("p") == DONE
    assert (world.state.known, world.state.clouds) == ({}, {})


# --- a pool that is deleted ------------------------------------------------------------------------------------------------


def delete(world: Pooling, *sources: ours.Source) -> None:
    """On 1 September at 9:59:50, long before the clock of these tests begins."""
    gone = deleting(pool("p", *sources))
    world.objects["capacitypools", "", "p"] = gone.to_json()
    world.add(gone)


async def test_the_finalizer_comes_before_the_cloud(world: Pooling) -> None:
    world.fail["patch"] = Conflict("changed")
    assert (await world.reconciler.reconcile("p")).requeue_after == 1.0
    assert world.state.clouds == {}
    await world.reconciler.reconcile("p")
    assert world.objects["capacitypools", "", "p"]["metadata"]["finalizers"] == ["corral.dev/pool"]
    assert "p" in world.state.clouds


async def test_a_deleted_pool_stays_connected_for_its_bookings_after_a_restart_too(world: Pooling) -> None:
    world.cloud.there = ()
    world.add(booking("b", purchase(), phase="Releasing"))
    delete(world)
    await world.reconciler.reconcile("p")
    assert "p" in world.state.clouds
    assert world.ready() == ("False", "Deleting")
    assert world.events.told == [("Warning", "Deleting")]
    world.add(booking("b", purchase(), phase="Released"))
    await world.reconciler.reconcile("p")
    assert ("capacitypools", "", "p") not in world.objects
    await world.reconciler.reconcile("p")
    assert world.state.clouds == {}


@pytest.mark.parametrize(
    ("policy", "goes"), [pytest.param("WhenIdle", False, id="to-be-ended"), pytest.param("Never", True, id="kept-for-good")]
)
async def test_a_deleted_pool_waits_for_the_machines_that_scale_in_ends(world: Pooling, policy: str, goes: bool) -> None:
    world.cloud.there = (instance(1, tags={"corral.dev/source": "od"}),)
    world.add(node("n", provider_id="sim:///east/i-2", labels={"corral.dev/pool": "p", "corral.dev/source": "od"}))
    delete(world, source("od", scaleIn={"policy": policy}))
    await world.reconciler.reconcile("p")
    assert (("capacitypools", "", "p") not in world.objects) is goes


async def test_a_pool_deleted_just_now_lingers(world: Pooling) -> None:
    world.cloud.there = ()
    delete(world)
    cast("WallClock", world.clock).at = datetime(2026, 9, 1, 9, 59, 52, tzinfo=UTC)
    assert (await world.reconciler.reconcile("p")).requeue_after == 1.0
    assert ("capacitypools", "", "p") in world.objects


async def test_a_health_check_without_its_template_is_told_to_the_pool(world: Pooling) -> None:
    world.add(pool(readiness={"healthCheck": {"podTemplateRef": {"name": "nccl"}}}))
    await world.reconciler.reconcile("p")
    assert ("Warning", "HealthCheckRefused") in world.events.told
    found = next(each for each in world.status()["conditions"] if each["type"] == "HealthCheckRefused")
    assert (found["status"], found["reason"]) == ("True", "PodTemplateMissing")
