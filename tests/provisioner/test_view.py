"""Who holds which node, and what is on its way but not counted yet."""

import pytest

from kube import ours
from kube.meta import Condition
from provisioner.clouds.base import InstanceState
from provisioner.view import View, in_flight, selecting
from tests.provisioner.make import booking, instance, known, machine, node, pod, pool, purchase, view

ADOPTING = {"nodeSelector": {"matchLabels": {"team": "train"}}}


@pytest.mark.parametrize(
    ("labels", "pools", "expected"),
    [
        pytest.param({}, [pool("p", **ADOPTING)], ("p",), id="adopted-by-selector"),
        pytest.param({"team": "other"}, [pool("p", **ADOPTING)], (), id="another-label"),
        pytest.param({"team": "other", "corral.dev/pool": "p"}, [pool("p", **ADOPTING)], ("p",), id="launched-for-it"),
        pytest.param({}, [pool("p")], (), id="no-selector-selects-nothing"),
        pytest.param({}, [pool("p", nodeSelector={})], (), id="an-empty-selector-selects-nothing"),
        pytest.param({}, [pool("p", **ADOPTING), pool("q", **ADOPTING)], ("p", "q"), id="two-pools"),
        pytest.param({"corral.dev/pool": "q"}, [pool("p", **ADOPTING), pool("q")], ("p", "q"), id="launched-and-adopted"),
    ],
)
def test_the_pools_that_select_a_node(labels: dict[str, str], pools: list[ours.CapacityPool], expected: tuple[str, ...]) -> None:
    assert selecting(node("n", labels=labels), pools) == expected


def test_a_node_of_two_pools_is_managed_by_neither() -> None:
    seen = view(
        pool("p", **ADOPTING),
        pool("q", nodeSelector={"matchLabels": {"x": "y"}}),
        nodes=(node("a"), node("b", labels={"x": "y"})),
    )
    assert [each.metadata.name for each in seen.managed["p"]] == ["a"]
    assert seen.managed["q"] == ()
    assert seen.pools_of == {"a": ("p",), "b": ("p", "q")}


@pytest.mark.parametrize(
    ("made", "holder"),
    [
        pytest.param(booking("b", nodes=("n",)), "b", id="taken-by-name"),
        pytest.param(booking("b", nodes=("n",), phase="Failing"), "b", id="until-it-is-given-back"),
        pytest.param(booking("b", nodes=("n",), phase="Releasing"), None, id="on-offer"),
        pytest.param(
            booking("b", purchase(), phase="Releasing", instances=(machine(1, "Ready", node="n"),)), None, id="on-offer-too"
        ),
        pytest.param(
            booking("b", purchase(), phase="Releasing", instances=(machine(1, "Terminating"),)), "b", id="on-its-way-out"
        ),
        pytest.param(booking("b", nodes=("n",), phase="Released"), None, id="given-back"),
        pytest.param(booking("b", nodes=("n",), phase="Failed"), None, id="failed"),
        pytest.param(booking("b", purchase(), instances=(machine(1, "Ready", node="n"),)), "b", id="its-machine-by-node"),
        pytest.param(booking("b", purchase(), instances=(machine(1, "Launched"),)), "b", id="its-machine-by-provider-id"),
        pytest.param(booking("b", purchase(), instances=(machine(1, "Transferred", node="n"),)), None, id="passed-on"),
        pytest.param(booking("c", purchase()), None, id="nothing-to-do-with-it"),
    ],
)
def test_who_holds_a_node(made: ours.Booking, holder: str | None) -> None:
    there = node("n", provider_id="sim:///east/i-1")
    assert view(nodes=(there,), bookings=(made,)).booked_by(there) == holder


def test_who_takes_a_node_over_holds_it() -> None:
    there = node("n", provider_id="sim:///east/i-1")
    old = booking("b", purchase(), phase="Releasing", instances=(machine(1, "Ready", node="n"),))
    for bookings in ((old, booking("c", nodes=("n",))), (booking("c", nodes=("n",)), old)):
        assert view(nodes=(there,), bookings=bookings).booked_by(there) == "c"


def test_nothing_is_on_offer_while_pods_of_the_booking_are_there() -> None:
    there = node("n", provider_id="sim:///east/i-1")
    late = pod("late", nodeName="n", nodeSelector={"b.booking.corral.dev/main": "true"})
    seen = view(
        nodes=(there, node("m")),
        bookings=(booking("b", nodes=("n", "m"), phase="Releasing"),),
        pods_on=lambda name: [late] if name == "n" else [],
    )
    assert seen.offered == {}
    assert seen.booked_by(there) == "b"


def test_a_machine_that_its_booking_has_not_recorded_yet_is_held_by_its_tag() -> None:
    there = node("n", provider_id="sim:///east/i-1")
    seen = view(
        nodes=(there,), bookings=(booking("b", purchase()),), known={"p": known(instance(1, tags={"corral.dev/booking": "b"}))}
    )
    assert seen.booked_by(there) == "b"


REPLACING = Condition(
    type="NodeLost", status="True", reason="Replacing", message="1 of 3", last_transition_time="2026-09-01T10:00:00Z"
)
TAGS = {"corral.dev/booking": "b", "corral.dev/purchase": "p0"}


@pytest.mark.parametrize(
    ("made", "seen", "expected"),
    [
        pytest.param(booking("b", purchase(count=3)), 0, 3, id="all-on-order"),
        pytest.param(booking("b", purchase(count=3), phase="Launching"), 2, 1, id="two-are-counted"),
        pytest.param(booking("b", purchase(count=3), phase="Joining"), 3, 0, id="all-are-counted"),
        pytest.param(
            booking("b", purchase(count=3), phase="Provisioned", conditions=(REPLACING,)), 2, 1, id="a-lost-one-is-replaced"
        ),
        pytest.param(
            booking("b", purchase(count=3), phase="Joining", instances=(machine(1, "Bad"),)), 3, 1, id="one-is-replaced"
        ),
        pytest.param(booking("b", purchase(count=3), phase="Provisioned"), 0, 0, id="provisioned"),
        pytest.param(
            booking(
                "b",
                purchase(count=3),
                phase="Failing",
                launches=(ours.Launch(purchase="p0", token="t", count=3, state="Pending", at="2026-09-01T10:00:00Z"),),
            ),
            1,
            2,
            id="a-call-without-an-answer",
        ),
        pytest.param(booking("b", purchase(count=3), phase="Failed"), 0, 0, id="over"),
    ],
)
def test_what_is_in_flight(made: ours.Booking, seen: int, expected: int) -> None:
    assert in_flight(made, made.spec.purchases[0], {("b", "p0"): seen}) == expected


def test_machines_are_counted_by_their_tags_while_they_live() -> None:
    machines = (instance(1, tags=TAGS), instance(2, tags=TAGS, state=InstanceState.TERMINATED), instance(3))
    seen: View = view(known={"p": known(*machines)})
    assert seen.seen == {("b", "p0"): 1, ("", ""): 1}
