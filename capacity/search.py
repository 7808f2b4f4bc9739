"""The search for the best plan: ways to keep the topology wishes, domains for each, an integer programme for each set of
domains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from capacity.model import Gang, Node, Offering, Plan, PodSet, Preferences, Purchase, Snapshot, Use
from capacity.place import Placer, Unit, trim, units
from capacity.solver import Column, Pattern, Solution, floor, solve
from capacity.supply import Cell, Member, Mixes, covers, gather, lucky_mixes, safe_mixes
from capacity.topology import Levels, ways

Mask = tuple[bool, ...]
Part = tuple[Cell, Mask]  # a cell, and the pod sets that may go there
Chosen = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A gang without its empty pod sets, and what it is planned against."""

    gang: Gang
    pod_sets: tuple[PodSet, ...]
    snapshot: Snapshot
    preferences: Preferences

    @property
    def demand(self) -> Pattern:
        return tuple(pod_set.count for pod_set in self.pod_sets)


@dataclass(frozen=True, slots=True)
class Choice:
    """A domain for each key in use. `inside` holds the parts in the domain chosen last, `others` all parts of pod sets that
    it leaves free; `room` is how many pods the chosen domains could hold: what stays larger stays whole for others.
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
class Answer:
    """What was found in one set of domains; `key` orders answers, the best first."""

    key: tuple[int, int, int, int, int, Chosen]
    columns: dict[Column, list[Cell]]
    solution: Solution
    domains: Chosen


def question(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Question:
    return Question(gang, tuple(pod_set for pod_set in gang.pod_sets if pod_set.count > 0), snapshot, preferences)


def search(gang: Gang, snapshot: Snapshot, preferences: Preferences, mixes: Mixes = safe_mixes) -> Plan | None:
    """The best plan, None when there is none. Raises solver.SearchLimitError when neither could be proven."""
    asked = question(gang, snapshot, preferences)
    if not asked.pod_sets:
        return Plan(gang, (), (), 0)
    levels = list(ways(asked.pod_sets, snapshot.topology_keys, preferences))
    keys = tuple(sorted({key for one in levels for key in one.used()}))
    cells = gather(gang, asked.pod_sets, snapshot, preferences, keys, mixes)
    for one in levels:
        best = _best(asked, cells, keys, one)
        if best is not None:
            return _plan(asked, best)
    return None


def by_luck(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Whether a gang that has no plan fits in a lucky order all the same, or may; the pods of one pod set never compete."""
    several = sum(1 for pod_set in gang.pod_sets if pod_set.count > 0) > 1
    return several and search(gang, snapshot, preferences, lucky_mixes) is not None


def _best(asked: Question, cells: Sequence[Cell], keys: tuple[str, ...], levels: Levels) -> Answer | None:
    """The smallest sets of domains come first, and the search ends where no later one can be better."""
    memo: dict[tuple[Column, ...], Solution | None] = {}  # sets of domains that look alike share one solution
    best: Answer | None = None
    for choice in sorted(choices(asked, cells, keys, levels), key=lambda choice: (choice.room, choice.domains)):
        if best is not None and best.key[:3] < (0, 0, choice.room):
            break
        answer = _answer(asked, choice, memo, best)
        if answer is not None and (best is None or answer.key < best.key):
            best = answer
    return best


def choices(asked: Question, cells: Sequence[Cell], keys: tuple[str, ...], levels: Levels) -> Iterator[Choice]:
    """Each choice of one domain for each key in use, the widest first, without those that can't hold the pods by count alone."""
    everywhere = (True,) * len(asked.pod_sets)
    start = [(cell, everywhere) for cell in cells]
    steps = [
        (keys.index(key), key, tuple(key in one for one in levels.keys))
        for key in sorted(levels.used(), key=lambda key: _place(key, levels))
    ]
    if _rooms(asked.demand, start, everywhere) is not None:
        yield from _choose(asked.demand, Choice(start, [], 0, ()), steps)


def _place(key: str, levels: Levels) -> tuple[int, str]:
    """A key that stands behind a wider one for some pod set is looked at later."""
    return max(one.index(key) for one in levels.keys if key in one), key


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
        if value is not None:
            domains.setdefault(value, []).append(part)
    return domains


