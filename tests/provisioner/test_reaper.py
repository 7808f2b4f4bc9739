from datetime import timedelta
from typing import Any

import pytest

from provisioner.clouds.base import Order
from provisioner.observing import Observer
from provisioner.pace import Pace
from provisioner.reaper import Reaper, Sightings, too_many
from tests.provisioner import fake_api
from tests.provisioner.fake_api import START
from tests.provisioner.world import booking

pytestmark = pytest.mark.looptime
KEY = "old.booking.corral.dev/main"
MARKED = {KEY: "true", "corral.dev/request": "old"}
TAINT = [{"key": "corral.dev/booked", "effect": "NoSchedule"}]


def test_sightings_are_apart_and_without_interruption() -> None:
    sightings = Sightings()

    assert sightings.ripe(["a"], START, 0) == []
    assert sightings.ripe(["a"], START + timedelta(seconds=29), 0) == []
    assert sightings.ripe(["a", "b"], START + timedelta(seconds=30), 0) == ["a"]
    assert sightings.ripe([], START + timedelta(seconds=31), 0) == []
    assert sightings.ripe(["a"], START + timedelta(seconds=99), 0) == []
    assert sightings.ripe(["a"], START + timedelta(seconds=200), 120) == []


@pytest.mark.parametrize(
    ("orphans", "running", "alarm"),
    [(5, 5, False), (6, 6, True), (6, 12, False), (7, 12, True), (50, 100, False), (51, 100, True), (0, 0, False)],
)
def test_too_many(orphans: int, running: int, alarm: bool) -> None:
    assert too_many(orphans, running) is alarm


class Setting:
    def __init__(self) -> None:
        self.api, self.clock = fake_api.Api(), fake_api.Clock()
        self.cloud = fake_api.FakeCloud(self.api)
        self.state = fake_api.state(self.api, self.cloud)
        Observer(self.state, self.api)  # type: ignore[arg-type]
        self.api.put("capacitypools", fake_api.pool())
        recorder = fake_api.recorder(self.api, self.clock)
        self.reaper = Reaper(self.state, self.api, recorder, self.clock, Pace())  # type: ignore[arg-type]

    def machine(self, id_: str, *, booked: str = "old", installation: str = "here", node: bool = False, **order: Any) -> None:
        tags = {"corral.dev/installation": installation, "corral.dev/booking": booked}
        self.cloud.add(id_, Order("t", "h100", "z1", "on-demand", 1, tags=tags, **order))
        if not node:
            self.api.remove("nodes", f"n-{id_}")

    async def turns(self, number: int = 8) -> None:
        for _ in range(number):
            await self.reaper.turn()
            self.clock.pass_by(15)


async def test_an_orphan_is_ended_after_a_grace() -> None:
    here = Setting()
    here.machine("i0")

    await here.turns(4)
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
    here.api.put("nodes", fake_api.node("n-i0", "sim://i0"))

    await here.turns()

    assert not here.cloud.terminated


async def test_when_much_looks_orphaned_nothing_is_ended() -> None:
    here = Setting()
    for number in range(6):
        here.machine(f"i{number}")

    await here.turns()

    assert not here.cloud.terminated
    assert "TooManyOrphans" in here.api.events


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
