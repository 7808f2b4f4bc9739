"""The worst that pods of other roles can do to one role: how many of its slots they can take on the nodes that they share.

Exact for what is counted on single nodes (resources, ports, caps): a role is stuck only when none of its nodes has room for one
pod more, and then node h holds as many of its pods as the others there leave. The worst choice of where the others went, each
role with no more pods than it has, is a small dynamic programme over the nodes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import add, le

from capacity.fit import room, slots

MAX_WORK = 300_000
"""Steps of the dynamic programme; beyond that only what each node is sure of counts."""


@dataclass(frozen=True, slots=True)
class Shared:
    """`count` alike nodes with these roles' pods on them; `caps` is the most that each role ever has on one."""

    free: Mapping[str, int]
    caps: Mapping[int, int]
    count: int


def surely(role: int, requests: Sequence[Mapping[str, int]], counts: Sequence[int], nodes: Sequence[Shared]) -> int:
    """How many pods of the role are placed in the worst case, `counts[role]` or more when it can't be stopped."""
    sure = sum(node.count * _sure(role, requests, node) for node in nodes)
    if sure >= counts[role]:
        return sure
    others = sorted({other for node in nodes for other in node.caps} - {role})
    states = prod(counts[other] + 1 for other in others)
    steps = sum(_crowded(node, counts, others) * prod(node.caps.get(other, 0) + 1 for other in others) for node in nodes)
    return sure if states * steps > MAX_WORK else _worst(role, requests, counts, nodes, others)


def _sure(role: int, requests: Sequence[Mapping[str, int]], node: Shared) -> int:
    """What a node keeps when every other role has its most there, whether all that fits at once or not."""
    if role not in node.caps:
        return 0
    taken = [(requests[other], cap) for other, cap in node.caps.items() if other != role]
    left = {name: room(node.free, name) - sum(one.get(name, 0) * cap for one, cap in taken) for name in requests[role]}
    return min(node.caps[role], slots(requests[role], left))


def _worst(
    role: int, requests: Sequence[Mapping[str, int]], counts: Sequence[int], nodes: Sequence[Shared], others: Sequence[int]
) -> int:
    there = [counts[other] for other in others]
    best: dict[tuple[int, ...], int] = {(0,) * len(others): 0}
    for node in nodes:
        if role not in node.caps:
            continue
        options = _harmful(_options(role, requests, node, others))
        crowded = _crowded(node, counts, others)
        alone = (node.count - crowded) * dict(options)[(0,) * len(others)]
        best = {used: total + alone for used, total in best.items()}
        for _ in range(crowded):
            following: dict[tuple[int, ...], int] = {}
            for used, total in best.items():
                for taken, kept in options:
                    now = tuple(map(add, used, taken))
                    if all(map(le, now, there)):
                        following[now] = min(following.get(now, total + kept), total + kept)
            best = following
    return min(best.values())


def _crowded(node: Shared, counts: Sequence[int], others: Sequence[int]) -> int:
    """On how many of the alike nodes there can be pods of the others."""
    return min(node.count, sum(counts[other] for other in others if node.caps.get(other)))


def _harmful(options: Iterable[tuple[tuple[int, ...], int]]) -> list[tuple[tuple[int, ...], int]]:
    """Without those where fewer of the others leave no more slots."""
    found: list[tuple[tuple[int, ...], int]] = []
    for taken, kept in sorted(options):
        if not any(left <= kept and all(a <= b for a, b in zip(less, taken, strict=True)) for less, left in found):
            found.append((taken, kept))
    return found


def _options(
    role: int, requests: Sequence[Mapping[str, int]], node: Shared, others: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Each way in which the others can be on one node, with the slots that it leaves to the role."""

    def fill(place: int, free: Mapping[str, int]) -> Iterator[tuple[tuple[int, ...], int]]:
        if place == len(others):
            yield (), min(node.caps[role], slots(requests[role], free))
            return
        other = others[place]
        most = min(node.caps.get(other, 0), slots(requests[other], free))
        for count in range(most + 1):
            left = {name: amount - requests[other].get(name, 0) * count for name, amount in free.items()}
            for taken, kept in fill(place + 1, left):
                yield (count, *taken), kept

    names = {name for one in (role, *others) for name in requests[one]}
    yield from fill(0, {name: room(node.free, name) for name in names})
