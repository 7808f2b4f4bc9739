from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacity.fit import barred, closed, host, needs, new_host, refusal, shortage, slots, together
from capacity.lens import Lens
from capacity.model import HOSTNAME, ZONE, CapacityType, Preferences, Running, Shape
from capacity.requirements import Expression, HostPort, NodeSelectorTerm, Taint, Toleration
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


EVERY, ONE, TWO = HostPort(80), HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2")


def bound(*ports: HostPort) -> Running:
    return Running("other", {}, ports)


@pytest.mark.parametrize(
    ("running", "wanted", "expected"),
    [
        pytest.param((), (EVERY,), 1, id="one pod a node"),
        pytest.param((), (ONE,), 1, id="one pod a node and address"),
        pytest.param((), (), 4, id="no ports"),
        pytest.param((), (EVERY, ONE), 1, id="a pod is never in its own way"),
        pytest.param((EVERY,), (EVERY,), 0, id="taken"),
        pytest.param((EVERY,), (ONE,), 0, id="taken on every address"),
        pytest.param((ONE,), (EVERY,), 0, id="taken on one of all addresses"),
        pytest.param((ONE,), (ONE,), 0, id="taken on this address"),
        pytest.param((ONE,), (TWO,), 1, id="free on another address"),
        pytest.param((ONE,), (ONE, TWO), 0, id="one of two addresses taken"),
        pytest.param((HostPort(80, "UDP"),), (EVERY,), 1, id="another protocol"),
        pytest.param((HostPort(81),), (EVERY,), 1, id="another port"),
        pytest.param((ONE,), (HostPort(80, "TCP", "::"),), 1, id="only 0.0.0.0 stands for every address"),
    ],
)
def test_host_ports(running: tuple[HostPort, ...], wanted: tuple[HostPort, ...], expected: int) -> None:
    where = host(node("n", gpu=4, pods=(bound(*running),)))
    assert slots(needs(pods("w", 4, gpu=1, ports=wanted)), where.free) == expected


ports = st.lists(st.sampled_from([EVERY, ONE, TWO, HostPort(81), HostPort(81, "UDP", "10.0.0.1")]), max_size=3)


def conflict(one: HostPort, other: HostPort) -> bool:
    same = (one.port, one.protocol) == (other.port, other.protocol)
    return same and (one.address == other.address or "0.0.0.0" in (one.address, other.address))


@given(there=st.lists(ports, max_size=2), coming=st.lists(ports, min_size=1, max_size=3))
def test_ports_count_as_pairwise_conflicts_do(there: list[list[HostPort]], coming: list[list[HostPort]]) -> None:
    """Pods fit together exactly if no two of them, one at least of those that come, want conflicting ports."""
    where = host(node("n", pods=tuple(bound(*wanted) for wanted in there)))
    clash = any(
        conflict(one, other)
        for index, wanted in enumerate(coming)
        for one in wanted
        for others in (*there, *coming[index + 1 :])
        for other in others
    )
    requests = [needs(pods("w", 1, gpu=0, ports=tuple(wanted))) for wanted in coming]
    assert together(requests, [1] * len(requests), where.free) is not clash


def test_daemon_sets_take_ports_of_a_new_node() -> None:
    shape = Shape("s", {"cpu": 4000, "pods": 10}, pods=(Running("kube-system", {}, ports=(HostPort(9100),)),))
    where = new_host(offering("o", 1, shape=shape), ())
    assert shortage(pods("w", 1, gpu=0, ports=(HostPort(9100),)), where) == "host port TCP/9100 is taken"
    assert shortage(pods("w", 1, gpu=0, ports=(HostPort(9101),)), where) == ""


def test_lens_sees_what_is_asked_for_alone() -> None:
    plain, fussy = pods("w", 1), pods("w", 1, ports=(ONE,), volumes=((NodeSelectorTerm((Expression(ZONE, "In", ("a",)),)),),))
    here = node("n", labels={ZONE: "a"}, pods=(bound(TWO),))
    there, taken = node("n", labels={ZONE: "b"}, pods=(bound(TWO),)), node("n", labels={ZONE: "a"}, pods=(bound(EVERY),))
    assert len({Lens([plain]).node(one) for one in (here, there, taken)}) == 1
    assert len({Lens([fussy]).node(one) for one in (here, there, taken)}) == 3


def affinity(*expressions: Expression, fields: tuple[Expression, ...] = ()) -> dict[str, Any]:
    return {"affinity": (NodeSelectorTerm(expressions, fields),)}


IN_H100 = (NodeSelectorTerm((Expression("gpu", "In", ("h100",)),)),)
IN_A100 = (NodeSelectorTerm((Expression("gpu", "In", ("a100",)),)),)


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
        pytest.param(
            {"tolerations": (Toleration("", "Exists"),), "volumes": (IN_H100, (*IN_A100, *IN_H100))}, "", id="volumes all match"
        ),
        pytest.param(
            {"tolerations": (Toleration("", "Exists"),), "volumes": (IN_H100, IN_A100)},
            "a volume can't be reached from here",
            id="one volume is elsewhere",
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
        pytest.param({"volumes": ((NodeSelectorTerm((Expression(ZONE, "In", ("a",)),)),),)}, True, id="a volume in the zone"),
        pytest.param({"volumes": ((NodeSelectorTerm((Expression(RACK, "NotIn", ("r1",)),)),),)}, False, id="a volume off a rack"),
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
