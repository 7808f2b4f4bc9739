"""The search for the best plan: ways to keep the topology wishes, domains for each, an integer programme for each set of
domains.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice

from capacity.model import ZONE, Gang, Plan, Preferences, Snapshot
from capacity.programme.choices import Choice, Chosen, Mask, Part, by_room, choices, everywhere
from capacity.programme.couplings import Bind, Rule, unions
from capacity.programme.dominance import thinned
from capacity.programme.drafting import draft
from capacity.programme.fields import MAX_CHOICES, Field, fields
from capacity.programme.mixes import Mixes, largest, lucky_mixes, parts, safe_mixes
from capacity.programme.question import Question, question
from capacity.programme.solver import Column, Pattern, Solution, floor, solve
from capacity.programme.supply import Cell
from capacity.topology import ways

Kind = tuple[tuple[Pattern, ...], int, int, int, tuple[str, ...], tuple[int, ...], tuple[int, ...]]
"""A column but for its limit."""
MAX_WORK = 5_000
"""Patterns in all programmes that are solved for one way to keep the wishes, beyond which the best answer so far will do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found in one set of domains; `key` orders answers, the best first."""

    key: tuple[int, int, int, int, int, Chosen]
    columns: dict[Column, list[Cell]]
    solution: Solution
    domains: Chosen


def search(gang: Gang, snapshot: Snapshot, preferences: Preferences, mixes: Mixes = safe_mixes) -> Plan | None:
    """The best plan, None when there is none. Raises milp.SearchLimitError when neither could be proven."""
    return find(question(gang, snapshot, preferences), mixes)


def find(asked: Question, mixes: Mixes = safe_mixes) -> Plan | None:
    """As `search`, for a question that was asked before."""
    if not asked.roles:
        return Plan(asked.gang, (), (), 0)
    if asked.couplings.impossible:
        return None
    for levels in ways(asked.pod_sets, asked.snapshot.topology_keys, asked.preferences):
        herds = [] if mixes is lucky_mixes else asked.couplings.herds
        binds = list(unions([*levels.binds, *asked.couplings.binds, *herds]))
        best: Answer | None = None
        for field in fields(asked, binds, mixes):
            best = _free(asked, field, best) or _best(asked, field, best)
        if best is not None:
            return draft(asked, best.columns, best.solution, dict(best.domains), binds)
    return None


def by_luck(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Whether a gang that has no plan fits in a lucky order all the same, or may; the pods of one role never compete."""
    asked = question(gang, snapshot, preferences)
    return may_be_lucky(asked) and find(asked, lucky_mixes) is not None


def may_be_lucky(asked: Question) -> bool:
    """Whether a lucky order may reach what no plan can promise."""
    return len(asked.roles) > 1 or bool(asked.couplings.rules or asked.couplings.shy)


def least(asked: Question) -> int:
    """What no plan costs less than, in whatever order pods come; 0 where little is known: each role alone, on any nodes. Safe
    mixes have patterns of one role, with as many pods as it can have there at all.
    """
    if not asked.untied or next(ways(asked.pod_sets, asked.snapshot.topology_keys, asked.preferences)).binds:
        return 0
    field = next(fields(asked, (), safe_mixes))
    return 0 if field.keys else floor(tuple(_columns(asked, field, everywhere(asked.demand, field))), asked.demand)[0]


def _free(asked: Question, field: Field, best: Answer | None) -> Answer | None:
    """As `_best` where each role has a level of its own and all that there is costs nothing, wherever it is: then the smallest
    domains that hold their pods are the best, and no programme needs to choose. None where that is not so, or not found soon.
    """
    rules = [rule for rule in field.limits.rules if isinstance(rule, Bind)]
    levels, roles = [*field.steps, *rules], list(range(len(asked.roles)))
    if best is not None or field.home or not rules or len(rules) < len(field.limits.rules) or len(levels) != len(roles):
        return None
    if sorted(role for level in levels for role in level.roles) != roles or any(cell.price or cell.rank for cell in field.cells):
        return None
    whole, memo = replace(field, limits=replace(field.limits, keys=(), rules=())), dict[tuple[Column, ...], Solution | None]()
    for choice in islice(by_room(asked.demand, whole, levels), MAX_CHOICES):
        if best is not None and best.key[2] < choice.room:
            break
        answer = _answer(asked, whole, choice, memo, best)
        if answer is not None and (best is None or answer.key < best.key):
            best = answer
    return best


