"""What one way of meeting the topology wishes is searched in: cells, the levels chosen one by one, and the limits kept by all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from capacity.fit import host, needs, new_host, slots
from capacity.model import ZONE
from capacity.programme.couplings import Bind, Even, Many
from capacity.programme.judge import Bounds
from capacity.programme.mixes import Mixes, lucky_mixes
from capacity.programme.question import Question
from capacity.programme.rules import ABSENT, UNKNOWN
from capacity.programme.solver import Limits
from capacity.programme.supply import Cell, gather

MAX_CHOICES = 2_000
"""Sets of domains that are looked at one by one; levels beyond that are left to the integer programme."""
MAX_LEVELS = 32
"""Levels of spreads over hosts, in all combinations, that are looked at one by one."""
ANY_LEVEL = -1
"""A spread over hosts that is left out."""


@dataclass(frozen=True, slots=True)
class Field:
    """What one way of meeting the wishes is searched in: the cells, told apart by `keys`, the levels chosen one by one and the
    limits that every answer keeps. `home` is the zone outside which nodes count for more, "" where that is no matter.
    """

    cells: Sequence[Cell]
    keys: tuple[str, ...]
    steps: Sequence[Bind]
    limits: Limits
    home: str = ""


def fields(asked: Question, binds: Sequence[Bind], mixes: Mixes) -> Iterator[Field]:
    """One for each way to read the rules about single hosts, and each zone that may be the gang's home."""
    ties, lenient = asked.couplings, mixes is lucky_mixes
    weighs = asked.preferences.cross_zone_cost > 0
    keys = tuple(sorted({*(bind.key for bind in binds), *ties.keys, *([ZONE] if weighs else [])}))
    for bounds, rest in _host_rules(asked, lenient=lenient):
        cells = gather(asked, keys, mixes, bounds)
        steps, left = _split(binds, cells, keys)
        rules = (*ties.wide(), *rest, *left, *(ties.follows if lenient else ()))
        ruled = tuple(sorted({rule.key for rule in rules if rule.key in keys}))
        budgets = tuple(max(0, budget.left) for budget in asked.snapshot.budgets)
        limits = Limits(asked.preferences.price_ceiling, budgets, ruled, rules, lenient)
        for home in _homes(cells, keys) if weighs else [""]:
            yield Field(cells, keys, steps, limits, home)


def _host_rules(asked: Question, *, lenient: bool) -> Iterator[tuple[Bounds, tuple[Many, ...]]]:
    """Spreads over hosts: with at least `least` pods counted on each host when it is full, none ever holds more than
    `least + skew`. `lenient`: where there are too many such levels to look at, none is kept.
    """
    evens = [rule for rule in asked.couplings.local() if isinstance(rule, Even)]
    options = [list(_host_levels(asked, rule)) for rule in evens]
    while prod(len(levels) for levels in options) > MAX_LEVELS:
        longest = max(range(len(options)), key=lambda place: len(options[place]))
        options[longest] = [ANY_LEVEL] if lenient else options[longest][: len(options[longest]) // 2]
    for chosen in product(*options):
        bounds, many = {}, []
        for rule, least in zip(evens, chosen, strict=True):
            if least != ANY_LEVEL:
                bounds[rule.role, rule.spread] = least, least + rule.skew
                many.append(Many(rule.role, _nodes_for(rule, least)))
        yield bounds, tuple(rule for rule in many if rule.nodes)


def _host_levels(asked: Question, rule: Even) -> Iterator[int]:
    """How full the emptiest host can be, once all pods are placed."""
    if rule.elsewhere is None:
        yield from range(_fullest(asked, rule) + 1)
        return
    level = 0
    while sum(max(0, level - running) for running in rule.elsewhere.values()) <= asked.demand[rule.role] and level <= MAX_LEVELS:
        yield level
        level += 1


def _fullest(asked: Question, rule: Even) -> int:
    """The most pods that a spread could ever count on one host."""
    wanted, requests = asked.demand[rule.role], needs(asked.pod_sets[rule.role])
    there = [
        asked.neighbours.counted(rule.role, rule.spread, node) + min(wanted, slots(requests, host(node).free))
        for node in asked.snapshot.nodes
    ]
    bought = [min(wanted, slots(requests, new_host(one, ()).free)) for one in asked.snapshot.offerings if one.available > 0]
    return max((*there, *bought), default=0)


def _nodes_for(rule: Even, least: int) -> int:
    """How many nodes must be taken for no host to stay below this level, and for it to count at all (minDomains)."""
    if not least:
        return 0
    if rule.elsewhere is None:
        return rule.min_domains
    return max(rule.min_domains - len(rule.elsewhere), sum(running < least for running in rule.elsewhere.values()))


def _split(binds: Sequence[Bind], cells: Sequence[Cell], keys: tuple[str, ...]) -> tuple[list[Bind], list[Bind]]:
    """Levels to choose one by one, the widest first, and those that would make too many choices."""
    sizes = {bind: len({cell.domains[keys.index(bind.key)] for cell in cells} - {ABSENT, UNKNOWN}) for bind in binds}
    ordered = sorted(binds, key=lambda bind: (-len(bind.roles), sizes[bind], bind.key, sorted(bind.roles)))
    steps: list[Bind] = []
    for bind in ordered:
        if prod(max(1, sizes[one]) for one in (*steps, bind)) <= max(MAX_CHOICES, sizes[ordered[0]]):
            steps.append(bind)
    return steps, [bind for bind in ordered if bind not in steps]


def _homes(cells: Sequence[Cell], keys: tuple[str, ...]) -> list[str]:
    """Every zone that is known; nodes of which it isn't are outside each of them."""
    return sorted({cell.domains[keys.index(ZONE)] for cell in cells} - {ABSENT, UNKNOWN}) or [""]
