"""Short ways to write pod sets, nodes and offerings."""

from typing import Any

from capacity.model import ZONE, CapacityType, Gang, Node, Offering, PodSet, Preferences, Shape, Snapshot

GPU = "nvidia.com/gpu"
RACK = "rack"
ANY = Preferences()
BIG = {"cpu": 192_000, "pods": 110, GPU: 8}


def pods(name: str, count: int, gpu: int = 8, cpu: int = 0, **more: Any) -> PodSet:
    return PodSet(name=name, count=count, requests={"cpu": cpu, GPU: gpu, "pods": 1}, **more)


def gang(*pod_sets: PodSet, run_duration: int | None = None) -> Gang:
    return Gang(name="g", pod_sets=pod_sets, run_duration=run_duration)


def node(name: str, gpu: int = 8, used: int = 0, **more: Any) -> Node:
    fields: dict[str, Any] = {"pool": "p", "allocatable": {**BIG, GPU: gpu}, "requested": {GPU: used}} | more
    return Node(name=name, **fields)


def offering(name: str, available: int, price: int = 0, kind: CapacityType = CapacityType.ON_DEMAND, **more: Any) -> Offering:
    gpu = more.pop("gpu", 8)
    zone = more.pop("zone", "a")
    fields: dict[str, Any] = {
        "pool": "p",
        "source": kind.value,
        "shape": Shape(f"gpu{gpu}", {**BIG, GPU: gpu}),
        "total": available,
        "domain": {ZONE: zone},
    } | more
    return Offering(name=name, available=available, price=price, capacity_type=kind, **fields)


def snapshot(*items: Node | Offering, now: int = 0, keys: tuple[str, ...] = (ZONE, RACK), **more: Any) -> Snapshot:
    nodes = tuple(item for item in items if isinstance(item, Node))
    offerings = tuple(item for item in items if isinstance(item, Offering))
    return Snapshot(now=now, nodes=nodes, offerings=offerings, topology_keys=keys, **more)
