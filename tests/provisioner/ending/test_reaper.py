import asyncio
from typing import Any

import pytest

from capacity.requirements import Taint
from kube.ours import BookedInstance, BookingStatus
from provisioner.clouds.base import Order
from provisioner.ending.pace import Pace
from provisioner.ending.reaper import Reaper, too_many
from provisioner.ending.sightings import Sightings
from tests.provisioner import fake_api
from tests.provisioner.world import booking, purchase

pytestmark = pytest.mark.looptime
KEY = "old.booking.corral.dev/main"
MARKED = {KEY: "true", "corral.dev/request": "old"}
TAINT = [{"key": "corral.dev/booked", "effect": "NoSchedule"}]


def test_sightings_are_apart_and_without_interruption() -> None:
    sightings = Sightings()

    assert sightings.ripe(["a"], 0, 0) == []
    assert sightings.ripe(["a"], 29, 0) == []
    assert sightings.ripe(["a", "b"], 30, 0) == ["a"]
    assert sightings.ripe([], 31, 0) == []
    assert sightings.ripe(["a"], 99, 0) == []
    assert sightings.ripe(["a"], 200, 120) == []


@pytest.mark.parametrize(
    ("orphans", "running", "alarm"),
    [(5, 5, False), (6, 6, True), (6, 59, True), (6, 60, False), (7, 69, True), (50, 500, False), (51, 500, True), (0, 0, False)],
)
def test_too_many(orphans: int, running: int, alarm: bool) -> None:
    assert too_many(orphans, running) is alarm


class Setting:
    def __init__(self, limit: int = 20) -> None:
        self.api, self.clock = fake_api.Api(), fake_api.Clock()
        self.cloud = fake_api.FakeCloud(self.api)
        self.state = fake_api.state(self.api, self.cloud)
        self.api.put("capacitypools", fake_api.pool())
        self.state.cluster = "uid-1"
        self.reaper = Reaper(self.state, self.api, self.clock, Pace(limit))  # type: ignore[arg-type]

    def machine(
        self, id_: str, *, booked: str = "old", installation: str = "here", node: bool = False, more: Any = (), **order: Any
    ) -> None:
        tags = {"corral.dev/installation": installation, "corral.dev/booking": booked, **dict(more)}
        self.cloud.add(id_, Order("t", "h100", "z1", "on-demand", 1, tags=tags, **order))
        if not node:
            self.api.remove("nodes", f"n-{id_}")

    async def turns(self, number: int = 8) -> None:
        for _ in range(number):
            await self.reaper.turn()
            self.clock.pass_by(15)
            await asyncio.sleep(15)


async def test_an_orphan_is_ended_after_a_grace() -> None:
    here = Setting()
    here.machine("i0")

    await here.turns(4)
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_a_clock_that_is_put_forward_shortens_no_grace() -> None:
    here = Setting()
    here.machine("i0")

    await here.turns(1)
    here.clock.pass_by(3600)
    await here.turns(3)
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_what_is_claimed_or_foreign_stays() -> None:
    here = Setting()
    here.api.put("bookings", booking(nodes=("n-i2",)).to_json())
    here.machine("i0", booked="b")
    here.machine("i1", installation="there")
    here.machine("n-i2")
    here.machine("i3", node=True, annotations={"corral.dev/idle-since": "x"}, labels={"corral.dev/pool": "p"})

    await here.turns()

    assert not here.cloud.terminated


async def test_a_booking_that_the_store_does_not_show_saves_it() -> None:
    here = Setting()
    here.machine("i0", booked="b")
    here.api.lag.add("bookings")
    here.api.put("bookings", booking().to_json())

    await here.turns()

    assert not here.cloud.terminated


async def test_a_node_that_the_store_does_not_show_saves_it() -> None:
    here = Setting()
    here.machine("i0")
    here.api.lag.add("nodes")
    here.api.put("nodes", fake_api.node("n-i0", "sim://i0", labels={"corral.dev/pool": "p"}))

    await here.turns()

    assert not here.cloud.terminated


async def test_when_much_looks_orphaned_nothing_is_ended_and_sightings_begin_anew() -> None:
    here = Setting()
    for number in range(6):
        here.machine(f"i{number}")

    await here.turns()
    assert not here.cloud.terminated
    assert here.state.alarms["p"].startswith("6 of 6 machines look orphaned, such as i0, i1, i2: none is ended")

    here.cloud.machines.pop("i0")
    await here.turns(4)
    assert not here.cloud.terminated
    assert not here.state.alarms
    await here.turns(1)
    assert here.cloud.terminated == ["i1", "i2", "i3", "i4", "i5"]


async def test_a_machine_of_another_cluster_with_our_installation_id_stays() -> None:
    here = Setting()
    here.machine("i0", more={"corral.dev/cluster": "uid-2"})
    here.machine("i1", more={"corral.dev/cluster": "uid-1"})

    await here.turns()

    assert here.cloud.terminated == ["i1"]


