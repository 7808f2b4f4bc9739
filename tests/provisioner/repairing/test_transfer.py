"""A warm machine goes from one booking to the next, whatever dies on the way."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from kube.bookings import BookedInstance, BookedNode, Booking, BookingStatus
from kube.meta import ObjectKey
from kube.resources import BOOKINGS
from provisioner.bookings import BookingReconciler, controller
from provisioner.ending.stray import StrayMarks
from provisioner.repairing.transfer import Grip, claimed, grip, offered
from runtime.client import Resource
from tests.provisioner import fake_api
from tests.provisioner.world import booking, purchase

pytestmark = pytest.mark.looptime
OLD, NEW = "b.booking.corral.dev/main", "c.booking.corral.dev/main"
BOOKED = "corral.dev/booked"


def over(*states: str, phase: str = "Releasing") -> Booking:
    """A booking with a machine in each of these states, i0 first, and a node of its own."""
    machines = tuple(
        BookedInstance(id=f"i{number}", purchase="od", state=state, node=f"n-i{number}", provider_id=f"sim://i{number}")  # type: ignore[arg-type]
        for number, state in enumerate(states)
    )
    made = booking(nodes=("a",), purchases=(purchase("od", len(states)),))
    return structs.replace(made, status=BookingStatus(phase=phase, instances=machines))  # type: ignore[arg-type]


def taker(*nodes: str, phase: str = "Marking", name: str = "c", giver: str = "b") -> Booking:
    made = booking(nodes=nodes)
    taken = tuple(structs.replace(each, provider_id=f"sim://{each.name[2:]}", taken_over=giver) for each in made.spec.nodes)
    pod_sets = tuple(structs.replace(each, label=f"{name}.booking.corral.dev/main") for each in made.spec.pod_sets)
    spec = structs.replace(
        made.spec,
        nodes=taken,
        pod_sets=pod_sets,
        request=ObjectKey(namespace="team", name="next", uid="33333333-3333-3333-3333-333333333333"),
        workload=ObjectKey(namespace="team", name="next", uid="44444444-4444-4444-4444-444444444444"),
    )
    meta = structs.replace(made.metadata, name=name, uid=f"{name}-uid")
    return structs.replace(made, metadata=meta, spec=spec, status=BookingStatus(phase=phase))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of", "keys"),
    [
        pytest.param(over("Ready"), {"a", "sim://a", "n-i0", "sim://i0"}, id="all that is sound"),
        pytest.param(over("Terminating", "Bad", "Transferred", "Joined"), {"a", "sim://a"}, id="nothing that is decided or bad"),
        pytest.param(over("Ready", phase="Provisioned"), set(), id="nothing that is in use"),
        pytest.param(over("Ready", phase="Failing"), set(), id="nothing of an attempt that failed"),
    ],
)
def test_what_a_booking_gives_away(of: Booking, keys: set[str]) -> None:
    assert offered([of]) == dict.fromkeys(keys, "b")


@pytest.mark.parametrize(
    ("giver", "node", "expected"),
    [
        pytest.param(None, "n-i0", Grip.LOOSE, id="gone"),
        pytest.param(over("Ready", phase="Released"), "n-i0", Grip.LOOSE, id="over"),
        pytest.param(over("Transferred"), "n-i0", Grip.LOOSE, id="written off"),
        pytest.param(over("Ready"), "n-i0", Grip.FIRM, id="not yet"),
        pytest.param(over("Terminating"), "n-i0", Grip.REFUSED, id="on its way out"),
        pytest.param(over("Gone"), "n-i0", Grip.REFUSED, id="ended"),
        pytest.param(over("Ready", phase="Provisioned"), "n-i0", Grip.REFUSED, id="an older status came back"),
        pytest.param(over("Ready"), "a", Grip.LOOSE, id="no machine of its own"),
    ],
)
def test_how_the_former_booking_stands_to_a_node(giver: Booking | None, node: str, expected: Grip) -> None:
    provider_id = "sim://a" if node == "a" else "sim://i0"
    assert grip(giver, BookedNode(name=node, pool="p", pods={}, provider_id=provider_id, taken_over="b")) is expected


@pytest.mark.parametrize(
    ("takers", "names"),
    [
        pytest.param([taker("n-i0")], {"n-i0"}, id="one"),
        pytest.param([taker("n-i0"), taker("n-i1", name="d", phase="Provisioned")], {"n-i0", "n-i1"}, id="two"),
        pytest.param([taker("n-i0", phase="Failing")], set(), id="one that gives up"),
        pytest.param([taker("n-i0", giver="x")], set(), id="another's"),
    ],
)
def test_what_is_claimed(takers: Iterable[Booking], names: set[str]) -> None:
    assert claimed("b", takers) == names


class Setting:
    """Booking b has one machine, whose gang is over; the machine would be ended at once."""

    def __init__(self) -> None:
        self.api, self.clock = fake_api.Api(), fake_api.Clock()
        self.cloud = fake_api.FakeCloud(self.api)
        self.state = fake_api.state(self.api, self.cloud)
        self.api.put("capacitypools", fake_api.pool())
        for kind, made in (("provisioningrequests", fake_api.request()), ("workloads", fake_api.workload("QuotaReserved"))):
            self.api.put(kind, made)
            uid = "33333333" if kind == "provisioningrequests" else "44444444"
            meta = {**made["metadata"], "name": "next", "uid": f"{uid}-{uid[:4]}-{uid[:4]}-{uid[:4]}-{uid}{uid[:4]}"}
            self.api.put(kind, {**made, "metadata": meta})
        self.reconciler = BookingReconciler(self.state, self.api, fake_api.recorder(self.api, self.clock), self.clock)  # type: ignore[arg-type]
        controller(self.reconciler, self.state)
        self.stray = StrayMarks(self.state, self.api, self.clock)  # type: ignore[arg-type]
        self.put(booking(purchases=(purchase("od", 1),)))

    def put(self, made: Booking) -> None:
        body = made.to_json()
        body["metadata"]["finalizers"] = ["corral.dev/booking"]
        self.api.put("bookings", body)

    def status(self, name: str = "b") -> Any:
        return self.api.of("bookings", name).status

    def there(self, name: str) -> bool:
        return ("bookings", "", name) in self.api.objects

    @property
    def node(self) -> Any:
        return self.api.of("nodes", "n-i0")

    @property
    def tainted(self) -> bool:
        return any(each.key == BOOKED for each in self.node.spec.taints)

    async def turn(self, name: str = "b") -> None:
        result = await self.reconciler.reconcile(name)
        self.clock.pass_by(min(1.0, max(0.1, result.requeue_after or 0)))

    async def until(self, name: str, *phases: str, turns: int = 200) -> None:
        for _ in range(turns):
            if self.status(name).phase in phases:
                return
            await self.turn(name)
        raise AssertionError(f"{name} is still {self.status(name)}")

    async def released(self) -> None:
        """Until the old gang is over, at the moment when its machine is on offer."""
        await self.until("b", "Provisioned")
        self.api.put("workloads", fake_api.workload("QuotaReserved", "Finished"))
        await self.until("b", "Releasing")


async def test_new_booking_then_the_old_one_lets_go_then_the_marks() -> None:
    here = Setting()
    await here.released()
    here.put(taker("n-i0"))

    await here.turn("c")
    assert set(here.node.metadata.labels) >= {OLD}
    assert NEW not in here.node.metadata.labels, "the old one has not let go yet"
    await here.until("b", "Released")
    assert [each.state for each in here.status().instances] == ["Transferred"]
    assert OLD in here.node.metadata.labels
    assert here.tainted
    await here.until("c", "Provisioned")

    labels = here.node.metadata.labels
    assert (OLD in labels, labels[NEW], labels["corral.dev/request"]) == (False, "true", "c")
    assert here.tainted
    assert (here.cloud.terminated, len(here.cloud.orders)) == ([], 1)


async def test_without_a_taker_the_machine_goes_after_a_moment() -> None:
    here = Setting()
    await here.released()
    began = here.clock.now

    await here.until("b", "Released")

    assert here.cloud.terminated == ["i0"]
    assert (here.clock.now - began).total_seconds() < 60


async def test_nobody_waits_for_a_gang_when_none_is_there() -> None:
    here = Setting()
    await here.released()
    for name in ("job", "next"):
        here.api.remove("provisioningrequests", name, "team")

    await here.turn()
    assert [each.state for each in here.status().instances] == ["Terminating"]


async def test_a_taker_that_comes_too_late_plans_again() -> None:
    here = Setting()
    await here.released()
    while here.status().instances[0].state != "Terminating":
        await here.turn()
    here.put(taker("n-i0"))

    await here.turn("c")

    assert (here.status("c").phase, here.status("c").reason) == ("Failing", "NodeTaken")
    await here.until("b", "Released")
    await here.until("c", "Failed")
    assert here.cloud.terminated == ["i0"]


@pytest.mark.parametrize("seed", range(25))
async def test_whoever_dies_on_the_way_the_machine_is_ended_once_or_kept_marked(seed: int) -> None:
    """Turns of both in any order; the new booking may be cancelled at any of them."""
    here, dice = Setting(), random.Random(seed)
    await here.released()
    here.put(taker("n-i0"))
    doomed = dice.randrange(-10, 14)
    for number in range(40):
        if number == doomed:
            await here.api.delete(Resource(*BOOKINGS), "c")
        names = [name for name in ("b", "c") if here.there(name)]
        if names:
            await here.turn(dice.choice(names))
        if here.there("c") and here.status("c").phase == "Provisioned":
            assert here.tainted
            assert NEW in here.node.metadata.labels
            assert not here.cloud.terminated

    for _ in range(150):
        for name in [name for name in ("b", "c") if here.there(name)]:
            await here.turn(name)
        await here.stray.turn()
        here.clock.pass_by(5)
        await asyncio.sleep(5)
    assert not here.there("b")
    if doomed < 0:
        assert here.status("c").phase in ("Provisioned", "Releasing", "Released")
    else:
        assert not here.there("c")
        alive = [each for each in here.cloud.machines.values() if each.state == "running"]
        marked = [each for each in here.api.objects if each[0] == "nodes" and here.tainted]
        assert not marked, "marks of nobody"
        assert len(here.cloud.terminated) == 1 - len(alive)
        assert not alive or "corral.dev/idle-since" in here.node.metadata.annotations
