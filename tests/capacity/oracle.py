"""Slow and plain answers for tiny cases, written apart from the planner: every labelling, every packing, every order."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from capacity.model import Plan

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Host:
    """`room`: free amounts. `admits`: which pod sets its taints and labels let in. `domain`: its value of the one key in play."""

    room: Vector
    admits: tuple[bool, ...]
    price: int = 0
    domain: str = ""


@dataclass(frozen=True)
class Case:
    """`requests[s]` is what one pod of pod set `s` takes of each resource; `bound` tells which pod sets must share one domain."""

    hosts: tuple[Host, ...]
    requests: tuple[Vector, ...]
    counts: Vector
    bound: tuple[bool, ...]
    ceiling: int | None = None


def fits(case: Case, room: Vector, pods: Vector) -> bool:
    return all(sum(pods[s] * case.requests[s][r] for s in range(len(pods))) <= free for r, free in enumerate(room))


def domains(case: Case) -> list[str]:
    return sorted({host.domain for host in case.hosts}) if any(case.bound) else [""]


def allowed(case: Case, host: Host, domain: str) -> list[int]:
    return [s for s, count in enumerate(case.counts) if count and host.admits[s] and (not case.bound[s] or host.domain == domain)]


def packs(case: Case) -> bool:
    """Whether any assignment of all pods to hosts exists, in whatever order they must come, within the price ceiling."""
    return any(_packs(case, domain, case.ceiling) for domain in domains(case))


def least_packed_cost(case: Case) -> int | None:
    """The least price at which all pods fit in some order, None when they don't at any."""
    prices = [sum(host.price for host in chosen) for chosen in product(*((host, replace(host, price=0)) for host in case.hosts))]
    return next((price for price in sorted(set(prices)) if packs(replace(case, ceiling=_least(price, case.ceiling)))), None)


def _least(one: int, other: int | None) -> int:
    return one if other is None else min(one, other)


def _packs(case: Case, domain: str, ceiling: int | None) -> bool:
    @cache
    def place(index: int, left: Vector, spent: int) -> bool:
        if not any(left):
            return True
        if index == len(case.hosts):
            return False
        host = case.hosts[index]
        may = allowed(case, host, domain)
        for pods in product(*(range(left[s] + 1) if s in may else (0,) for s in range(len(left)))):
            paid = spent + (host.price if any(pods) else 0)
            rest = tuple(a - b for a, b in zip(left, pods, strict=True))
            if fits(case, host.room, pods) and (ceiling is None or paid <= ceiling) and place(index + 1, rest, paid):
                return True
        return False

    return place(0, case.counts, 0)


def least_safe_cost(case: Case) -> int | None:
    """The least price of a labelling in which pod sets on one host never compete, None when there is none."""
    costs = [cost for domain in domains(case) for cost in _safe_costs(case, domain)]
    costs = [cost for cost in costs if case.ceiling is None or cost <= case.ceiling]
    return min(costs, default=None)


def _safe_costs(case: Case, domain: str) -> Iterator[int]:
    options = [list(_labellings(case, host, domain)) for host in case.hosts]
    best: dict[Vector, int] = {(0,) * len(case.counts): 0}
    for host, choices in zip(case.hosts, options, strict=True):
        reached: dict[Vector, int] = {}
        for covered, cost in best.items():
            for slots in choices:
                now = tuple(min(c, a + b) for a, b, c in zip(covered, slots, case.counts, strict=True))
                paid = cost + (host.price if any(slots) else 0)
                reached[now] = min(paid, reached.get(now, paid))
        best = reached
    if case.counts in best:
        yield best[case.counts]


def _labellings(case: Case, host: Host, domain: str) -> Iterator[Vector]:
    may = allowed(case, host, domain)
    for chosen in product(*((False, True) if s in may else (False,) for s in range(len(case.counts)))):
        slots = tuple(_most(case, host, s) if chosen[s] else 0 for s in range(len(case.counts)))
        if fits(case, host.room, slots):
            yield slots


def _most(case: Case, host: Host, s: int) -> int:
    count = 0
    while count < case.counts[s] and fits(case, host.room, tuple(count + 1 if i == s else 0 for i in range(len(case.counts)))):
        count += 1
    return count


def scheduled(plan: Plan, seed: int) -> bool:
    """A pod-by-pod scheduler that knows only the plan's labels: pods in any order, each on any labelled node with room."""
    dice = random.Random(seed)
    hosts = [(set(use.pods), _free(use.node.allocatable, use.node.requested)) for use in plan.uses]
    for purchase in plan.purchases:
        shape = purchase.offering.shape
        hosts += [(set(purchase.pods), _free(shape.allocatable, shape.overhead)) for _ in range(purchase.count)]
    pods = [pod_set for pod_set in plan.gang.pod_sets for _ in range(pod_set.count)]
    dice.shuffle(pods)
    for pod in pods:
        wants = {"pods": 1} | {name: amount for name, amount in pod.requests.items() if amount}
        room = [free for labels, free in hosts if pod.name in labels and all(free.get(n, 0) >= a for n, a in wants.items())]
        if not room:
            return False
        chosen = dice.choice(room)
        for name, amount in wants.items():
            chosen[name] -= amount
    return True


def _free(allocatable: object, used: object) -> dict[str, int]:
    return {name: amount - dict(used).get(name, 0) for name, amount in dict(allocatable).items()}
