"""A store that lacks the booking of an earlier attempt doesn't make it over: it is looked for before anything is bought again."""

import pytest
from msgspec import structs

from kube import ours
from provisioner.buying.creation import Creator
from provisioner.planning.cases import Case
from provisioner.view import take
from runtime.errors import ServerError
from tests.conftest import WallClock
from tests.provisioner.make import booking, node, pool
from tests.provisioner.test_requests import Planning

pytestmark = pytest.mark.looptime


@pytest.fixture
async def world(clock: WallClock) -> Planning:
    """One attempt is under way, then the process starts anew with a store that doesn't show it."""
    made = Planning(clock)
    made.ask()
    await made.turn()
    (first,) = made.bookings()
    made.state.bookings.put(("", first.metadata.name), None)
    made.restart()
    return made


async def test_the_booking_of_the_attempt_before_is_found_though_the_store_lacks_it(world: Planning) -> None:
    for _ in range(3):
        await world.turn()
    assert world.written("create", "bookings") == 1
    assert world.said()["Provisioned"] == ("False", "CapacityProvisioning")


async def test_no_certain_answer_buys_nothing(world: Planning) -> None:
    world.fail["get"] = ServerError("busy")
    assert await world.turn() == 1.0
    assert world.written("create", "bookings") == 1


async def test_a_booking_that_is_gone_for_certain_makes_room_for_the_next_attempt(world: Planning) -> None:
    (first,) = world.bookings()
    del world.objects["bookings", "", first.metadata.name]
    await world.turn()
    (second,) = world.bookings()
    assert isinstance(second, ours.Booking)
    assert second.spec.attempt == 2


async def test_a_booking_that_the_store_does_not_show_yet_counts_for_all_who_look(clock: WallClock) -> None:
    """What comes in place of lost nodes is held to the same limits, and must not take what was just given away."""
    world = Planning(clock)
    world.lag = True
    world.ask()
    await world.turn()
    (made,) = world.bookings()

    def seen() -> list[tuple[str, str]]:
        return [(each.metadata.name, each.status.phase) for each in take(world.state, clock()).bookings]

    assert seen() == [(made.metadata.name, "Marking")]
    world.move(made.metadata.name, phase="Launching")
    assert seen() == [(made.metadata.name, "Launching")]
    world.state.bookings.put(("", made.metadata.name), None)
    assert seen() == []


async def test_a_node_that_came_in_place_of_a_lost_one_meanwhile_is_not_given_away_again(
    clock: WallClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mended plan took it while this one was made."""
    world = Planning(clock)
    world.add(pool(nodeSelector={"matchLabels": {"team": "train"}}))
    for number in range(5):
        world.add(node(f"n{number}"))
    world.ask()
    before, taken = Creator._before, list[str]()

    async def meanwhile(self: Creator, case: Case) -> bool:
        if not taken:
            taken.append("n0")
            other = booking("mended", nodes=("n0",), phase="Provisioned")
            spec = structs.replace(other.spec, request=structs.replace(other.spec.request, name="other", uid="other-uid"))
            world.add(structs.replace(other, spec=spec))
            world.state.replaced += 1
        return await before(self, case)

    monkeypatch.setattr(Creator, "_before", meanwhile)
    await world.turn()
    assert (taken, world.bookings()) == (["n0"], [])
    await world.turn()
    (made,) = world.bookings()
    assert sorted(each.name for each in made.spec.nodes) == ["n1", "n2", "n3", "n4"]
