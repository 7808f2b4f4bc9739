"""Offerings that are never worth their price, against plans with all of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.model import Budget, CapacityType, Gang, Offering, Running, Shape
from capacity.programme import wares
from capacity.programme.mixes import lucky_mixes, safe_mixes
from capacity.programme.question import Question, question
from capacity.programme.search import find
from capacity.programme.supply import gather
from capacity.programme.wares import Ware, goods
from capacity.requirements import HostPort, Taint
from tests.capacity.make import ANY, BIG, GPU, RACK, gang, offering, pods, snapshot

MOST = 4
RANKS = {kind: 2 * place for place, kind in enumerate(ANY.capacity_order)}
PAIR = gang(pods("worker", 2, gpu=4), pods("driver", 2, gpu=0, cpu=48_000))
CHEAP = offering("cheap", MOST, 10)
PORT = (HostPort(8080),)


def shape(cpu: int = 192_000, gpu: int = 8, **more: Any) -> Shape:
    return Shape(f"{cpu}-{gpu}", {**BIG, "cpu": cpu, GPU: gpu}, **more)


def kept(asked: Question, *, safe: bool) -> set[str]:
    return {one.offering.name for one in goods(asked, (), RANKS, MOST, safe=safe)}


@pytest.mark.parametrize(
    ("other", "safe", "stays"),
    [
        pytest.param(offering("other", 4, 11), True, False, id="dearer"),
        pytest.param(offering("other", 4, 11, zone="b"), True, False, id="dearer elsewhere"),
        pytest.param(offering("other", 4, 10, shape=shape(96_000)), True, True, id="as cheap and smaller"),
        pytest.param(offering("other", 4, 11, shape=shape(400_000, 16)), True, False, id="larger than the gang"),
        pytest.param(offering("other", 4, 11, shape=shape(96_000)), True, False, id="both drivers, less room beside them"),
        pytest.param(offering("other", 4, 11, shape=shape(95_999)), True, True, id="one driver takes less from workers"),
        pytest.param(offering("other", 4, 11, shape=shape(95_999)), False, False, id="room for fewer is no luck"),
        pytest.param(offering("other", 4, 11, shape=shape(taints=(Taint("k", "NoSchedule"),))), False, True, id="taints"),
        pytest.param(offering("other", 4, 11, shape=shape(labels={"disk": "ssd"})), False, True, id="a label that is asked for"),
        pytest.param(offering("other", 4, 11, shape=shape(labels={"tier": "1"})), False, False, id="any other label"),
        pytest.param(offering("other", 4, 11, domain={}), False, True, id="its zone known at launch only"),
        pytest.param(offering("other", 4, 11, CapacityType.RESERVED), True, False, id="dearer, earlier in the policy's order"),
    ],
)
def test_what_stays(other: Offering, safe: bool, stays: bool) -> None:
    some = gang(*PAIR.pod_sets, pods("disk", 0), pods("ssd", 1, gpu=0, node_selector={"disk": "ssd"}))
    asked = question(some if "disk" in other.shape.labels else PAIR, snapshot(CHEAP, other), ANY)
    assert kept(asked, safe=safe) == ({"cheap", "other"} if stays else {"cheap"})


def test_of_equal_price_the_later_in_the_order_goes() -> None:
    asked = question(PAIR, snapshot(CHEAP, offering("held", 4, 10, CapacityType.RESERVED)), ANY)
    assert kept(asked, safe=True) == {"held"}


@pytest.mark.parametrize("taken", [pytest.param(PORT, id="taken on the cheaper"), pytest.param((), id="taken on neither")])
def test_a_host_port_counts_as_room(taken: tuple[HostPort, ...]) -> None:
    cheap = offering("cheap", MOST, 10, shape=shape(pods=(Running("kube-system", {}, taken),)))
    wanted = gang(pods("worker", 2, gpu=4, ports=PORT), pods("driver", 2, gpu=0))
    asked = question(wanted, snapshot(cheap, offering("other", 4, 11, shape=shape(100_000))), ANY)
    for safe in (True, False):
        assert kept(asked, safe=safe) == ({"cheap", "other"} if taken else {"cheap"})


def test_too_few_stand_in_for_none() -> None:
    asked = question(PAIR, snapshot(offering("cheap", MOST - 1, 10), offering("other", 4, 11)), ANY)
    assert kept(asked, safe=True) == {"cheap", "other"}


def test_a_shared_limit_keeps_them_apart() -> None:
    budget = Budget("quota", {"cheap": 1}, 4, 4)
    asked = question(PAIR, snapshot(CHEAP, offering("other", 4, 11), budgets=(budget,)), ANY)
    assert kept(asked, safe=True) == {"cheap", "other"}


OFFERING = st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 3, 4, 6, 12, 40]), st.integers(1, 8), st.integers(1, 9))
COUNTS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def every(_asked: Question, offered: list[Ware], _most: int, *, safe: bool) -> list[Ware]:
    return offered


@given(st.lists(OFFERING, min_size=1, max_size=5), COUNTS, st.tuples(st.integers(1, 4), st.integers(0, 2)), st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_best_plan_costs_the_same(
    some: list[tuple[int, int, int, int]], counts: tuple[int, int], sizes: tuple[int, int], safe: bool
) -> None:
    offers = [
        offering(f"o{number}", available, price, shape=shape(1000 * cpu, gpu))
        for number, (available, cpu, gpu, price) in enumerate(some)
    ]
    wanted: Gang = gang(pods("worker", counts[0], gpu=sizes[0], cpu=1000), pods("driver", counts[1], gpu=sizes[1], cpu=2000))
    mixes = safe_mixes if safe else lucky_mixes
    thin = find(question(wanted, snapshot(*offers), ANY), mixes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wares, "worthwhile", every)
        whole = find(question(wanted, snapshot(*offers), ANY), mixes)
    assert (thin and thin.cost) == (whole and whole.cost)


def test_a_gang_bound_to_a_rack_sees_them_all() -> None:
    racks = [offering(f"o{rack}", 4, price, domain={"zone": "a", RACK: rack}) for rack, price in (("a", 10), ("b", 11))]
    asked = question(gang(*(pods(n, 1, required_topology=RACK) for n in ("worker", "driver"))), snapshot(*racks), ANY)
    assert len(gather(asked, (RACK,), safe_mixes)) == 2
