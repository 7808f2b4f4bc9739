"""Sums worked out by hand: an h100 costs 10 dollars an hour on demand."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kube import ours
from provisioner.clouds.base import InstanceState
from provisioner.telling.savings import IDLE, PREPAID, WARM, Meter, Savings, rates
from provisioner.view import View
from tests.provisioner import fake_api
from tests.provisioner.make import NOW, booking, instance, known, machine, on_demand, purchase, view

DOLLAR = 10**6
TAGS = {"corral.dev/pool": "p"}


def seen(*machines: Any, at: int = 0, bookings: tuple[ours.Booking, ...] = ()) -> View:
    return view(known={"p": known(*machines)}, now=NOW + timedelta(seconds=at), bookings=bookings)


def held(number: int, **more: Any) -> ours.Booking:
    return booking("b", purchase(), instances=(machine(number, "Ready", node="n", **more),), phase="Provisioned")


@pytest.mark.parametrize(
    ("machines", "bookings", "expected"),
    [
        pytest.param([instance(1, tags=TAGS, reservation="cr")], (held(1),), {("p", PREPAID): 10 * DOLLAR}, id="prepaid in use"),
        pytest.param([instance(1, tags=TAGS, reservation="cr")], (), {}, id="prepaid and idle costs nothing more"),
        pytest.param([instance(1, tags=TAGS, reservation=None)], (), {("p", IDLE): 10 * DOLLAR}, id="on demand and idle"),
        pytest.param([instance(1, tags=TAGS, reservation=None)], (held(1),), {}, id="on demand in use saves nothing"),
        pytest.param([instance(1, tags=TAGS, reservation=None, state=InstanceState.TERMINATED)], (), {}, id="gone"),
    ],
)
def test_what_a_machine_saves_or_costs(machines: list[Any], bookings: tuple[ours.Booking, ...], expected: dict[Any, int]) -> None:
    assert dict(rates(seen(*machines, bookings=bookings))) == expected


def test_hours_are_counted_look_by_look() -> None:
    sums, idle = Savings(), instance(1, tags=TAGS, reservation=None)
    for at in range(0, 361, 10):
        sums.look(seen(idle, at=at))
    assert sums.dollars(IDLE) == {"p": DOLLAR}, "a tenth of an hour"
    sums.look(seen(idle, at=100_000))
    assert sums.dollars(IDLE) == {"p": DOLLAR + 120 * 10 * DOLLAR // 3600}, "a stall counts two minutes"
    sums.look(seen(idle, at=0))
    assert sums.dollars(IDLE) == {"p": DOLLAR + 120 * 10 * DOLLAR // 3600}, "a clock that steps back counts nothing"


def test_a_warm_machine_saves_the_start_of_its_shape() -> None:
    """Two starts of 100 s and 300 s were seen: a machine taken over saves 200 s at 10 dollars an hour."""
    sums = Savings()
    times = {"launched_at": "2026-09-01T09:00:00Z"}
    ready = [
        machine(1, "Ready", node="n1", since="2026-09-01T09:01:40Z", **times),
        machine(2, "Ready", node="n2", since="2026-09-01T09:05:00Z", **times),
    ]
    old = booking("b", on_demand(), instances=tuple(ready), phase="Provisioned", provisioned_at="2026-09-01T09:05:00Z")
    there = instance(1, tags=TAGS, reservation=None)
    sums.look(seen(there, bookings=(old,)))
    sums.look(seen(there, bookings=(old,), at=10))
    assert (sums.dollars(WARM), dict(sums.reused)) == ({}, {})

    new = booking("c", phase="Provisioned", provisioned_at="2026-09-01T10:00:00Z")
    taken = ours.BookedNode(name="n1", pool="p", pods={"main": 1}, provider_id=there.provider_id)
    new = ours.Booking(metadata=new.metadata, spec=_with(new.spec, taken), status=new.status)
    for at in (20, 30):
        sums.look(seen(there, bookings=(old, new), at=at))
    assert sums.dollars(WARM) == {"p": 200 * 10 * DOLLAR // 3600}
    assert sums.reused == {"p": 1}


def test_a_stand_in_that_was_taken_idle_saves_a_start_too() -> None:
    """One of 100 s was seen. The second node comes in place of a lost one, long after all was there."""
    ready = machine(1, "Ready", node="n1", launched_at="2026-09-01T09:00:00Z", since="2026-09-01T09:01:40Z")
    old = booking("b", on_demand(), instances=(ready,), phase="Provisioned", provisioned_at="2026-09-01T09:05:00Z")
    there = [instance(number, tags=TAGS, reservation=None) for number in (1, 2)]
    taken = [
        ours.BookedNode(name=f"n{i}", pool="p", pods={"main": 1}, provider_id=each.provider_id) for i, each in enumerate(there)
    ]
    sums = Savings()
    sums.look(seen(*there, bookings=(old,)))
    made = booking("c", phase="Provisioned", provisioned_at="2026-09-01T10:00:00Z")
    for at, nodes in ((10, taken[:1]), (20, taken[:1]), (30, taken), (40, taken)):
        new = replace(made, spec=replace(made.spec, nodes=tuple(nodes)))
        sums.look(seen(*there, bookings=(old, new), at=at))
    assert (sums.dollars(WARM), dict(sums.reused)) == ({"p": 2 * 100 * 10 * DOLLAR // 3600}, {"p": 2})


def test_a_prepaid_machine_taken_idle_saves_no_start() -> None:
    """What would be bought instead is prepaid as well."""
    ready = machine(1, "Ready", node="n1", launched_at="2026-09-01T09:00:00Z", since="2026-09-01T09:01:40Z")
    old = booking("b", on_demand(), instances=(ready,), phase="Provisioned", provisioned_at="2026-09-01T09:05:00Z")
    there = instance(1, tags=TAGS, reservation="cr")
    made = booking("c", phase="Provisioned", provisioned_at="2026-09-01T10:00:00Z")
    taken = ours.BookedNode(name="n1", pool="p", pods={"main": 1}, provider_id=there.provider_id)
    sums = Savings()
    sums.look(seen(there, bookings=(old,)))
    sums.look(seen(there, bookings=(old, replace(made, spec=_with(made.spec, taken))), at=10))
    assert (sums.dollars(WARM).get("p", 0), dict(sums.reused)) == (0, {"p": 1})


def test_what_is_gone_is_forgotten() -> None:
    sums = Savings()
    for number in range(20):
        times = {"launched_at": "2026-09-01T09:00:00Z", "since": "2026-09-01T09:01:40Z"}
        ready = machine(number, "Ready", node="n", **times)
        done: dict[str, Any] = {"phase": "Provisioned", "provisioned_at": "2026-09-01T09:05:00Z"}
        made = booking(f"b{number}", on_demand(), nodes=("m",), instances=(ready,), **done)
        sums.look(seen(bookings=(made,), at=number))
    assert sums._seen == {"i-19", "b19-uid/m"}


def _with(spec: ours.BookingSpec, node: ours.BookedNode) -> ours.BookingSpec:
    return replace(spec, nodes=(node,))


def test_a_booking_that_cannot_be_read_spoils_only_its_own_part() -> None:
    """One machine got ready at an instant that isn't one, the other after 100 s."""
    sums, times = Savings(), {"launched_at": "2026-09-01T09:00:00Z"}
    odd = booking("a", on_demand(), instances=(machine(1, "Ready", since="soon", **times),), phase="Provisioned")
    ready = machine(2, "Ready", node="n2", since="2026-09-01T09:01:40Z", **times)
    good = booking("b", on_demand(), instances=(ready,), phase="Provisioned")

    sums.look(seen(bookings=(odd, good)))

    assert sums._starts == {"h100": (100, 1)}


@pytest.mark.looptime
async def test_the_meter_goes_on_after_a_look_that_failed() -> None:
    api = fake_api.Api()
    state = fake_api.state(api)
    meter = Meter(state, fake_api.Clock())
    looks: list[View] = []

    def look(view: View) -> None:
        looks.append(view)
        if len(looks) == 1:
            raise ValueError("Invalid isoformat string: 'soon'")

    meter.savings.look = look  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await meter.run()

    assert len(looks) == 4