class Careless(fake_api.FakeCloud):
    """Shows all there is, whatever the tags asked for."""

    async def instances(self, tags: Any) -> Any:
        return tuple(self.machines.values())


async def test_a_cloud_that_filters_badly_costs_nobody_a_machine() -> None:
    here = Setting()
    here.cloud = here.state.clouds["p"] = Careless(here.api)
    here.machine("i0", installation="there")

    await here.turns()

    assert not here.cloud.terminated


async def test_each_machine_is_one_pools_and_that_of_a_pool_that_is_gone_anybodys() -> None:
    here = Setting()
    here.api.put("capacitypools", {**fake_api.pool(), "metadata": {"name": "q", "uid": "q-uid"}})
    here.state.clouds["q"] = here.cloud
    for number in range(3):
        here.machine(f"p{number}", more={"corral.dev/pool": "p"})
        here.machine(f"q{number}", more={"corral.dev/pool": "q"})
    here.machine("x", more={"corral.dev/pool": "gone"})

    await here.turns()

    assert sorted(here.cloud.terminated) == ["p0", "p1", "p2", "q0", "q1", "q2", "x"]


async def test_no_more_are_ended_in_a_minute_than_allowed() -> None:
    here = Setting(limit=2)
    for number in range(5):
        here.machine(f"i{number}")

    await here.turns(5)
    assert here.cloud.terminated == ["i0", "i1"]
    await here.turns(3)
    assert len(here.cloud.terminated) == 2
    await here.turns(1)
    assert len(here.cloud.terminated) == 4


async def test_an_orphan_with_a_node_of_no_pool_is_closed_then_ended() -> None:
    here = Setting()
    here.machine("i0", node=True)

    await here.turns(5)
    assert here.api.of("nodes", "n-i0").spec.unschedulable
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_an_orphan_that_pods_run_on_is_never_ended_and_opened_again() -> None:
    here = Setting()
    here.machine("i0", node=True)
    await here.turns(5)
    here.api.lag.add("pods")
    here.api.put("pods", fake_api.pod("w", "n-i0"))

    await here.turns(10)
    assert not here.cloud.terminated
    assert not here.api.of("nodes", "n-i0").spec.unschedulable

    here.api.remove("pods", "w", "team")
    await here.turns(2)
    assert here.cloud.terminated == ["i0"]


async def test_a_node_that_a_pool_selects_stands_for_its_machine() -> None:
    here = Setting()
    spec = {"mode": "Active", "provider": {"adopted": {}}, "nodeSelector": {"matchLabels": {"team": "a"}}}
    here.api.put("capacitypools", {"metadata": {"name": "mine", "uid": "m"}, "spec": spec})
    here.machine("i0", node=True, labels={"team": "a"})

    await here.turns()

    assert not here.cloud.terminated


async def test_marks_of_a_gone_booking_are_taken_off() -> None:
    here = Setting()
    here.api.put("nodes", fake_api.node("adopted", labels=dict(MARKED), taints=list(TAINT)))
    here.machine("i0", node=True, labels={"corral.dev/pool": "p", **MARKED})

    await here.turns()

    adopted, launched = here.api.of("nodes", "adopted"), here.api.of("nodes", "n-i0")
    assert not adopted.metadata.labels
    assert not adopted.spec.taints
    assert KEY not in launched.metadata.labels
    assert "corral.dev/idle-since" in launched.metadata.annotations
    assert not here.cloud.terminated


async def test_marks_under_running_pods_stay() -> None:
    here = Setting()
    here.api.put("nodes", fake_api.node("a", labels=dict(MARKED), taints=list(TAINT)))
    here.api.put("pods", fake_api.pod("w", "a", selector={KEY: "true"}))

    await here.turns()

    assert here.api.of("nodes", "a").metadata.labels == MARKED


async def test_marks_under_pods_that_the_store_does_not_show_stay() -> None:
    here = Setting()
    here.api.put("nodes", fake_api.node("a", labels=dict(MARKED), taints=list(TAINT)))
    here.api.lag.add("pods")
    here.api.put("pods", fake_api.pod("w", "a", selector={KEY: "true"}))

    await here.turns()

    assert here.api.of("nodes", "a").metadata.labels == MARKED


MACHINE = BookedInstance(id="a", provider_id="sim://a", purchase="od", token="t", state="Joined", node="a")


async def test_marks_on_a_node_that_a_live_booking_bought_are_its_own_to_change() -> None:
    here = Setting()
    here.api.put("bookings", booking(purchases=(purchase("od", 1),), status=BookingStatus(instances=(MACHINE,))).to_json())
    here.api.put("nodes", fake_api.node("a", labels=dict(MARKED), taints=list(TAINT)))

    await here.turns()

    assert here.api.of("nodes", "a").metadata.labels == MARKED


