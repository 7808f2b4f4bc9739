"""Every order and every choice of the scheduler, followed to the end: for rules that no formula covers together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from capacity.programme.couplings import Even
from capacity.programme.question import Question

if TYPE_CHECKING:
    from capacity.proof.evidence import Place

MAX_STATES = 20_000
"""States beyond which nothing is said."""

State = tuple[int, ...]  # pods of the role on each host


def survives(asked: Question, places: Sequence["Place"], role: int) -> bool:
    """Whether all pods of the role find a node however the scheduler chooses; False also when there is too much to follow.

    The role must have its nodes to itself: pods of one role are alike, so a state is how many are on each.
    """
    hosts = [(place, number) for place in places if role in place.caps for number in range(place.count)]
    if any(len(place.caps) > 1 for place, _ in hosts):
        return False
    rooms = [place.caps[role] for place, _ in hosts]
    rules = [rule for rule in asked.couplings.rules if isinstance(rule, Even) and rule.role == role]
    domains = [[place.domains(rule.key)[number] for place, number in hosts] for rule in rules]
    running = [_running(asked, rule, hosts, where) for rule, where in zip(rules, domains, strict=True)]
    seen: set[State] = set()
    level: set[State] = {(0,) * len(hosts)}
    for _ in range(asked.demand[role]):
        following: set[State] = set()
        for state in level:
            moves = [i for i in range(len(hosts)) if state[i] < rooms[i] and _allowed(state, i, rules, domains, running)]
            if not moves:
                return False
            following.update((*state[:i], state[i] + 1, *state[i + 1 :]) for i in moves)
        seen |= following
        if len(seen) > MAX_STATES:
            return False
        level = following
    return True


def _running(asked: Question, rule: Even, hosts: Sequence[tuple["Place", int]], where: Sequence[str]) -> dict[str, int]:
    if rule.elsewhere is not None:
        return {**dict.fromkeys(where, 0), **rule.elsewhere}
    found = dict.fromkeys(where, 0)
    for (place, _), value in zip(hosts, where, strict=True):
        if place.node is not None:
            found[value] += asked.neighbours.counted(rule.role, rule.spread, place.node)
    return found


def _allowed(
    state: State, host: int, rules: Sequence[Even], domains: Sequence[Sequence[str]], running: Sequence[dict[str, int]]
) -> bool:
    for rule, where, before in zip(rules, domains, running, strict=True):
        counts = dict(before)
        for value, pods in zip(where, state, strict=True):
            counts[value] += pods
        least = min(counts.values()) if len(counts) >= rule.min_domains else 0
        if counts[where[host]] + 1 - least > rule.skew:
            return False
    return True
