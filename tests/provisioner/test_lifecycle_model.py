"""The table of transitions against a world full of faults, run to its end: what must always hold, holds (design.md)."""

import random

import pytest

from kube.ours import BookingStatus
from provisioner.steps import Owner
from tests.provisioner.world import World, booking, purchase

RUNS = 25
PLANS = {
    "on-demand": {"purchases": (purchase("od", 3),)},
    "reserved": {"purchases": (purchase("res", 3, "reserved"),)},
    "taken": {"nodes": ("a", "b")},
    "mixed": {"nodes": ("a",), "purchases": (purchase("od", 2), purchase("res", 2, "reserved"))},
}


def drive(world: World, limit: int, rng: random.Random) -> None:
    """Steps until the booking is dropped; the owner, its pods and a taken node come and go meanwhile."""
    for _ in range(limit):
        if world.dropped:
            return
        before = world.booking.status
        world.step()
        check_step(world, before, world.booking.status)
        if not world.calm:
            disturb(world, rng)


def disturb(world: World, rng: random.Random) -> None:
    phase = world.booking.status.phase
    if phase == "Provisioned" and not world.pods and world.owner is Owner.WAITING and rng.random() < 0.3:
        world.owner = Owner.ADMITTED
    elif phase == "Provisioned" and world.owner is Owner.ADMITTED and not world.pods and rng.random() < 0.5:
        world.pods = {name: 1 for name, node in world.nodes.items() if node.touched and not node.quarantined}
    elif rng.random() < 0.01 * world.harsh:
        world.owner = Owner.DONE
    elif rng.random() < 0.01 * world.harsh:
        world.request = False
    elif world.owner is Owner.DONE and world.pods and rng.random() < 0.2:
        world.pods.popitem()
    elif rng.random() < 0.05 * world.harsh:
        for name, node in world.nodes.items():
            node.busy = node.busy or (node.launched and not node.closed and rng.random() < 0.3 and name not in world.pods)


def check_step(world: World, old: BookingStatus, new: BookingStatus) -> None:
    """All or nothing: Provisioned only when each machine and node is there, sound and held."""
    if old.phase != "Provisioned" and new.phase == "Provisioned":
        ready = [each for each in new.instances if each.state == "Ready"]
        assert len(ready) == sum(each.count for each in world.booking.spec.purchases)
        assert all(world.machines[each.id].fate in ("sound", "dies") for each in ready)
        assert all(world.nodes[each.node].marked for each in ready)
        assert all(world.nodes[each.name].marked for each in world.booking.spec.nodes)
    assert set(world.tokens) <= {each.token for each in new.launches}, "bought without having written it down"


def check_end(world: World) -> None:
    """No leak: whatever still runs is an idle or quarantined node of its pool, unmarked; after a failure it is prepaid."""
    status = world.booking.status
    left = {each.id for each in status.instances if each.state == "Transferred"}
    assert set(world.running()) <= left
    if status.phase == "Failed":
        assert not world.running("on-demand")
    for name, node in world.nodes.items():
        assert not node.touched, f"{name} still bears marks"
        assert not node.launched or node.idle or node.quarantined


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("keep", [True, False], ids=["keep", "end"])
def test_invariants_hold_under_faults(plan: dict[str, object], keep: bool) -> None:
    phases = set()
    for seed in range(RUNS):
        rng = random.Random(seed)
        world = World(booking(**plan), random.Random(seed + 1), keep=keep, harsh=rng.choice([0.1, 0.4, 1.0]))  # type: ignore[arg-type]
        try:
            drive(world, 250, rng)
            world.calm, world.owner = True, Owner.DONE
            drive(world, 5, rng)
            world.pods = {}
            drive(world, 400, rng)
            assert world.dropped, "never came to its end"
            check_end(world)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(world.trace[-60:])) from error
        phases.add("Provisioned" if world.booking.status.provisioned_at else "Failed")
    assert phases == {"Provisioned", "Failed"}, "the faults leave one of the ends untested"
