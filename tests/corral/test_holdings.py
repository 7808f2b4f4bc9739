"""What `corral why` tells of reservations, pools and nodes."""

from typing import Any

import pytest

from tests.corral import cluster
from tests.corral.cluster import Json, condition, meta

pytestmark = pytest.mark.looptime

ASKED = {"cpu": "500m", "nvidia.com/gpu": 8}
POOL: Json = {
    "metadata": {"name": "h100"},
    "spec": {"mode": "Active", "provider": {"simulated": {"endpoint": "http://cloud"}}},
    "status": {
        "nodes": {"launched": 3, "adopted": 0, "booked": 3, "idle": 0, "quarantined": 0},
        "conditions": [condition("Ready", reason="Ready", message="serves requests")],
        "reservations": [
            {"id": "cr-1", "source": "r", "shape": "p5", "zone": "a"}
            | {"total": 8, "booked": 3, "outside": 1, "quarantined": 0, "free": 4}
        ],
        "offerings": [
            {
                "name": "od",
                "source": "od",
                "shape": "p5",
                "zone": "a",
                "capacityType": "on-demand",
                "available": 0,
                "total": 9,
                "pricePerHour": "98.32",
                "unavailable": "InsufficientCapacity since 09:58Z",
            }
        ],
    },
}


def purchase(name: str, count: int, **fields: Any) -> Json:
    given = {"name": name, "pool": "h100", "source": "r", "offering": "o", "shape": "p5", "zone": "a", "capacityType": "reserved"}
    return given | {"count": count, "pods": {"main": 1}} | fields


def booking(name: str, phase: str, purchases: list[Json], nodes: list[Json], instances: list[Json]) -> Json:
    spec = {
        "request": {"namespace": "team", "name": f"{name}-1"},
        "workload": {"namespace": "team", "name": f"job-{name}"},
        "attempt": 1,
        "installation": "x",
        "policy": "default",
        "podSets": [],
        "provisionDeadline": "2026-09-01T10:00:00Z",
        "bookingSeconds": 900,
        "purchases": purchases,
        "nodes": nodes,
    }
    return {"metadata": {"name": f"bk-{name}"}, "spec": spec, "status": {"phase": phase, "instances": instances}}


def instance(name: str, state: str) -> Json:
    return {"id": name, "purchase": "a", "state": state, "node": name}


LLM = booking(
    "llm",
    "Provisioned",
    [purchase("a", 3, reservationID="cr-1"), purchase("b", 1)],
    [{"name": "old", "pool": "h100", "pods": {"main": 1}}],
    [instance("n1", "Ready"), instance("n2", "Gone")],
)
PAST = booking("past", "Released", [purchase("a", 5, reservationID="cr-1")], [], [])


def request(name: str, policy: str, **states: str) -> Json:
    told = {"Provisioned": "False"} | states
    return {
        "metadata": meta(name),
        "spec": {
            "provisioningClassName": "gang.corral.dev",
            "podSets": [{"podTemplateRef": {"name": "t"}, "count": 6}],
            "parameters": {"policy": policy},
        },
        "status": {"conditions": [condition(k, v, reason="GangIncomplete", message="2 of 6; more") for k, v in told.items()]},
    }


CLUSTER: dict[str, list[Json]] = {
    "capacitypools": [POOL],
    "capacitypolicies": [
        {"metadata": {"name": "any"}, "spec": {}},
        {"metadata": {"name": "elsewhere"}, "spec": {"pools": ["a100"]}},
    ],
    "bookings": [LLM, PAST],
    "provisioningrequests": [
        request("waits", "any"),
        request("other", "elsewhere"),
        request("failed", "any", Failed="True"),
        request("served", "any", Provisioned="True"),
    ],
    "nodes": [
        {
            "metadata": {"name": "n1", "labels": {"corral.dev/pool": "h100"}},
            "spec": {"taints": [{"key": "corral.dev/booked", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "190", "nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    ],
    "pods": [
        {
            "metadata": meta("worker-0"),
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 8}}}],
            },
        },
        {
            "metadata": meta("agent", ownerReferences=[{"kind": "DaemonSet", "name": "d", "uid": "d", "apiVersion": "apps/v1"}]),
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        },
    ],
}


async def told(kind: str, name: str, *closed: str) -> list[str]:
    lines = await cluster.told(CLUSTER, f"{kind}/{name}", *closed)
    return [line.split(" GangIncomplete ")[0] for line in lines]


async def test_a_reservation() -> None:
    assert await told("reservation", "cr-1") == [
        "RESERVATION cr-1: 8 x p5 in a, pool h100",
        "  cr-1: 8 = 3 booked + 1 outside + 4 free",
        "  held by workload team/job-llm: 2 nodes, booking bk-llm, Provisioned",
        "  waits: provreq team/waits",
    ]


async def test_a_pool() -> None:
    assert await told("pool", "h100") == [
        "POOL h100: Active, Ready: serves requests",
        "  nodes: 3 launched, 0 adopted; 3 booked, 0 idle",
        "  cr-1: 8 = 3 booked + 1 outside + 4 free",
        "  p5 in a, on-demand at $98.32/h: 0 can be had: InsufficientCapacity since 09:58Z",
        "  held by workload team/job-llm: 4 nodes, booking bk-llm, Provisioned",
        "  waits: provreq team/waits",
    ]


async def test_a_node() -> None:
    assert await told("node", "n1") == [
        "NODE n1: ready, pool h100",
        "  cpu: 190 = 500m requested + 189500m free",
        "  nvidia.com/gpu: 8 = 8 requested + 0 free",
        "  taint corral.dev/booked:NoSchedule",
        "  held by workload team/job-llm: 1 node, booking bk-llm, Provisioned",
        "  runs team/worker-0",
        "  waits: provreq team/waits",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        pytest.param("reservation", "cr-9", "no CapacityPool has it; there are: cr-1", id="reservation"),
        pytest.param("pool", "p", "there is no such CapacityPool; there are: h100", id="pool"),
        pytest.param("node", "n9", "there is no such Node", id="node"),
    ],
)
async def test_what_is_not_there(kind: str, name: str, line: str) -> None:
    assert await told(kind, name) == [f"UNKNOWN {kind}/{name}: {line}"]


async def test_without_the_rights() -> None:
    assert await told("reservation", "cr-1", "bookings", "provisioningrequests") == [
        "RESERVATION cr-1: 8 x p5 in a, pool h100",
        "  cr-1: 8 = 3 booked + 1 outside + 4 free",
        "  left out, for you have no right to read them: bookings, provisioningrequests (ClusterRole corral-viewer has it)",
    ]
    assert (await told("node", "n1", "nodes"))[0] == "UNKNOWN node/n1: you have no right to read Nodes"
