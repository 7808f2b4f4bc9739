"""What a pool can sell. The reservation has 8 machines of h100, 4 in each of racks a and b."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from capacity.model import ZONE, Offering, ReservationUse
from kube import ours
from provisioner.buying.backoff import Backoffs
from provisioner.clouds.base import ErrorKind
from provisioner.planning.offerings import UNTOLD, Market, offers
from provisioner.view import View
from tests.provisioner.make import (
    NOW,
    RACK,
    booking,
    instance,
    inventory,
    known,
    machine,
    node,
    on_demand,
    pool,
    purchase,
    reservation,
    source,
    view,
)

A, B, OD_EAST, OD_WEST = "p/res/cr-1/east/a", "p/res/cr-1/east/b", "p/od/h100/east", "p/od/h100/west"


def sold(seen: View | None = None, of: ours.CapacityPool | None = None, **market: Any) -> dict[str, Offering]:
    of = of or pool()
    seen = seen or view(of)
    made = offers(Market(seen, of, seen.known["p"], **market))
    return {offering.name: offering for offering in made.offerings}


def use(seen: View, of: ours.CapacityPool | None = None) -> ReservationUse:
    (found,) = offers(Market(seen, of or pool(), seen.known["p"])).reservations
    return found


def counts(found: dict[str, Offering]) -> dict[str, int]:
    return {name: offering.available for name, offering in found.items()}


def test_offerings_of_an_untouched_pool() -> None:
    found = sold()
    assert counts(found) == {A: 4, B: 4, OD_EAST: UNTOLD, OD_WEST: 5}
    assert (found[A].domain, found[A].price, found[A].reservation) == ({ZONE: "east", RACK: "a"}, 0, "cr-1")
    assert (found[OD_WEST].domain, found[OD_WEST].price, found[OD_WEST].reservation) == ({ZONE: "west"}, 10_000_000, None)
    assert found[A].shape.labels == {"node.kubernetes.io/instance-type": "h100", "corral.dev/pool": "p"}


def test_nodes_bear_the_labels_that_their_pool_gives() -> None:
    found = sold(of=pool(nodeLabels={"team": "train"}))
    assert all(offering.shape.labels["team"] == "train" for offering in found.values())


@pytest.mark.parametrize(
    ("made", "seen", "expected"),
    [
        pytest.param(booking("b", purchase(count=3)), 0, {A: 1, B: 4, OD_EAST: UNTOLD, OD_WEST: 5}, id="on-order-in-rack-a"),
        pytest.param(booking("b", purchase(count=3)), 2, {A: 3, B: 4, OD_EAST: UNTOLD, OD_WEST: 5}, id="two-of-them-counted"),
        pytest.param(
            booking("b", on_demand(count=2, zone="west")), 0, {A: 4, B: 4, OD_EAST: UNTOLD, OD_WEST: 3}, id="told-stock"
        ),
        pytest.param(
            booking("b", purchase(count=9, offering="p/res/cr-1/east/gone")),
            0,
            {A: 4, B: 0, OD_EAST: UNTOLD, OD_WEST: 5},
            id="a-place-that-is-no-more",
        ),
    ],
)
def test_what_is_on_its_way_is_taken_off(made: ours.Booking, seen: int, expected: dict[str, int]) -> None:
    tags = {"corral.dev/booking": "b", "corral.dev/purchase": "p0"}
    machines = [instance(n, tags=tags, reservation="cr-1") for n in range(seen)]
    assert counts(sold(view(bookings=(made,), known={"p": known(*machines)}))) == expected


def test_spares_come_out_of_the_emptiest_places_first() -> None:
    of = pool("p", source(spareNodes=3))
    there = {"p": known(inventory=inventory(reservation(used=2, free=(2, 4))))}
    assert counts(sold(view(of, known=there), of)) == {A: 0, B: 3}


def test_only_the_shapes_of_the_pool_are_sold() -> None:
    of = pool("p", shapes=["cpu"])
    assert sold(view(of), of) == {}


def test_a_key_that_is_backed_off_has_nothing_and_says_why() -> None:
    backoffs = Backoffs()
    backoffs.record("p", "od", "h100", "west", None, ErrorKind.CAPACITY, "come back later", NOW)
    found = sold(view(backoffs=backoffs))
    assert counts(found) == {A: 4, B: 4, OD_EAST: UNTOLD, OD_WEST: 0}
    assert found[OD_WEST].unavailable == "InsufficientCapacity since 10:00Z, next try 10:00Z: come back later"
    assert found[OD_WEST].total == 5
    later = view(backoffs=backoffs, now=NOW + timedelta(seconds=30))
    assert sold(later)[OD_WEST].available == 5


def test_a_blocked_pool_keeps_its_totals() -> None:
    found = sold(blocked="pool p is Paused")
    assert counts(found) == dict.fromkeys((A, B, OD_EAST, OD_WEST), 0)
    assert {offering.unavailable for offering in found.values()} == {"pool p is Paused"}
    assert found[A].total == 4


def test_a_window_ends_with_the_drain_margin() -> None:
    of = pool("p", source(drainBeforeEnd="60m"))
    there = {"p": known(inventory=inventory(reservation(starts=1000, ends=10_000)))}
    assert [(o.starts, o.ends) for o in sold(view(of, known=there), of).values()] == [(1000, 6400)] * 2


def test_daemon_sets_load_the_shape() -> None:
    assert sold(overhead={"h100": {"cpu": 100, "pods": 1}})[A].shape.overhead == {"cpu": 100, "pods": 1}


def test_a_reservation_without_places_is_sold_by_zone() -> None:
    plain = replace(reservation(used=3), free_by_domain=(), total_by_domain=())
    found = sold(view(known={"p": known(inventory=inventory(plain))}))
    assert (found["p/res/cr-1/east"].available, found["p/res/cr-1/east"].domain) == (5, {ZONE: "east"})


def test_how_a_reservation_is_made_up() -> None:
    """8 = 3 booked (2 there, 1 on order) + 1 outside + 1 quarantined + 3 free, of which one is an idle machine of ours."""
    tags = {"corral.dev/booking": "b", "corral.dev/purchase": "p0"}
    machines = [instance(n, tags=tags, reservation="cr-1") for n in (1, 2)]
    machines += [instance(n, reservation="cr-1") for n in (3, 4)]
    sick = node("sick", provider_id="sim:///east/i-4", labels={"corral.dev/quarantined": "true"})
    made = booking("b", purchase(count=3), phase="Joining", instances=(machine(1), machine(2)))
    there = known(*machines, inventory=inventory(reservation(used=5, free=(1, 2))))
    of = pool("p", source(spareNodes=1))
    found = use(view(of, nodes=(sick,), bookings=(made,), known={"p": there}), of)
    assert (found.total, found.booked, found.outside, found.quarantined, found.free, found.spare) == (8, 3, 1, 1, 3, 1)


SICK = [{"type": "Ready", "status": "True"}, {"type": "KernelDeadlock", "status": "True"}]


def test_a_sick_idle_node_of_a_reservation_is_not_free_but_what_a_booking_holds_stays_booked() -> None:
    tags = {"corral.dev/booking": "b", "corral.dev/purchase": "p0"}
    machines = (instance(1, tags=tags, reservation="cr-1"), instance(2, reservation="cr-1"))
    pool_of = pool("p", source(), nodeSelector={"matchLabels": {"team": "train"}})
    nodes = tuple(node(f"n{number}", provider_id=f"sim:///east/i-{number}", conditions=SICK) for number in (1, 2))
    made = booking("b", purchase(count=1), phase="Provisioned", instances=(machine(1, "Ready"),))
    there = known(*machines, inventory=inventory(reservation(used=2, free=(1, 5))))
    found = use(view(pool_of, nodes=nodes, bookings=(made,), known={"p": there}), pool_of)
    assert (found.total, found.booked, found.outside, found.quarantined, found.free) == (8, 1, 0, 1, 6)
