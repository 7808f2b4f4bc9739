"""Random cases of topology assignment, biased to the edge between what fits and what does not."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capacity.fit import Host
from capacity.model import HOSTNAME, Slices
from capacity.tas.room import Request

LEVELS = ("example.com/block", "example.com/rack", HOSTNAME)
MARK = "example.com/mark."


@dataclass(frozen=True, slots=True)
class Case:
    hosts: tuple[Host, ...]
    levels: tuple[str, ...]
    requests: tuple[Request, ...]


def cases(count: int, seed: int) -> Iterator[Case]:
    """The same cases for the same seed."""
    for number in range(count):
        yield _case(random.Random(f"{seed}/{number}"))


def _case(dice: random.Random) -> Case:
    levels = LEVELS[-dice.choice((1, 2, 3, 3, 3)) :]
    hosts = tuple(_hosts(dice, levels))
    kind = dice.choice(("one", "one", "several", "group", "group and one"))
    number = {"one": 1, "several": dice.choice((2, 3)), "group": 2, "group and one": 3}[kind]
    requests = [_request(dice, f"set-{i}", hosts, levels, number) for i in range(number)]
    if kind.startswith("group"):
        requests[:2] = _grouped(dice, requests[0], requests[1])
    return Case(hosts, levels, tuple(requests))


def _hosts(dice: random.Random, levels: Sequence[str]) -> Iterator[Host]:
    blocks, racks = dice.randint(1, 3), dice.randint(1, 3)
    names = dice.sample(range(100), dice.randint(1, 12))
    for name in names:
        place = {"example.com/block": f"b{dice.randrange(blocks)}", "example.com/rack": f"r{dice.randrange(racks)}"}
        labels = {key: value for key, value in place.items() if key in levels and dice.random() > 0.02}
        free = {"cpu": 1000 * dice.randint(0, 8), "gpu": dice.randint(0, 8), "pods": dice.choice((2, 4, 10, 110))}
        yield Host(
            f"n{name:02}", {**labels, HOSTNAME: f"n{name:02}"}, (), free if dice.random() > 0.1 else {**free, "cpu": -2500}
        )


def _request(dice: random.Random, name: str, hosts: Sequence[Host], levels: Sequence[str], share: int) -> Request:
    """One of `share` pod sets of a case; its count is near what fits in all of its hosts, or in a domain of its level."""
    one = {"cpu": dice.choice((0, 500, 1000, 2000, 3000))}
    one |= {"gpu": dice.choice((1, 2, 4))} if dice.random() < 0.6 else {}
    admitted = frozenset(host.name for host in hosts if dice.random() > dice.choice((0, 0, 0.3)))
    level = dice.randrange(len(levels))
    mode = dice.choice(("required", "preferred", "none", "none"))
    topology = {mode: levels[level]} if mode != "none" else {}
    room = _roomiest(hosts, admitted, one, levels[: level + 1] if mode == "required" else ()) // share
    count = max(1, dice.choice((room, room, room - 1, room + 1, room // 2, room // 2 + 1, dice.randint(1, 8))))
    slices = None
    if dice.random() < 0.4:
        low = dice.randrange(level if mode != "none" else 0, len(levels))
        slices = Slices(levels[low], dice.choice((1, 2, 3, 4)))
        if dice.random() < 0.9:
            count = max(1, count // slices.size) * slices.size
    return Request(name, count, one, admitted, topology.get("required"), topology.get("preferred"), slices)


def _roomiest(hosts: Sequence[Host], admitted: frozenset[str], one: Mapping[str, int], path: Sequence[str]) -> int:
    """Pods that fit in the domain with the most room; without a path all hosts are one domain."""
    held = Counter[tuple[str, ...]]()
    for host in hosts:
        if host.name in admitted:
            held[tuple(host.labels.get(key, "") for key in path)] += _room(host, one)
    return max(held.values(), default=0)


def _room(host: Host, one: Mapping[str, int]) -> int:
    return max(0, min(host.free[name] // amount for name, amount in {**one, "pods": 1}.items() if amount))


def _grouped(dice: random.Random, first: Request, second: Request) -> list[Request]:
    """A leader of one pod and its workers, in either order."""
    workers = Request("workers", first.count, first.requests, first.hosts, first.required, first.preferred, first.slices, "group")
    leader = Request("leader", 1, second.requests, second.hosts, first.required, first.preferred, None, "group")
    return dice.sample((leader, workers), 2)


def for_kueue(case: Case) -> dict[str, Any]:
    """The case as bench/tas/main.go reads it. Each host carries a mark for each pod set that it admits."""
    nodes = []
    for host in case.hosts:
        marks = {MARK + one.name: "yes" for one in case.requests if host.name in one.hosts}
        nodes.append({"name": host.name, "labels": {**host.labels, **marks}, "allocatable": _amounts(host.free)})
    return {"levels": case.levels, "nodes": nodes, "podSets": [_pod_set(one) for one in case.requests]}


def _pod_set(one: Request) -> dict[str, Any]:
    topology: dict[str, Any] = {"required": one.required, "preferred": one.preferred}
    if one.slices:
        topology |= {"podSetSliceRequiredTopology": one.slices.topology_key, "podSetSliceSize": one.slices.size}
    if one.group:
        topology["podSetGroupName"] = one.group
    known = {key: value for key, value in topology.items() if value is not None}
    if not one.required and not one.preferred and not one.slices and one.group:
        known["unconstrained"] = True
    return {
        "name": one.name,
        "count": one.count,
        "requests": _amounts(one.requests),
        "nodeSelector": {MARK + one.name: "yes"},
        "topologyRequest": known or None,
    }


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}
