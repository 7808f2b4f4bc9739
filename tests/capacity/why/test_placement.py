"""What is told of levels and rules; the racks r1 and r2 of zone z have two nodes of 4 GPUs each."""

from typing import Any

import pytest

from capacity.model import HOSTNAME, ZONE, Exclusive, PodSet, Shortfall, Slices
from capacity.plan import plan
from capacity.requirements import Expression, LabelSelector, PodTerm, Spread
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

APP = LabelSelector((Expression("app", "In", ("x",)),))
NODES = tuple(node(f"n{i}", gpu=4, labels={ZONE: "z", RACK: f"r{i // 2 + 1}", HOSTNAME: f"n{i}"}) for i in range(4))


def app(count: int, gpu: int = 1, **more: Any) -> PodSet:
    return pods("w", count, gpu=gpu, labels={"app": "x"}, **more)


@pytest.mark.parametrize(
    ("pod_sets", "message"),
    [
        pytest.param([app(9, required_topology=RACK)], "needs 9 pods in one rack; largest has room for 8 (r2)", id="a level"),
        pytest.param(
            [app(3, required_topology=RACK, apart=(PodTerm(HOSTNAME, APP, None),))],
            "needs 3 pods in one rack; largest has room for 3 (r2) but for the rules among its pods; "
            "w: must not share a node with the pods that it names (pod anti-affinity)",
            id="a rule within a level",
        ),
        pytest.param(
            [pods(name, 3, gpu=2, required_topology=RACK) for name in ("a", "b")],
            "needs 6 pods in one rack; largest has room for 6 (r2) if each of the 2 pod sets had it to itself",
            id="pod sets that need the same nodes",
        ),
        pytest.param(
            [app(4, required_topology="row")],
            "needs 4 pods in one row; nothing that can be had is known to carry that label; "
            f"levels here are {ZONE}, rack, {HOSTNAME}",
            id="a level that nothing has",
        ),
        pytest.param(
            [app(4, spreads=(Spread(RACK, 1, APP, min_domains=3),), required_topology=ZONE)],
            f"needs 4 pods in one {ZONE}; largest has room for 4 (z) but for the rules among its pods; "
            "w: spread over rack with maxSkew 1 and minDomains 3; least room: r1 8, r2 8",
            id="a spread over more domains than there are",
        ),
        pytest.param(
            [app(4, gpu=3, slices=Slices(RACK, 4))],
            "w: needs 1 slices of 4 pods, each in one rack; there is room for 0",
            id="slices",
        ),
        pytest.param(
            [app(6, gpu=2, exclusive=Exclusive(RACK, APP, 2))],
            "w: needs 3 units of 2 pods, each alone in one rack; there is room for 2",
            id="exclusive units",
        ),
    ],
)
def test_what_is_in_the_way_of_all_together(pod_sets: list[PodSet], message: str) -> None:
    outcome = plan(gang(*pod_sets), snapshot(*NODES), ANY)
    assert isinstance(outcome, Shortfall)
    assert outcome.message == message


def test_a_level_that_only_offerings_have_is_known_here() -> None:
    outcome = plan(
        gang(app(4, required_topology="row")),
        snapshot(offering("o", 3, domain={ZONE: "z", "block": "b"}), keys=("block", RACK)),
        ANY,
    )
    assert isinstance(outcome, Shortfall)
    assert outcome.message.endswith(f"levels here are {ZONE}, block, {HOSTNAME}")