def _best(asked: Question, field: Field, best: Answer | None) -> Answer | None:
    """The smallest sets of domains come first, and the search ends where no later one can be better, or with a gap."""
    memo: dict[tuple[Column, ...], Solution | None] = {}  # sets of domains that look alike share one solution
    for choice in sorted(choices(asked.demand, field), key=lambda choice: (choice.room, choice.domains)):
        if best is not None and best.key[:3] < (0, 0, choice.room):
            break
        if best is not None and sum(len(column.patterns) for key in memo for column in key) > MAX_WORK:
            return _cut_off(asked, field, best)
        answer = _answer(asked, field, choice, memo, best)
        if answer is not None and (best is None or answer.key < best.key):
            best = answer
    return best


def _cut_off(asked: Question, field: Field, best: Answer) -> Answer:
    """The best so far; no set of domains has a price below what all nodes together allow."""
    least, _ = floor(tuple(_columns(asked, field, everywhere(asked.demand, field))), asked.demand)
    return replace(best, solution=replace(best.solution, gap=max(best.solution.gap, best.key[0] - least)))


def _answer(
    asked: Question, field: Field, choice: Choice, memo: dict[tuple[Column, ...], Solution | None], best: Answer | None
) -> Answer | None:
    columns = _columns(asked, field, choice.parts())
    key = tuple(columns)
    if key not in memo:
        if best is not None and best.key[:3] < (*floor(key, asked.demand), choice.room):
            return None
        memo[key] = solve(key, asked.demand, field.limits)
    solution = memo[key]
    if solution is None:
        return None
    price, rank, slots, nodes = solution.cost
    return Answer((price, rank, choice.room, slots, nodes, choice.domains), columns, solution, choice.domains)


def _columns(asked: Question, field: Field, parts: Sequence[Part]) -> dict[Column, list[Cell]]:
    """Columns in a fixed order, each with its cells; no answer takes more than one node for each pod."""
    places = [field.keys.index(key) for key in field.limits.keys]
    zone = field.keys.index(ZONE) if field.home else 0
    tied = _tied(asked, field)
    alike: dict[Kind, list[Cell]] = {}
    for cell, mask in parts:
        patterns = _masked(cell.patterns, mask, tied)
        if patterns:
            away = asked.preferences.cross_zone_cost if field.home and cell.domains[zone] != field.home else 0
            where = tuple([cell.domains[place] for place in places])
            key = (patterns, cell.price, cell.rank, away, where, cell.counted, cell.weights)
            alike.setdefault(key, []).append(cell)
    most = sum(asked.demand)
    found = {_column(key, min(most, sum([cell.limit for cell in cells]))): cells for key, cells in alike.items()}
    return {column: found[column] for column in sorted(_needed(found, most, field.limits.rules))}


def _tied(asked: Question, field: Field) -> tuple[int, ...]:
    """The roles that a node may have to be taken without, for it is in the wrong domain for some of its pattern."""
    roles = len(asked.roles)
    bound = [rule.roles for rule in field.limits.rules if isinstance(rule, Bind) and len(rule.roles) < roles]
    return tuple(sorted({*asked.couplings.tied(), *chain(*bound)})) if roles > 1 else ()


def _column(key: Kind, limit: int) -> Column:
    patterns, price, rank, away, where, counted, weights = key
    return Column(patterns, price, rank, limit, away, where, counted, weights)


def _needed(columns: Collection[Column], most: int, rules: Sequence[Rule | Bind]) -> Iterable[Column]:
    """Rules other than levels look at which nodes are taken, so that less there may be better."""
    return columns if any(not isinstance(rule, Bind) for rule in rules) else thinned(columns, most, alike=bool(rules))


@lru_cache(maxsize=4096)
def _masked(patterns: tuple[Pattern, ...], mask: Mask, tied: tuple[int, ...]) -> tuple[Pattern, ...]:
    if not all(mask):
        patterns = largest(tuple(count if good else 0 for count, good in zip(pattern, mask, strict=True)) for pattern in patterns)
    return parts(patterns, tied) if tied else patterns
