"""Limits as budgets, by hand. At 10:00 a machine of 10 dollars an hour is committed for 14 hours: 140 dollars."""

from typing import Any

import pytest

from capacity.model import Budget, Gang, Plan, PodSet, Purchase
from kube import ours
from kube.meta import Condition
from provisioner.buying.limits import as_ordered, breached, budgets, exceeded, idle_cost, shared
from provisioner.planning.offerings import Market, offers
from provisioner.view import View
from tests.provisioner.make import booking, instance, known, machine, on_demand, pool, purchase, source, view

RES = {"p/res/cr-1/east/a": 1, "p/res/cr-1/east/b": 1}
OD = {"p/od/h100/east": 1, "p/od/h100/west": 1}


def limits(seen: View) -> list[Budget]:
    of = seen.pools["p"]
    return list(budgets(seen, of, offers(Market(seen, of, seen.known["p"])).offerings))


def test_a_pool_without_limits_has_no_budget() -> None:
    assert limits(view()) == []


@pytest.mark.parametrize(
    ("more", "left"),
    [
        pytest.param({}, 5, id="untouched"),
        pytest.param({"known": {"p": known(instance(1, reservation="cr-1"), instance(2, reservation="cr-1"))}}, 3, id="two-run"),
        pytest.param({"bookings": (booking("b", purchase(count=4)),)}, 1, id="four-on-order"),
        pytest.param({"bookings": (booking("b", purchase(count=9)),)}, 0, id="never-below-nothing"),
        pytest.param({"known": {"p": known(instance(1))}}, 5, id="on-demand-is-another-source"),
    ],
)
def test_max_nodes_of_a_source(more: dict[str, Any], left: int) -> None:
    (found,) = limits(view(pool("p", source(maxNodes=5)), **more))
    assert (found.weight, found.left, found.whole) == (RES, left, 5)


def test_on_demand_nodes_count_idle_and_ordered_ones() -> None:
    of = pool("p", limits={"onDemandNodes": 6})
    machines = known(instance(1), instance(2, reservation="cr-1"), instance(3, tags={"corral.dev/pool": "q"}))
    (found,) = limits(view(of, bookings=(booking("b", on_demand(count=2), purchase("p1")),), known={"p": machines}))
    assert (found.weight, found.left) == (OD, 3)
    assert found.text == "onDemandNodes 6 of pool p: 3 running or on order"


def test_money_weighs_the_rest_of_the_day() -> None:
    of = pool("p", limits={"onDemandSpendPerDay": "500"})
    (found,) = limits(view(of, spent={"p": 100_000_000}))
    assert found.weight == dict.fromkeys(OD, 140000000)
    assert (found.left, found.whole) == (400_000_000, 500_000_000)
    assert found.text == "onDemandSpendPerDay $500.00 of pool p: $100.00 committed today"


def test_idle_machines_cost_the_rest_of_the_day() -> None:
    tags = {"corral.dev/booking": "b"}
    machines = known(instance(1), instance(2, tags=tags), instance(3, reservation="cr-1"))
    seen = view(bookings=(booking("b", on_demand(count=1)),), known={"p": machines})
    assert idle_cost(seen, seen.pools["p"]) == 140_000_000


@pytest.mark.parametrize(
    ("provider", "most"),
    [
        pytest.param("http://cloud", {"p/res/cr-1/east/a": 4, "p/res/cr-1/east/b": 4}, id="one-cloud"),
        pytest.param("http://other", {}, id="two-clouds-have-like-names"),
    ],
)
def test_a_reservation_that_two_pools_name_is_there_once(provider: str, most: dict[str, int]) -> None:
    other = pool("q", source(), provider={"simulated": {"endpoint": provider}})
    seen = view(pool("p", source()), other)
    found = [each for of in seen.pools.values() for each in offers(Market(seen, of, seen.known["p"])).offerings]
    budgets_ = shared(seen, found)
    assert {name: each.left for each in budgets_ for name in each.weight if name.startswith("p/")} == most
    assert all(set(each.weight.values()) == {1} and len(each.weight) == 2 for each in budgets_)


def replacing(*instances: ours.BookedInstance, **more: Any) -> ours.Booking:
    lost = Condition(
        type="NodeLost", status="True", reason="Replacing", message="lost", last_transition_time="2026-09-01T10:00:00Z"
    )
    return booking("b", on_demand(count=3), phase="Provisioned", instances=instances, conditions=(lost,), **more)


def test_what_another_booking_lacks_and_has_not_ordered_does_not_count() -> None:
    order = ours.Launch(purchase="p0", token="t", count=1, state="Pending", at="2026-09-01T10:00:00Z")
    for booked, count in (
        (replacing(machine(1, "Ready"), machine(2, "Bad")), 1),
        (replacing(machine(1, "Ready"), machine(2, "Gone"), launches=(order,)), 2),
        (booking("b", on_demand(count=3), phase="Joining"), 3),
    ):
        assert [each.count for each in as_ordered(booked).spec.purchases] == [count]


@pytest.mark.parametrize(
    ("used", "why"),
    [
        pytest.param(2, "", id="just used up"),
        pytest.param(3, "LimitExceeded: onDemandNodes 4 of pool p: 3 running or on order", id="one too many"),
    ],
)
def test_a_plan_is_judged_by_the_limits_of_this_moment(used: int, why: str) -> None:
    of = pool("p", limits={"onDemandNodes": 4})
    seen = view(of, known={"p": known(*(instance(number) for number in range(used)))})
    offering = next(each for each in offers(Market(seen, of, seen.known["p"])).offerings if each.name == "p/od/h100/east")
    gang = Gang("team/job", (PodSet("main", 2, {"pods": 1}),))
    assert breached(seen, Plan(gang, (), (Purchase(offering, 2, {"main": 1}),), 20_000_000)) == why


JOINING: dict[str, Any] = {"phase": "Joining", "instances": (machine(1, "Bad"),)}
TAGGED = known(instance(1, tags={"corral.dev/pool": "p", "corral.dev/booking": "b", "corral.dev/purchase": "p0"}))
"""Two were ordered: a bad one runs, and with its replacement and the other it would be three."""


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(pool(), "", id="no limit"),
        pytest.param(pool("p", limits={"onDemandNodes": 3}), "", id="just used up"),
        pytest.param(
            pool("p", limits={"onDemandNodes": 2}), "LimitExceeded: onDemandNodes 2 of pool p: 3 would run", id="on-demand nodes"
        ),
        pytest.param(
            pool("p", source("od", maxNodes=2)),
            "LimitExceeded: maxNodes 2 of source od in pool p: 3 are used",
            id="nodes of the source",
        ),
        pytest.param(
            pool("p", limits={"onDemandSpendPerDay": "419"}),
            "LimitExceeded: onDemandSpendPerDay $419 of pool p: $420.00 would be committed today",
            id="money",
        ),
    ],
)
def test_a_replacement_keeps_to_the_limits(of: ours.CapacityPool, why: str) -> None:
    bought = on_demand(count=2)
    seen = view(of, bookings=(booking("b", bought, **JOINING),), known={"p": TAGGED}, spent={"p": 420_000_000})
    assert exceeded(seen, bought) == why
