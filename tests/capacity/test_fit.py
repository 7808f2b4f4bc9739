from typing import Any

import pytest

from capacity.fit import barred, closed, host, needs, new_host, refusal, shortage, slots, together
from capacity.model import HOSTNAME, ZONE, CapacityType, Preferences, Shape
from capacity.requirements import Expression, NodeSelectorTerm, Taint, Toleration
from tests.capacity.make import ANY, GPU, RACK, gang, node, offering, pods


@pytest.mark.parametrize(
    ("requests", "free", "expected"),
    [
        pytest.param({"cpu": 1000, "pods": 1}, {"cpu": 3999, "pods": 110}, 3, id="whole pods only"),
        pytest.param({"cpu": 1000, "pods": 1}, {"cpu": 64_000, "pods": 2}, 2, id="pods count"),
        pytest.param({"cpu": 1000, "pods": 1}, {"cpu": 64_000}, 0, id="no pods allocatable: nothing ever fits"),
        pytest.param({"cpu": 1000, GPU: 1, "pods": 1}, {"cpu": 64_000, "pods": 9}, 0, id="absent resource is zero"),
        pytest.param({"cpu": 1000, "pods": 1}, {"cpu": -500, "pods": 9}, 0, id="overcommitted node"),
        pytest.param({"pods": 1}, {"pods": 3}, 3, id="pod without requests"),
    ],
)
def test_slots(requests: dict[str, int], free: dict[str, int], expected: int) -> None:
    assert slots(requests, free) == expected


def test_zero_requests_are_never_checked() -> None:
    assert needs(pods("w", 1, gpu=0)) == {"pods": 1}
    assert slots(needs(pods("w", 1, gpu=0)), {"cpu": -5, "pods": 4}) == 4


def test_together_adds_up_each_resource() -> None:
    leader, worker = {"cpu": 4000, "pods": 1}, {"cpu": 1000, GPU: 4, "pods": 1}
    assert together([leader, worker], [1, 2], {"cpu": 6000, GPU: 8, "pods": 3})
    assert not together([leader, worker], [1, 2], {"cpu": 5999, GPU: 8, "pods": 3})
    assert not together([leader, worker], [1, 2], {"cpu": 6000, GPU: 8, "pods": 2})
    assert together([leader, worker], [0, 2], {"cpu": 2000, GPU: 8, "pods": 2})


def affinity(*expressions: Expression, fields: tuple[Expression, ...] = ()) -> dict[str, Any]:
    return {"affinity": (NodeSelectorTerm(expressions, fields),)}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({}, "taint gpu=yes:NoSchedule not tolerated", id="taint"),
        pytest.param({"tolerations": (Toleration("gpu", "Equal", "yes"),)}, "", id="tolerated, and the booked taint always is"),
        pytest.param(
            {"tolerations": (Toleration("", "Exists"),), "node_selector": {"gpu": "a100"}},
            "node selector asks for gpu=a100, here it is h100",
            id="selector",
        ),
        pytest.param(
            {"node_selector": {"gpu": "a100"}}, "taint gpu=yes:NoSchedule not tolerated", id="taints come before labels"
        ),
        pytest.param(
            {"tolerations": (Toleration("", "Exists"),)} | affinity(Expression("gpu", "NotIn", ("h100",))),
            "node affinity does not match",
            id="affinity",
        ),
        pytest.param(
            {"tolerations": (Toleration("", "Exists"),)} | affinity(fields=(Expression("metadata.name", "In", ("n1",)),)),
            "",
            id="by name",
        ),
    ],
)
def test_refusal(pod: dict[str, Any], expected: str) -> None:
    taints = (Taint("corral.dev/booked", "NoSchedule"), Taint("soft", "PreferNoSchedule"), Taint("gpu", "NoSchedule", "yes"))
    assert refusal(pods("w", 1, **pod), host(node("n1", labels={"gpu": "h100"}, taints=taints))) == expected


@pytest.mark.parametrize(
    ("pod", "goes"),
    [
        pytest.param({"node_selector": {ZONE: "a"}}, True, id="zone is known"),
        pytest.param({"node_selector": {ZONE: "b"}}, False, id="another zone"),
        pytest.param({"node_selector": {RACK: "r1"}}, False, id="a rack is not known before launch"),
        pytest.param(affinity(Expression(RACK, "NotIn", ("r1",))), False, id="nor can it be told that it is another one"),
        pytest.param(affinity(Expression(RACK, "Exists")), False, id="nor that there will be one"),
        pytest.param(affinity(Expression(HOSTNAME, "NotIn", ("n1",))), True, id="a new node is no old node"),
        pytest.param(affinity(Expression(HOSTNAME, "In", ("n1",))), False, id="nor a certain one"),
        pytest.param(affinity(fields=(Expression("metadata.name", "NotIn", ("n1",)),)), True, id="by name"),
    ],
)
def test_refusal_of_a_node_to_be_bought(pod: dict[str, Any], goes: bool) -> None:
    assert (refusal(pods("w", 1, **pod), new_host(offering("o", 1), (ZONE, RACK))) == "") is goes


def test_daemon_sets_come_off_a_new_node() -> None:
    shape = Shape("s", {"cpu": 4000, "pods": 10}, overhead={"cpu": 500, "pods": 3})
    assert new_host(offering("o", 1, shape=shape), ()).free == {"cpu": 3500, "pods": 7}


def test_shortage_has_numbers() -> None:
    assert shortage(pods("w", 1, cpu=4000), host(node("n", used=2))) == f"{GPU}: needs 8, 6 free"
    assert shortage(pods("w", 1, gpu=0, cpu=4000), host(node("n", requested={"cpu": 190_500}))) == "cpu: needs 4, 1500m free"
    assert shortage(pods("w", 1), host(node("n"))) == ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "", id="free"),
        pytest.param({"booked_by": "b"}, "booked", id="booked"),
        pytest.param({"ready": False}, "not ready", id="not ready"),
        pytest.param({"unschedulable": True}, "cordoned", id="cordoned"),
        pytest.param({"capacity_type": CapacityType.QUEUED}, "the policy does not use queued", id="type"),
        pytest.param({"ends": 1600}, "", id="long enough"),
        pytest.param({"ends": 1599}, "ends in 599 s, the gang runs 600 s", id="too short"),
    ],
)
def test_barred(fields: dict[str, Any], expected: str) -> None:
    assert barred(node("n", **fields), gang(pods("w", 1), run_duration=600), 1000, ANY) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "", id="open"),
        pytest.param(
            {"available": 0, "total": 5, "unavailable": "InsufficientCapacity since 10:02"},
            "0 of 5 available: InsufficientCapacity since 10:02",
            id="unavailable",
        ),
        pytest.param({"starts": 1001}, "starts in 1 s", id="starts later"),
        pytest.param({"starts": 1000}, "", id="starts now"),
        pytest.param({"ends": 10_000}, "ends, and the gang's run time is unknown", id="unknown run time"),
        pytest.param({"kind": CapacityType.QUEUED}, "the policy does not use queued", id="type"),
    ],
)
def test_closed(fields: dict[str, Any], expected: str) -> None:
    assert closed(offering("o", **{"available": 1, **fields}), gang(pods("w", 1)), 1000, Preferences()) == expected
