"""What is lost to others when a node is taken whole, by hand."""

from collections import Counter
from typing import Any

import pytest

from capacity.fragmentation import lost, sizes, spare, usual
from capacity.index.fleet import Fleet
from capacity.model import Node, Plan, Running
from capacity.plan import plan
from tests.capacity.make import ANY, GPU, gang, node, pods, snapshot

TWO = (("cpu", 4000), (GPU, 2))
FOUR = (("cpu", 4000), (GPU, 4))
DAEMON = (("cpu", 100),)


def running(*asked: tuple[tuple[str, int], ...]) -> tuple[Running, ...]:
    return tuple(Running("ns", {}, requests=dict(size)) for size in asked)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param({TWO: 3, FOUR: 1}, ((4, TWO), (3, FOUR)), id="12 and 4 sixteenths"),
        pytest.param({DAEMON: 90, FOUR: 1}, ((5, FOUR),), id="devices alone where there are any"),
        pytest.param({DAEMON: 2}, ((5, DAEMON),), id="no devices"),
        pytest.param({TWO: 100, FOUR: 1}, ((4, TWO),), id="what is rare does not count"),
        pytest.param({TWO: 0}, (), id="gone"),
        pytest.param({}, (), id="nothing known"),
    ],
)
def test_usual_sizes(counts: dict[Any, int], expected: tuple[Any, ...]) -> None:
    assert usual(Counter(counts)) == expected


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        pytest.param({"cpu": 8000, GPU: 8}, 2 * (500 + 8000 * 1000 // 16_000), id="two pods by cpu: 4 of 8 devices"),
        pytest.param({"cpu": 16_000, GPU: 3}, 2 * (250 + 250), id="one pod by devices"),
        pytest.param({"cpu": 3999, GPU: 8}, 0, id="none"),
        pytest.param({"cpu": 16_000, GPU: -1}, 0, id="overcommitted"),
        pytest.param({"cpu": 16_000}, 0, id="no devices"),
    ],
)
def test_lost(free: dict[str, int], expected: int) -> None:
    assert lost(((2, TWO),), free, {"cpu": 16_000, GPU: 8}) == expected


def test_without_usual_pods_the_fullest_goes_first() -> None:
    """96 of 192 cores are 500 thousandths, 2 of 8 devices 250, 110 of 110 pods 1000."""
    assert spare((), node("n", requested={"cpu": 96_000, GPU: 6})) == 500 + 250 + 1000


def test_a_fleet_knows_what_is_usual() -> None:
    fleet = Fleet([node("n", pods=running(TWO, TWO)), node("m", pods=running(FOUR))])
    assert fleet.usual() == ((4, TWO), (3, FOUR))
    fleet.put(node("m", pods=running(DAEMON)))
    assert fleet.usual() == ((5, TWO),)
    fleet.remove("n")
    assert fleet.usual() == ((5, DAEMON),)
    assert list(sizes(node("n", pods=running(TWO)))) == [TWO]


def fragmented() -> list[Node]:
    """Pods of one device fit on all; the usual pod of four devices fits on `b`, which is fuller, but no more on `x`."""
    return [
        node("x", requested={GPU: 5, "cpu": 0}, pods=running(FOUR)),
        node("b", requested={GPU: 4, "cpu": 188_000}, pods=running(FOUR)),
        node("c", used=8, pods=running(FOUR, FOUR)),
    ]


@pytest.mark.parametrize("alone", [pytest.param(True, id="from the columns"), pytest.param(False, id="by the search")])
def test_the_node_that_is_no_use_to_others_goes_first(alone: bool) -> None:
    more = () if alone else (pods("other", 1, gpu=0, cpu=1, node_selector={"no": "where"}, preferred_topology=None),)
    places = fragmented() if alone else [*fragmented(), node("z", gpu=0, labels={"no": "where"})]
    outcome = plan(gang(pods("w", 3, gpu=1), *more), snapshot(*places), ANY)
    assert isinstance(outcome, Plan)
    assert [use.node.name for use in outcome.uses if "w" in use.pods] == ["x"]
