"""What is asked of us and of the peers: one record that both sides are fed from, and what it looks like on the wire.

Amounts are integers: cpu in milli-cores, memory in bytes, the rest in units; prices are micro-dollars an hour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Amounts = Mapping[str, int]
Labels = Mapping[str, str]

GPU = "nvidia.com/gpu"
MODEL = "bench.corral.dev/gpu"
ZONE = "topology.kubernetes.io/zone"
BLOCK = "bench.corral.dev/block"
RACK = "bench.corral.dev/rack"
HOST = "kubernetes.io/hostname"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """A node that is there; `requested` is what its pods take, as one sum."""

    name: str
    labels: Labels
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)

    def free(self) -> dict[str, int]:
        return {name: whole - self.requested.get(name, 0) for name, whole in self.allocatable.items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """An instance type."""

    name: str
    labels: Labels
    allocatable: Amounts


@dataclass(frozen=True, slots=True)
class Offer:
    """Nodes of one kind that can be had in one place; `type` is reserved or on-demand, `domain` what is known of the place."""

    name: str
    kind: str
    type: str
    available: int
    price: int
    domain: Labels


@dataclass(frozen=True, slots=True)
class Pods:
    """One pod set. `required` and `preferred` are topology levels, "" for none."""

    name: str
    count: int
    requests: Amounts
    selector: Labels = field(default_factory=dict)
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One gang."""

    name: str
    sets: tuple[Pods, ...]

    @property
    def pods(self) -> int:
        return sum(one.count for one in self.sets)


@dataclass(frozen=True, slots=True)
class Problem:
    """Gangs to be planned one after the other. `levels` run from the widest to the narrowest, hosts left out."""

    name: str
    gangs: tuple[Ask, ...]
    nodes: tuple[Machine, ...] = ()
    kinds: tuple[Kind, ...] = ()
    offers: tuple[Offer, ...] = ()
    levels: tuple[str, ...] = (ZONE,)

    @property
    def pods(self) -> int:
        return sum(gang.pods for gang in self.gangs)

    def classes(self) -> int:
        """How many sorts of nodes and offers there are: alike in amounts and labels, offers in price and type, too."""
        there = {(_key(n.labels), _key(n.allocatable), _key(n.requested)) for n in self.nodes}
        return len(there) + len({(o.kind, o.type, o.price, _key(o.domain)) for o in self.offers})


def wire(problem: Problem) -> dict[str, Any]:
    """The problem as the harnesses of Karpenter and Cluster Autoscaler read it."""
    return {
        "nodes": [
            {"name": n.name, "labels": dict(n.labels), "allocatable": text(n.allocatable), "requested": text(n.requested)}
            for n in problem.nodes
        ],
        "shapes": [{"name": k.name, "labels": dict(k.labels), "allocatable": text(k.allocatable)} for k in problem.kinds],
        "offerings": [
            {
                "name": o.name,
                "shape": o.kind,
                "zone": o.domain[ZONE],
                "capacityType": o.type,
                "available": o.available,
                "price": o.price,
            }
            for o in problem.offers
        ],
        "gangs": [{"name": gang.name, "podSets": [_pod_set(one) for one in gang.sets]} for gang in problem.gangs],
    }


def for_kueue(problem: Problem) -> dict[str, Any]:
    """The only gang of a problem as Kueue's harness (bench/tas) reads it: what is free of a node is all it has.

    Kueue takes one level, required or preferred; below a required one it packs as tightly as it can by itself.
    """
    (gang,) = problem.gangs
    return {
        "levels": [*problem.levels, HOST],
        "nodes": [{"name": n.name, "labels": {**n.labels, HOST: n.name}, "allocatable": text(n.free())} for n in problem.nodes],
        "podSets": [{**_pod_set(one), "topologyRequest": {"required": one.required}} for one in gang.sets],
    }


def text(amounts: Amounts) -> dict[str, str]:
    """Kubernetes quantities."""
    return {name: f"{number}m" if name == "cpu" else str(number) for name, number in amounts.items()}


def _pod_set(one: Pods) -> dict[str, Any]:
    return {"name": one.name, "count": one.count, "requests": text(one.requests), "nodeSelector": dict(one.selector)}


def _key(mapping: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(mapping.items()))