async def test_a_node_that_a_live_booking_takes_is_freed_of_the_marks_of_gone_ones_alone() -> None:
    """Its kubelet registered it anew with the labels that it was launched with; the booking can't mark what is another's."""
    here, mine = Setting(), booking(nodes=("a", "b"))
    here.api.put("bookings", mine.to_json())
    own = {f"{mine.metadata.name}.booking.corral.dev/main": "true"}
    here.api.put("nodes", fake_api.node("a", labels=dict(MARKED), taints=list(TAINT)))
    here.api.put("nodes", fake_api.node("b", labels=MARKED | own, taints=list(TAINT)))

    await here.turns(2)
    assert here.api.of("nodes", "a").metadata.labels == MARKED
    await here.turns()

    assert not here.api.of("nodes", "a").metadata.labels
    assert here.api.of("nodes", "b").metadata.labels == MARKED | own


async def test_a_node_that_a_live_booking_takes_is_not_made_idle_before_it_is_marked() -> None:
    here = Setting()
    here.api.put("bookings", booking(nodes=("n-i0",)).to_json())
    here.machine("i0", node=True, labels={"corral.dev/pool": "p"})

    await here.turns()

    assert "corral.dev/idle-since" not in here.api.of("nodes", "n-i0").metadata.annotations


async def test_a_restored_cluster_keeps_what_runs() -> None:
    """All bookings are gone from the API server, pods run on."""
    here = Setting()
    here.machine("i0", node=True, labels={"corral.dev/pool": "p", **MARKED}, taints=())
    here.api.put("pods", fake_api.pod("w", "n-i0", selector={KEY: "true"}))

    await here.turns(20)

    assert not here.cloud.terminated
    assert KEY in here.api.of("nodes", "n-i0").metadata.labels


async def test_what_cannot_be_read_is_tried_again() -> None:
    here = Setting()
    here.machine("i0")
    await here.turns(4)
    here.api.errors["list"] = [ValueError("Expected `str`, got `int` - at `$.metadata.name`")]

    await here.turns(1)
    assert not here.cloud.terminated
    await here.turns(1)

    assert here.cloud.terminated == ["i0"]


async def test_what_was_seen_in_a_pool_that_is_gone_is_forgotten() -> None:
    here = Setting()
    for number in range(6):
        here.machine(f"i{number}")
    await here.turns(1)
    assert here.state.alarms
    assert list(here.reaper._orphans()) == [(6, {"pool": "p"})]

    del here.state.clouds["p"]
    await here.turns(1)

    assert not here.state.alarms
    assert list(here.reaper._orphans()) == []


class Unreadable(fake_api.FakeCloud):
    async def instances(self, tags: Any) -> Any:
        raise ValueError("not a list of machines")


async def test_a_pool_that_cannot_be_looked_at_holds_up_no_other() -> None:
    here = Setting()
    here.state.clouds["a-bad-one"] = Unreadable(here.api)
    here.machine("i0")

    await here.turns(5)

    assert here.cloud.terminated == ["i0"]


async def test_a_quarantined_launched_node_that_no_booking_holds_becomes_idle_and_stays_closed() -> None:
    """A machine that its second gang took warm and found bad: nobody would ever end it."""
    here = Setting()
    labels = {"corral.dev/pool": "p", "corral.dev/quarantined": "true", **MARKED}
    here.machine("i0", node=True, labels=labels, taints=[Taint("corral.dev/booked", "NoSchedule")])
    here.api.put("nodes", fake_api.node("mine", labels={"corral.dev/quarantined": "true"}, taints=list(TAINT)))

    await here.turns(30)

    node, adopted = here.api.of("nodes", "n-i0"), here.api.of("nodes", "mine")
    assert node.metadata.annotations["corral.dev/idle-since"] == "2026-09-01T10:01:00Z", "since it was found"
    assert not {*MARKED} & {*node.metadata.labels}
    assert [each.key for each in node.spec.taints] == ["corral.dev/booked"]
    assert [each.key for each in adopted.spec.taints] == ["corral.dev/booked"], "its taint is no stray mark"
    assert not adopted.metadata.annotations
    assert not here.cloud.terminated


@pytest.mark.parametrize("reserved", [pytest.param(True, id="prepaid stays"), pytest.param(False, id="costs extra")])
async def test_a_quarantined_machine_of_a_pool_that_is_gone(reserved: bool) -> None:
    here = Setting()
    labels = {"corral.dev/pool": "gone", "corral.dev/quarantined": "true"}
    more = {"reservation": "cr-1"} if reserved else {}
    here.machine("i0", node=True, labels=labels, taints=[Taint("corral.dev/booked", "NoSchedule")], **more)
    assert list(here.reaper._left()) == [(1, {"pool": "gone"})]

    await here.turns(10)

    assert bool(here.cloud.terminated) is not reserved
