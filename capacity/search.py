"""The search for the best plan: ways to keep the topology wishes, domains for each, an integer programme for each set of
domains.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, product
from math import prod

from capacity.couplings import Bind, Even, Many, unions
from capacity.fit import new_host
from capacity.judge import Bounds, Judge
from capacity.mixes import Mixes, covers, lucky_mixes, safe_mixes
from capacity.model import ZONE, Gang, Node, Offering, Plan, Preferences, Purchase, Snapshot, Use
from capacity.place import Placer, Unit, trim, units
from capacity.question import Question, question
from capacity.roles import Role
from capacity.rules import ABSENT, UNKNOWN
from capacity.solver import Column, Limits, Pattern, Solution, floor, solve
from capacity.supply import Cell, Member, gather
from capacity.topology import Levels, ways

MAX_CHOICES = 2_000
"""Sets of domains that are looked at one by one; levels beyond that are left to the integer programme."""

Mask = tuple[bool, ...]
Part = tuple[Cell, Mask]  # a cell, and the roles that may go there
Chosen = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A domain for each level in use. `inside` holds the parts in the domain chosen last, `others` all parts of roles that it
    leaves free; `room` is how many pods the chosen domains could hold: what stays larger stays whole for others.
    """

    inside: list[Part]
    others: list[Part]
    room: int
    domains: Chosen

    def parts(self) -> list[Part]:
        if not self.others:
            return self.inside
        known = {id(cell) for cell, _ in self.inside}
        return self.inside + [part for part in self.others if id(part[0]) not in known]


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
        binds = list(unions([*levels.binds, *asked.couplings.binds]))
        best: Answer | None = None
        for field in _fields(asked, binds, mixes):
            best = _best(asked, field, best)
        if best is not None:
            return _plan(asked, best, binds)
    return None


