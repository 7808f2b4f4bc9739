"""Pods and machines that bookings wait for."""

from collections import Counter
from typing import Any

import pytest

from capacity.model import HOSTNAME, ZONE, Running
from kube import ours
from provisioner.planning.arrivals import Plan, machines, plans
from tests.provisioner.make import RACK, booking, machine, purchase, view

COMING = Running("team", {"app": "y"})
KEY = "b.booking.corral.dev/main"


def plan(held: ours.Booking, there: dict[str, int] | None = None, **more: Any) -> Plan:
    """`there`: how many pods of the pod set run on each node by name."""
    seen = view(bookings=(held,), pods_of=lambda _: {"main": COMING}, **more)
    return plans(seen, lambda name: Counter({KEY: (there or {}).get(name, 0)}))["b"]


@pytest.mark.parametrize(
    ("slots", "there", "expected"),
    [
        pytest.param({"main": 2}, 0, 2, id="none there yet"),
        pytest.param({"main": 2}, 1, 1, id="one there"),
        pytest.param({"main": 2}, 3, 0, id="more than planned"),
        pytest.param({"other": 2}, 0, 0, id="another pod set's slots"),
    ],
)
def test_pods_still_to_come_on_a_node(slots: dict[str, int], there: int, expected: int) -> None:
    found = plan(booking("b", nodes=("n", "m"))).at(slots, Counter({KEY: there}))
    assert found == (COMING,) * expected


def test_a_complete_gang_waits_for_nobody() -> None:
    held = booking("b", nodes=("n", "m"))
    assert plan(held, {"n": 1, "m": 1}).pods == {}
    assert plan(held, {"n": 1}).pods == {"main": COMING}


@pytest.mark.parametrize(("left", "coming"), [pytest.param(2, True, id="one to come"), pytest.param(1, False, id="one is over")])
def test_pods_that_are_over_come_no_more(left: int, *, coming: bool) -> None:
    found = plan(booking("b", nodes=("n", "m")), {"n": 1}, left_of=lambda _: {"main": left})
    assert found.pods == ({"main": COMING} if coming else {})


@pytest.mark.parametrize("phase", ["Releasing", "Failing", "Released", "Failed"])
def test_a_booking_that_ends_waits_for_nothing(phase: Any) -> None:
    seen = view(bookings=(booking("b", purchase(), phase=phase),))
    assert plans(seen, lambda _: Counter()) == {}


@pytest.mark.parametrize(
    ("instances", "missing"),
    [
        pytest.param((), 2, id="nothing launched"),
        pytest.param((machine(1), machine(2, "Joined", node="n-2")), 1, id="one joined"),
        pytest.param((machine(1, "Bad", node="n-1"), machine(2, "Ready", node="n-2")), 1, id="a bad one is replaced"),
        pytest.param((machine(1, "Ready", node="n-1"), machine(2, "Ready", node="n-2")), 0, id="all there"),
    ],
)
def test_machines_that_are_not_there_yet(instances: tuple[ours.BookedInstance, ...], missing: int) -> None:
    held = booking("b", purchase(domain={RACK: "a"}), instances=instances)
    found = plan(held)
    assert set(found.nodes) == {each.node for each in instances if each.state in ("Joined", "Ready")}
    places = list(machines(view(bookings=(held,)), {"b": found}))
    assert len(places) == missing
    for place in places:
        kept = {key: place.labels[key] for key in (ZONE, RACK, "corral.dev/pool", "node.kubernetes.io/instance-type")}
        assert kept == {ZONE: "east", RACK: "a", "corral.dev/pool": "p", "node.kubernetes.io/instance-type": "h100"}
        assert place.pods == (COMING,)
    assert len({place.labels[HOSTNAME] for place in places}) == missing
