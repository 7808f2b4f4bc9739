"""What one way of meeting the topology wishes is searched in: cells, the levels chosen one by one, and the limits kept by all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from capacity.couplings import Bind, Even, Many
from capacity.judge import Bounds
from capacity.mixes import Mixes, lucky_mixes
from capacity.model import ZONE
from capacity.question import Question
from capacity.rules import ABSENT, UNKNOWN
from capacity.solver import Limits
from capacity.supply import Cell, gather

MAX_CHOICES = 2_000
"""Sets of domains that are looked at one by one; levels beyond that are left to the integer programme."""
MAX_HOST_PODS = 16
"""Pods of one role on a host beyond which an even spread over hosts isn't looked for."""


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
    for bounds, rest in _host_rules(asked):
        cells = gather(asked, keys, mixes, bounds)
        steps, left = _split(binds, cells, keys)
        rules = (*ties.wide(), *rest, *left, *(ties.follows if lenient else ()))
        ruled = tuple(sorted({rule.key for rule in rules if rule.key in keys}))
        budgets = tuple(budget.left for budget in asked.snapshot.budgets)
        limits = Limits(asked.preferences.price_ceiling, budgets, ruled, rules, lenient)
        for home in _homes(cells, keys) if weighs else [""]:
            yield Field(cells, keys, steps, limits, home)


def _host_rules(asked: Question) -> Iterator[tuple[Bounds, tuple[Many, ...]]]:
    """Spreads over hosts: with at least `least` slots on each host taken, none ever holds more than `least + skew`."""
    evens = [rule for rule in asked.couplings.local() if isinstance(rule, Even)]
    options = [list(_host_bounds(asked, rule)) for rule in evens]
    for chosen in product(*options):
        bounds: dict[int, tuple[int, int]] = {}
        for rule, (least, most) in zip(evens, chosen, strict=True):
            low, high = bounds.get(rule.role, (0, most))
            bounds[rule.role] = max(low, least), min(high, most)
        yield bounds, tuple(Many(rule.role, rule.min_domains) for rule, (least, _) in zip(evens, chosen, strict=True) if least)


def _host_bounds(asked: Question, rule: Even) -> Iterator[tuple[int, int]]:
    if rule.elsewhere is not None:
        least = min(rule.elsewhere.values(), default=0) if len(rule.elsewhere) >= rule.min_domains else 0
        yield 0, least + rule.skew
        return
    wanted = asked.demand[rule.role]
    yield 0, rule.skew
    yield from ((least, least + rule.skew) for least in range(1, min(wanted, MAX_HOST_PODS) + 1))


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
    return sorted({cell.domains[keys.index(ZONE)] for cell in cells})