def by_luck(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Whether a gang that has no plan fits in a lucky order all the same, or may; the pods of one role never compete."""
    asked = question(gang, snapshot, preferences)
    return may_be_lucky(asked) and find(asked, lucky_mixes) is not None


def may_be_lucky(asked: Question) -> bool:
    """Whether a lucky order may reach what no plan can promise."""
    return len(asked.roles) > 1 or bool(asked.couplings.rules)


def widened(asked: Question, plan: Plan) -> Iterator[Plan]:
    """The same nodes marked for more: a role with more nodes to go to is harder to keep out, though it gets in the way of others.

    Only where nothing ties roles to domains. The nodes are let to all roles that can be there, then to one role at a time.
    """
    if asked.couplings.rules or asked.couplings.binds or any(one.binds for one in _required(asked)):
        return
    everyone = range(len(asked.roles))
    for chosen in (everyone, *([role] for role in everyone)):
        judge = Judge(asked, lucky_mixes, {})
        uses = tuple(replace(use, pods=_more(asked, judge.node(use.node)[0], use.pods, chosen)) for use in plan.uses)
        hosts = [judge.host(new_host(one.offering, asked.snapshot.topology_keys)) for one in plan.purchases]
        purchases = tuple(
            replace(one, pods=_more(asked, patterns, one.pods, chosen))
            for one, patterns in zip(plan.purchases, hosts, strict=True)
        )
        yield replace(plan, uses=uses, purchases=purchases)


def _more(asked: Question, patterns: Sequence[Pattern], pods: Mapping[str, int], chosen: Sequence[int]) -> dict[str, int]:
    most = [max(held) for held in zip(*patterns, strict=True)]
    return {**pods, **_pods(asked.roles, tuple(count if role in chosen else 0 for role, count in enumerate(most)))}


def _required(asked: Question) -> list[Levels]:
    return list(ways(asked.pod_sets, asked.snapshot.topology_keys, asked.preferences))


# --- fields ---------------------------------------------------------------------------------------------------------------


def _fields(asked: Question, binds: Sequence[Bind], mixes: Mixes) -> Iterator[Field]:
    """One for each way to read the rules about single hosts, and each zone that may be the gang's home."""
    ties, lenient = asked.couplings, mixes is lucky_mixes
    weighs = asked.preferences.cross_zone_cost > 0
    keys = tuple(sorted({*(bind.key for bind in binds), *ties.keys, *([ZONE] if weighs else [])}))
    for bounds, rest in _host_rules(asked):
        cells = gather(asked, keys, mixes, bounds)
        steps, left = _split(binds, cells, keys)
        rules = (*ties.wide(), *rest, *left)
        ruled = tuple(sorted({rule.key for rule in rules} - {""}))
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


MAX_HOST_PODS = 16
"""Pods of one role on a host beyond which an even spread over hosts isn't looked for."""


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


# --- choices --------------------------------------------------------------------------------------------------------------


def _best(asked: Question, field: Field, best: Answer | None) -> Answer | None:
    """The smallest sets of domains come first, and the search ends where no later one can be better."""
    memo: dict[tuple[Column, ...], Solution | None] = {}  # sets of domains that look alike share one solution
    for choice in sorted(choices(asked.demand, field), key=lambda choice: (choice.room, choice.domains)):
        if best is not None and best.key[:3] < (0, 0, choice.room):
            break
        answer = _answer(asked, field, choice, memo, best)
        if answer is not None and (best is None or answer.key < best.key):
            best = answer
    return best


def choices(demand: Pattern, field: Field) -> Iterator[Choice]:
    """Each choice of one domain for each step, without those that can't hold the pods by count alone."""
    everywhere = (True,) * len(demand)
    start = [(cell, everywhere) for cell in field.cells]
    steps = [(field.keys.index(bind.key), bind.key, tuple(i in bind.roles for i in range(len(demand)))) for bind in field.steps]
    if _rooms(demand, start, everywhere) is not None:
        yield from _choose(demand, Choice(start, [], 0, ()), steps)


def _choose(demand: Pattern, choice: Choice, steps: Sequence[tuple[int, str, Mask]]) -> Iterator[Choice]:
    if not steps:
        yield choice
        return
    (index, key, bound), *rest = steps
    parts = choice.parts()
    others = [(cell, mask) for cell, old in parts if any(mask := tuple(m and not b for m, b in zip(old, bound, strict=True)))]
    for value, inside in sorted(_by_domain(parts, index).items()):
        room = _rooms(demand, inside, bound)
        if room is not None:
            yield from _choose(demand, Choice(inside, others, choice.room + room, (*choice.domains, (key, value))), rest)


def _by_domain(parts: Sequence[Part], index: int) -> dict[str, list[Part]]:
    domains: dict[str, list[Part]] = {}
    for part in parts:
        value = part[0].domains[index]
        if value not in (ABSENT, UNKNOWN):
            domains.setdefault(value, []).append(part)
    return domains


def _rooms(demand: Pattern, parts: Sequence[Part], wanted: Mask) -> int | None:
    """Slots over all wanted roles, each as if it had the place to itself; None when one of them has too few even so."""
    total = 0
    for index, count in enumerate(demand):
        if wanted[index]:
            room = sum([cell.limit * max([p[index] for p in cell.patterns]) for cell, mask in parts if mask[index]])
            if room < count:
                return None
            total += room
    return total


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
    alike: dict[Column, list[Cell]] = {}
    for cell, mask in parts:
        patterns = _masked(cell.patterns, mask)
        if patterns:
            away = asked.preferences.cross_zone_cost if field.home and cell.domains[zone] != field.home else 0
            where = tuple([cell.domains[place] for place in places])
            column = Column(patterns, cell.price, cell.rank, 0, away, where, cell.counted, cell.weights)
            alike.setdefault(column, []).append(cell)
    most = sum(asked.demand)
    return {
        replace(column, limit=min(most, sum(cell.limit for cell in alike[column]))): alike[column] for column in sorted(alike)
    }


@lru_cache(maxsize=4096)
def _masked(patterns: tuple[Pattern, ...], mask: Mask) -> tuple[Pattern, ...]:
    if all(mask):
        return patterns
    cut = {tuple(count if good else 0 for count, good in zip(pattern, mask, strict=True)) for pattern in patterns}
    return tuple(sorted((p for p in cut if any(p) and not any(p != q and covers(q, p) for q in cut)), reverse=True))


# --- plans ----------------------------------------------------------------------------------------------------------------


def _plan(asked: Question, answer: Answer, binds: Sequence[Bind]) -> Plan:
    placer = Placer(asked.snapshot.topology_keys)
    found: list[Unit] = []
    cells = list(answer.columns.items())
    for index, group in groupby(answer.solution.counts, key=lambda count: count[0]):
        column, members = cells[index][0], _members(cells[index][1])
        patterns = [(column.patterns[number], count) for _, number, count in group]
        found += units(placer.take(members, sum(count for _, count in patterns)), patterns)
    tied = frozenset(role for rule in asked.couplings.rules for role in _concerned(rule))
    kept = trim(found, asked.demand, tied)
    cost = sum(unit.subject.price for unit in kept)
    domains = dict(answer.domains) | {
        bind.key: value for bind in binds if bind.key not in dict(answer.domains) and (value := _value(kept, bind))
    }
    return Plan(asked.gang, tuple(_uses(asked, kept)), tuple(_purchases(asked, kept)), cost, domains, gap=answer.solution.gap)


def _concerned(rule: object) -> tuple[int, ...]:
    return tuple(getattr(rule, name) for name in ("role", "one", "other") if hasattr(rule, name))


def _value(kept: Sequence[Unit], bind: Bind) -> str:
    """The domain of a level that the programme chose."""
    for unit in kept:
        if any(unit.pattern[role] for role in bind.roles):
            subject = unit.subject
            labels = subject.labels if isinstance(subject, Node) else {**subject.shape.labels, **subject.domain}
            return labels.get(bind.key, "")
    return ""


def _members(cells: Sequence[Cell]) -> list[Member]:
    return [member for cell in cells for member in cell.members]


def _pods(roles: Sequence[Role], pattern: Pattern) -> dict[str, int]:
    """For each pod set what a node is good for; pod sets of one role share the node's slots."""
    pairs = [(role, count) for role, count in zip(roles, pattern, strict=True) if count]
    return {member.name: min(member.count, count) for role, count in pairs for member in role.members}


def _uses(asked: Question, found: Sequence[Unit]) -> Iterator[Use]:
    nodes = [(unit.subject, unit.pattern) for unit in found if isinstance(unit.subject, Node)]
    for node, pattern in sorted(nodes, key=lambda one: one[0].name):
        yield Use(node, _pods(asked.roles, pattern))


def _purchases(asked: Question, found: Sequence[Unit]) -> Iterator[Purchase]:
    counts: dict[tuple[str, Pattern], tuple[Offering, int]] = {}
    for unit in found:
        if isinstance(unit.subject, Offering):
            key = (unit.subject.name, unit.pattern)
            counts[key] = unit.subject, counts.get(key, (unit.subject, 0))[1] + 1
    for _, pattern in sorted(counts):
        offering, count = counts[_, pattern]
        yield Purchase(offering, count, _pods(asked.roles, pattern))
