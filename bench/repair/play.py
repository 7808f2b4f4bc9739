"""One gang from its plan to its start, by the real reconciler: nothing passes but virtual time."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bench.repair import scene
from bench.repair.machines import Machines
from kube import ours
from provisioner.bookings import BookingReconciler
from tests.provisioner import fake_api

STEP = 0.1
"""Seconds that one step of the lifecycle takes."""
LOOK = 20.0
"""Seconds between two looks while nothing is to be done. The service looks four times as often, and when something changes."""
LONGEST = 4 * scene.DEADLINE


class Loop(asyncio.SelectorEventLoop):
    """Its time is what the play says."""

    now = 0.0

    def time(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Outcome:
    """`took`: seconds from plan to Provisioned, or to the end. `bad`: machines that were replaced, `bought` all of them."""

    seed: int
    spare: int
    phase: str
    reason: str
    took: int
    bad: int
    bought: int

    @property
    def started(self) -> bool:
        return self.phase == "Provisioned" and self.took <= scene.DEADLINE


def play(seed: int, *, spare: int, one_in: int = 100) -> Outcome:
    """Raises AssertionError when a gang that started lacks a sound machine."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(_play(seed, spare, one_in))


async def _play(seed: int, spare: int, one_in: int) -> Outcome:
    clock, api = fake_api.Clock(), fake_api.Api()
    config = scene.cloud(spare, one_in)
    machines = Machines(config, api, clock)
    state = fake_api.state(api)
    state.clouds["p"] = machines
    for plural, body in (
        ("capacitypools", scene.pool(config)),
        ("provisioningrequests", {**fake_api.request(), "metadata": {"name": "job", "namespace": "team", "uid": f"seed-{seed}"}}),
        ("workloads", fake_api.workload("QuotaReserved")),
        ("bookings", scene.booking(seed, config, clock()).to_json()),
    ):
        api.put(plural, body)
    reconciler = BookingReconciler(state, api, fake_api.recorder(api, clock), clock)  # type: ignore[arg-type]
    loop: Any = asyncio.get_running_loop()
    began = clock()
    there = api.of("bookings", "b")
    while there.status.phase in ("Marking", "Launching", "Joining"):
        machines.step()
        result = await reconciler.reconcile("b")
        passed = STEP if not result.requeue_after else max(LOOK, result.requeue_after)
        clock.pass_by(passed)
        loop.now += passed
        there = api.stores["bookings"].get(("", "b")) or there
        assert clock() - began < timedelta(seconds=LONGEST), "it neither starts nor ends"
    return _outcome(seed, spare, there, machines, int((clock() - began).total_seconds()))


def _outcome(seed: int, spare: int, there: ours.Booking, machines: Machines, took: int) -> Outcome:
    status = there.status
    if status.phase == "Provisioned":
        _check(there, machines)
    bad = sum(each.state not in ("Launched", "Joined", "Ready") for each in status.instances)
    return Outcome(seed, spare, status.phase, f"{status.reason} {status.message}".strip(), took, bad, len(status.instances))


def _check(there: ours.Booking, machines: Machines) -> None:
    """All of it, in its racks, and none that is bad by the cloud's own record."""
    ready = [each for each in there.status.instances if each.state == "Ready"]
    assert len(ready) == scene.GANG
    known = machines.world.memory.machines
    for each in ready:
        machine = known.get(each.id)
        assert machine is not None
        assert machine.becomes_ready
        assert machine.condition is None
        assert machine.devices["nvidia.com/gpu"] == 8
        assert machine.rack == f"r{each.purchase.removeprefix('p')}"
