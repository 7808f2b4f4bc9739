"""How many nodes of each kind to take, and what each holds: a small integer programme over patterns, solved exactly.

A column is a kind of node that can be had up to `limit` times; a pattern is how many pods of each role one such node is to hold.
The answer minimises, in this order: price, rank in the policy's capacity order, slots taken out of what is free, number of nodes.
One role on nodes of one size is answered by sorting; all else goes to the MILP solver.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import lcm

from capacity.programme.couplings import Bind, Rule
from capacity.programme.milp import Programme, Terms
from capacity.programme.rules import Variables, tie

Pattern = tuple[int, ...]
Cost = tuple[int, int, int, int]  # micro-dollars an hour, ranks, slots, nodes
Count = tuple[int, int, int]  # column, pattern of the column, nodes


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A kind of node: the `patterns` that it may hold, each as long as the demand, and how many (`limit`) there are.

    `penalty` is added to the price where answers are compared, in micro-dollars an hour. `where` are its domains of the rules'
    keys (rules.ABSENT and rules.UNKNOWN among them), `counted` the running pods that each spread counts on such a node, `weights`
    what one takes of each shared limit.
    """

    patterns: tuple[Pattern, ...]
    price: int
    rank: int
    limit: int
    penalty: int = 0
    where: tuple[str, ...] = ()
    counted: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()

    @property
    def weight(self) -> int:
        """Slots that one such node takes out of what is free, over all roles."""
        return _weight(self.patterns)


@lru_cache(maxsize=4096)
def _weight(patterns: tuple[Pattern, ...]) -> int:
    return sum(map(max, zip(*patterns, strict=True)))


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer must keep besides the demand: a ceiling on the price, shared limits, and the rules among domains of `keys`.

    `lenient`: what only a launch will tell counts as fine, for proofs that nothing fits.
    """

    ceiling: int | None = None
    budgets: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    rules: tuple[Rule | Bind, ...] = ()
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Solution:
    """`gap`: by how much a better price may exist at most, in micro-dollars an hour."""

    counts: tuple[Count, ...]
    cost: Cost
    gap: int = 0


ANY = Limits()


def solve(columns: Sequence[Column], demand: Sequence[int], limits: Limits = ANY) -> Solution | None:
    """The best way to cover `demand` (pods of each role), None when there is none.

    Raises milp.SearchLimitError when the search had to be cut off before it could tell.
    """
    if not _enough(columns, demand):
        return None
    plain = not limits.rules and not any(column.penalty or any(column.weights) for column in columns)
    if plain and len(demand) == 1 and len({column.patterns for column in columns}) == 1:
        return _by_sorting(columns, demand[0], limits.ceiling)
    return _by_programme(columns, demand, limits)


def floor(columns: Sequence[Column], demand: Sequence[int]) -> tuple[int, int]:
    """Price and ranks that no answer is below: each role alone, on parts of nodes, the cheapest slots first."""
    prices = [[(column.price + column.penalty, column) for column in columns], [(column.rank, column) for column in columns]]
    least = [max(_least(priced, index, wanted) for index, wanted in enumerate(demand)) for priced in prices]
    return least[0], least[1]


def _least(priced: Sequence[tuple[int, Column]], index: int, wanted: int) -> int:
    """In whole parts of a node, of which a slot is always a number."""
    offers = [(price, most, column.limit) for price, column in priced if (most := max([p[index] for p in column.patterns]))]
    parts = lcm(*{slots for _, slots, _ in offers})
    total, left = 0, wanted
    for each, slots, limit in sorted([(price * (parts // slots), slots, limit) for price, slots, limit in offers]):
        if left <= 0:
            break
        taken = min(left, slots * limit)
        total += each * taken
        left -= taken
    return -(-total // parts)


def _enough(columns: Sequence[Column], demand: Sequence[int]) -> bool:
    """Whether each role alone would be covered: a bound that settles most hopeless cases at once."""
    return all(
        sum(column.limit * max(pattern[index] for pattern in column.patterns) for column in columns) >= wanted
        for index, wanted in enumerate(demand)
    )


def _by_sorting(columns: Sequence[Column], demand: int, ceiling: int | None) -> Solution | None:
    """Nodes of one size: the demand fixes how many, so the best are the cheapest."""
    left = -(-demand // columns[0].patterns[0][0])
    counts: list[Count] = []
    for index, column in sorted(enumerate(columns), key=lambda item: (item[1].price, item[1].rank, item[0])):
        taken = min(left, column.limit)
        if taken:
            counts.append((index, 0, taken))
            left -= taken
    solution = _solution(columns, counts, 0)
    return solution if ceiling is None or solution.cost[0] <= ceiling else None


def _solution(columns: Sequence[Column], counts: Sequence[Count], gap: int) -> Solution:
    picked = [(columns[index], count) for index, _, count in counts]
    cost = (
        sum((column.price + column.penalty) * count for column, count in picked),
        sum(column.rank * count for column, count in picked),
        sum(column.weight * count for column, count in picked),
        sum(count for _, count in picked),
    )
    return Solution(tuple(sorted(counts)), cost, gap)


def _by_programme(columns: Sequence[Column], demand: Sequence[int], limits: Limits) -> Solution | None:
    programme = Programme()
    pairs = [(index, number) for index, column in enumerate(columns) for number in range(len(column.patterns))]
    for index, _ in pairs:
        programme.variable(columns[index].limit)
    variables = Variables(columns, pairs, limits.keys)
    for role, wanted in enumerate(demand):
        programme.least(variables.slots(role), wanted)
    _limit(programme, columns, pairs, limits)
    for rule in limits.rules:
        tie(programme, variables, rule, demand, limits)
    found = programme.minimise(_objectives(columns, pairs, sum(demand)))
    if found is None:
        return None
    counts = [(*pair, count) for pair, count in zip(pairs, found.x[: len(pairs)], strict=True) if count]
    return _solution(columns, counts, found.gap)


def _limit(programme: Programme, columns: Sequence[Column], pairs: Sequence[tuple[int, int]], limits: Limits) -> None:
    for index, group in groupby(range(len(pairs)), key=lambda j: pairs[j][0]):
        if len(columns[index].patterns) > 1:
            programme.most(dict.fromkeys(group, 1), columns[index].limit)
    if limits.ceiling is not None:
        programme.most({j: columns[i].price for j, (i, _) in enumerate(pairs)}, limits.ceiling)
    for number, left in enumerate(limits.budgets):
        programme.most({j: columns[i].weights[number] for j, (i, _) in enumerate(pairs) if columns[i].weights}, left)


def _objectives(columns: Sequence[Column], pairs: Sequence[tuple[int, int]], most: int) -> list[Terms]:
    """Price, ranks, then slots and nodes in one: no useful answer has more nodes than pods, so `most + 1` keeps the two apart."""
    prices = {j: columns[i].price + columns[i].penalty for j, (i, _) in enumerate(pairs)}
    ranks = {j: columns[i].rank for j, (i, _) in enumerate(pairs)}
    slots = {j: columns[i].weight * (most + 1) + 1 for j, (i, _) in enumerate(pairs)}
    return [*(one for one in (prices, ranks) if any(one.values())), slots]
