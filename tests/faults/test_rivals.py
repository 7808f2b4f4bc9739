"""Two whole installations, each in a cluster of its own, on one account's two reservations: each gang needs all of both.

Whoever gets the first reservation gets the second, too; the other holds nothing meanwhile, and comes after it.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec
import pytest
from msgspec import structs

from kube.ours import Booking
from provisioner import main
from provisioner.buying import creation
from provisioner.buying.drafts import draft
from provisioner.clouds.simulated.config import Config
from provisioner.clouds.simulated.records import Memory
from provisioner.clouds.simulated.world import World
from provisioner.state import TAG_BOOKING
from runtime import manager
from tests.faults import loop
from tests.faults.gangs import Order
from tests.faults.kinds import Script
from tests.faults.listener import listening
from tests.faults.objects import Change
from tests.faults.scenes import Scene
from tests.faults.stage import Stage
from tests.faults.wire import Process

EACH = 2
"""Slots of a reservation."""
RESERVATIONS = ("cr-1", "cr-2")
SEEDS = 12


@dataclass(frozen=True)
class Contended(Scene):
    """Two reservations; `first` is the one that the pool names first, and its plans, too."""

    first: str = "cr-1"

    def config(self) -> Config:
        held = [{"id": name, "shape": "h100", "zone": "east", "count": EACH} for name in RESERVATIONS]
        return msgspec.convert({**msgspec.to_builtins(super().config()), "reservations": held}, Config)

    def pool(self) -> dict[str, Any]:
        pool = super().pool()
        ids = sorted(RESERVATIONS, key=lambda name: name != self.first)
        stays = {"policy": "WhenIdle", "after": "0s"}
        sources = [
            {"name": f"s{number}", "capacityType": "reserved", "reservationIDs": [name], "scaleIn": stays}
            for number, name in enumerate(ids)
        ]
        return {**pool, "spec": {**pool["spec"], "sources": sources}}


class Slow(Process):
    """Its launches take as long as a cloud's do."""

    def __init__(self, script: Script, rng: random.Random) -> None:
        super().__init__(script)
        self._rng = rng

    async def begin(self, call: str) -> str:
        kind = await super().begin(call)
        if call == "cloud launch":
            await asyncio.sleep(self._rng.uniform(0.2, 3.0))
        return kind


class Rival(Stage):
    """One of the two: it begins `after` seconds, and goes on until both are done."""

    def __init__(self, name: str, first: str, world: World, rng: random.Random) -> None:
        order = Order("job", EACH * len(RESERVATIONS), at=rng.choice((0, 1, 2, 3, 4, 20)))
        super().__init__(Contended((order,), first=first), Script(), name, world)
        self.after, self.both, self.bookings = rng.uniform(0, 3), [self], 0
        self._rng = rng

    @property
    def launches(self) -> int:
        """Calls."""
        return self.script.counts["cloud launch"]

    def process(self) -> Process:
        return Slow(self.script, self._rng)

    async def play(self) -> None:
        await asyncio.sleep(self.after)
        await super().play()

    def _furnish(self) -> None:
        super()._furnish()
        self.objects.told.append(self._see)

    def _see(self, change: Change) -> None:
        """What did not win is given back whole: a failed booking has no machine."""
        if change.plural != "bookings" or change.new is None:
            return
        booking = change.new.body
        self.bookings += change.old is None
        if booking.get("status", {}).get("phase") == "Failed":
            name = booking["metadata"]["name"]
            kept = [each for each in self.cloud.machines() if each.order.tags[TAG_BOOKING] == name and each.occupies(self.now())]
            if kept:
                self.judge.say(f"booking {name} of {self.cloud.installation} failed and keeps {len(kept)} machines")

    def _quiet(self) -> bool:
        return all(Stage._quiet(each) for each in self.both)


def halved(*args: Any, **more: Any) -> Booking:
    """A draft whose purchases are two each, as those of two pod sets would be."""
    booking = draft(*args, **more)
    halves = (structs.replace(each, name=each.name + n, count=each.count // 2) for each in booking.spec.purchases for n in "ab")
    return structs.replace(booking, spec=structs.replace(booking.spec, purchases=tuple(halves)))


def rivals(rng: random.Random) -> list[Rival]:
    """Both, after they have played."""
    random.seed(1)

    async def go() -> list[Rival]:
        world = World(Contended(()).config(), Memory())
        both = [Rival("a", "cr-1", world, rng), Rival("b", "cr-2", world, rng)]
        with mock.patch.object(main, "_now", both[0].now), mock.patch.object(manager, "_settle_memory"):
            async with asyncio.TaskGroup() as group:
                for each in both:
                    each.both = both
                    group.create_task(each.play())
        return both

    problems: list[str] = []
    with listening(problems.append):
        both = loop.run(go)
    assert not problems
    return both


MOST = (3, 5)
"""Bookings and launch calls of both. The first: one booking, a call for each reservation. The other at worst the same for nothing
once: a booking and one call, refused at the first reservation, for there it meets the other. Then it is backed off for 30 s, and
by then its cloud, asked every 10 s, has told that the first has all. And when that one is done: a booking, a call for each.
"""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_of_two_installations_gets_all_and_then_the_other(seed: int) -> None:
    both = rivals(random.Random(seed))
    assert not [words for each in both for words in each.judge.broken]
    assert sum(each.bookings for each in both) <= MOST[0]
    assert sum(each.launches for each in both) <= MOST[1]
    assert [each.gangs[0].attempt for each in both] == [1, 1], "the one that waits keeps its quota"


class InStep(random.Random):
    """No luck at all: both do the same at the same time."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def choice(self, seq: Any) -> Any:
        return seq[0]


def test_installations_that_each_hold_half_of_a_reservation_do_not_fail_in_step_for_ever() -> None:
    """No order helps where one reservation takes two calls: that they wait for different whiles does. So they fail together once
    (2 bookings of 2 calls); then one gets all (4 calls), and the other fails in vain twice at most (2 of 2) before it does (4).
    """
    with mock.patch.object(creation, "draft", halved):
        both = rivals(InStep())
    assert not [words for each in both for words in each.judge.broken]
    assert sum(each.bookings for each in both) <= 2 + 1 + 2 + 1
    assert sum(each.launches for each in both) <= 2 * 2 + 4 + 2 * 2 + 4