def _rooms(demand: Pattern, parts: Sequence[Part], wanted: Mask) -> int | None:
    """Slots over all wanted pod sets, each as if it had the place to itself; None when one of them has too few even so."""
    total = 0
    for index, count in enumerate(demand):
        if wanted[index]:
            room = sum([cell.limit * max([p[index] for p in cell.patterns]) for cell, mask in parts if mask[index]])
            if room < count:
                return None
            total += room
    return total


def _answer(
    asked: Question, choice: Choice, memo: dict[tuple[Column, ...], Solution | None], best: Answer | None
) -> Answer | None:
    columns = _columns(choice.parts(), sum(asked.demand))
    key = tuple(columns)
    if key not in memo:
        if best is not None and best.key[:3] < (*floor(key, asked.demand), choice.room):
            return None
        memo[key] = solve(key, asked.demand, asked.preferences.price_ceiling)
    solution = memo[key]
    if solution is None:
        return None
    price, rank, slots, nodes = solution.cost
    return Answer((price, rank, choice.room, slots, nodes, choice.domains), columns, solution, choice.domains)


def _columns(parts: Sequence[Part], most: int) -> dict[Column, list[Cell]]:
    """Cells that are alike once the domains are chosen, as columns: no answer needs more than `most` nodes of one."""
    alike: dict[tuple[tuple[Pattern, ...], int, int], list[Cell]] = {}
    for cell, mask in parts:
        patterns = _masked(cell.patterns, mask)
        if patterns:
            alike.setdefault((patterns, cell.price, cell.rank), []).append(cell)
    return {
        Column(patterns, price, rank, min(most, sum(cell.limit for cell in alike[patterns, price, rank]))): alike[
            patterns, price, rank
        ]
        for patterns, price, rank in sorted(alike)
    }


@lru_cache(maxsize=4096)
def _masked(patterns: tuple[Pattern, ...], mask: Mask) -> tuple[Pattern, ...]:
    if all(mask):
        return patterns
    cut = {tuple(count if good else 0 for count, good in zip(pattern, mask, strict=True)) for pattern in patterns}
    return tuple(sorted((p for p in cut if any(p) and not any(p != q and covers(q, p) for q in cut)), reverse=True))


def _plan(asked: Question, answer: Answer) -> Plan:
    placer = Placer(asked.snapshot.topology_keys)
    found: list[Unit] = []
    cells = list(answer.columns.items())
    for index, group in groupby(answer.solution.counts, key=lambda count: count[0]):
        column, members = cells[index][0], _members(cells[index][1])
        patterns = [(column.patterns[number], count) for _, number, count in group]
        found += units(placer.take(members, sum(count for _, count in patterns)), patterns)
    kept = trim(found, asked.demand)
    cost = sum(unit.subject.price for unit in kept)
    return Plan(asked.gang, tuple(_uses(asked, kept)), tuple(_purchases(asked, kept)), cost, dict(answer.domains))


def _members(cells: Sequence[Cell]) -> list[Member]:
    return [member for cell in cells for member in cell.members]


def _pods(asked: Question, pattern: Pattern) -> dict[str, int]:
    return {pod_set.name: count for pod_set, count in zip(asked.pod_sets, pattern, strict=True) if count}


def _uses(asked: Question, found: Sequence[Unit]) -> Iterator[Use]:
    nodes = [(unit.subject, unit.pattern) for unit in found if isinstance(unit.subject, Node)]
    for node, pattern in sorted(nodes, key=lambda one: one[0].name):
        yield Use(node, _pods(asked, pattern))


def _purchases(asked: Question, found: Sequence[Unit]) -> Iterator[Purchase]:
    counts: dict[tuple[str, Pattern], tuple[Offering, int]] = {}
    for unit in found:
        if isinstance(unit.subject, Offering):
            key = (unit.subject.name, unit.pattern)
            counts[key] = unit.subject, counts.get(key, (unit.subject, 0))[1] + 1
    for _, pattern in sorted(counts):
        offering, count = counts[_, pattern]
        yield Purchase(offering, count, _pods(asked, pattern))
