from datetime import timedelta

import pytest
from msgspec import structs

from kube.ours import BookingStatus, Launch
from kube.times import stamp
from provisioner.buying import launches
from provisioner.clouds.base import CloudError, ErrorKind, Instance, InstanceState
from provisioner.steps import Observed, View
from tests.provisioner.world import START, booking, purchase

AT = stamp(START)


def launch(state: str, number: int, *, count: int = 2, after: int = 0) -> Launch:
    at = stamp(START + timedelta(seconds=after))
    return Launch(purchase="od", token=f"t{number}", count=count, state=state, at=at)  # type: ignore[arg-type]


def view(*made: Launch, after: int = 0) -> View:
    status = BookingStatus(phase="Joining", launches=made)
    return View(booking(purchases=(purchase("od", 2),), status=status), Observed(), START + timedelta(seconds=after))


def test_tokens_depend_on_request_attempt_purchase_and_number_alone() -> None:
    spec = booking(purchases=(purchase(),)).spec

    assert launches.token(spec, "od", 1) == launches.token(spec, "od", 1)
    assert len({launches.token(spec, name, number) for name in ("od", "res") for number in (1, 2)}) == 4
    assert len(launches.token(spec, "od", 1)) == 32


def test_nodes_register_booked() -> None:
    booked = booking(purchases=(purchase("res", 3, "reserved"),))

    order = launches.order(booked, Launch(purchase="res", token="t", count=3, state="Pending", at=AT))

    assert order.labels == {
        "corral.dev/pool": "p",
        "corral.dev/source": "res",
        "corral.dev/request": "b",
        "b.booking.corral.dev/main": "true",
    }
    assert [(taint.key, taint.effect) for taint in order.taints] == [("corral.dev/booked", "NoSchedule")]
    assert order.tags == {
        "corral.dev/installation": "here",
        "corral.dev/booking": "b",
        "corral.dev/purchase": "res",
        "corral.dev/pool": "p",
        "corral.dev/source": "res",
    }
    assert (order.count, order.reservation, order.capacity_type) == (3, "cr-1", "reserved")


def test_nodes_register_with_the_labels_of_the_plan() -> None:
    """Ours come last: no pool can give a node another's name."""
    given = {"team": "train", "corral.dev/pool": "another"}
    booked = booking(purchases=(structs.replace(purchase("od"), labels=given),))
    order = launches.order(booked, Launch(purchase="od", token="t", count=1, state="Pending", at=AT))
    assert (order.labels["team"], order.labels["corral.dev/pool"]) == ("train", "p")


@pytest.mark.parametrize(
    ("made", "after", "count"),
    [
        pytest.param((launch("Answered", 1),), 0, 2, id="machines of an answered call are gone"),
        pytest.param((launch("Answered", 1), launch("Pending", 2)), 0, None, id="a call is under way"),
        pytest.param((launch("Answered", 1), launch("Failed", 2)), 29, None, id="failed lately"),
        pytest.param((launch("Answered", 1), launch("Failed", 2)), 30, 2, id="failed half a minute ago"),
        pytest.param((launch("Failed", 1), launch("Failed", 2)), 59, None, id="failed twice: twice as long"),
        pytest.param((launch("Failed", 1), launch("Failed", 2)), 60, 2, id="and then again"),
        pytest.param(tuple(launch("Failed", n) for n in range(9)), 299, None, id="never longer than five minutes"),
        pytest.param(tuple(launch("Failed", n) for n in range(9)), 300, 2, id="that is"),
        pytest.param((launch("Failed", 1), launch("Answered", 2)), 0, 2, id="a success ends the series"),
    ],
)
def test_replacement(made: tuple[Launch, ...], after: int, count: int | None) -> None:
    found = launches.replacement(view(*made, after=after))

    assert (found.count if found else None) == count
    if found:
        assert found.token not in {each.token for each in made}


def test_a_gang_that_runs_for_weeks_does_not_fill_its_record_with_refusals() -> None:
    made: tuple[Launch, ...] = (launch("Answered", 1),)
    tokens = {each.token for each in made}
    for turn in range(1, 300):
        status = structs.replace(view(*made).status, phase="Provisioned")
        new = launches.replacement(view(*made, after=600 * turn))
        assert new is not None
        assert new.token not in tokens  # a token that was refused is never used again
        tokens.add(new.token)
        failed = structs.replace(new, state="Failed", reason="InsufficientCapacity")
        made = launches.with_order(structs.replace(status, launches=made), failed).launches
    assert made[0] == launch("Answered", 1)
    assert len(made) == 1 + launches.KEPT + 1


def test_fewer_machines_than_asked_are_kept_and_the_call_counts_as_failed() -> None:
    asked = launch("Pending", 1)
    found = Instance("i1", "sim://i1", InstanceState.PENDING, "h100", "z1", "t1")

    after = launches.answered(BookingStatus(launches=(asked,)), asked, [found], START)

    assert [each.id for each in after.instances] == ["i1"]
    assert (after.launches[0].state, after.launches[0].reason) == ("Failed", "InsufficientCapacity")
    assert after.launches[0].message == "1 of 2 machines were delivered"


def test_a_machine_that_ended_before_it_was_seen_is_gone() -> None:
    found = Instance("i1", "sim://i1", InstanceState.TERMINATED, "h100", "z1", "t1")

    assert launches.new_instance(found, "od", launch("Pending", 1), START).state == "Gone"


def test_a_refusal_keeps_the_clouds_words() -> None:
    asked = launch("Pending", 1)

    after = launches.refused(BookingStatus(launches=(asked,)), asked, CloudError(ErrorKind.QUOTA, "64 vCPU"), START)

    assert (after.launches[0].state, after.launches[0].reason, after.launches[0].message) == (
        "Failed",
        "QuotaExceeded",
        "64 vCPU",
    )


def test_machines_are_tagged_with_the_cluster_where_it_is_known() -> None:
    """One installation id in two clusters: neither takes the other's machines for orphans."""
    booked = booking(purchases=(purchase("od", 1),))
    pending = Launch(purchase="od", token="t", count=1, state="Pending", at=AT)
    assert launches.order(booked, pending, "uid-1").tags["corral.dev/cluster"] == "uid-1"
    assert "corral.dev/cluster" not in launches.order(booked, pending).tags


def test_reservations_are_bought_from_in_one_order_for_all_installations() -> None:
    """By their ids and places, whatever a plan calls its purchases: two that need the same ones meet at the first."""
    bought = [
        structs.replace(purchase(name, 1, "reserved"), reservation_id=reservation, domain={"rack": rack})
        for name, reservation, rack in (("p0", "cr-z", "r1"), ("p1", "cr-a", "r2"), ("p2", "cr-m", "r1"), ("p3", "cr-a", "r1"))
    ]
    status, found = BookingStatus(phase="Launching"), []
    for _ in bought:
        seen = View(booking(purchases=(purchase("a-od"), *bought), status=status), Observed(), START)
        begun = launches.first_launch(seen)
        assert begun is not None
        found.append(begun.purchase)
        status = structs.replace(status, launches=(*status.launches, begun))
    assert found == ["p3", "p1", "p2", "p0"]
