"""How many nodes of each kind to take, and what each holds: a small integer programme over patterns, solved exactly.

A column is a kind of node that can be had up to `limit` times; a pattern is how many pods of each pod set one such node is to
hold. The answer minimises, in this order: price, rank in the policy's capacity order, slots taken out of what is free, number
of nodes. One pod set on nodes of one size is answered by sorting; all else goes to HiGHS, one thread, one seed, bounded by
branch-and-bound nodes and not by time, so that the same question always has the same answer. What HiGHS returns is rounded
and checked in integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from math import ceil, gcd
from typing import Any

Pattern = tuple[int, ...]
Cost = tuple[int, int, int, int]  # micro-dollars an hour, ranks, slots, nodes
Count = tuple[int, int, int]  # column, pattern of the column, nodes

MAX_BRANCHES = 20_000


class SearchLimitError(Exception):
    """The search was cut off, or its answer not exact: whether a plan exists is not known."""


@dataclass(frozen=True, slots=True, order=True)
class Column:
    """A kind of node: the `patterns` that it may hold, each as long as the demand, and how many (`limit`) there are."""

    patterns: tuple[Pattern, ...]
    price: int
    rank: int
    limit: int

    @property
    def weight(self) -> int:
        """Slots that one such node takes out of what is free, over all pod sets."""
        return sum(map(max, zip(*self.patterns, strict=True)))


@dataclass(frozen=True, slots=True)
class Solution:
    counts: tuple[Count, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class _Row:
    """`sum(coefficients[i] * x[i]) <= bound`, or `>=` when `least`."""

    coefficients: dict[int, int]
    bound: int
    least: bool = False

    def holds(self, x: Sequence[int]) -> bool:
        total = sum(factor * x[index] for index, factor in self.coefficients.items())
        return total >= self.bound if self.least else total <= self.bound


def solve(columns: Sequence[Column], demand: Sequence[int], ceiling: int | None = None) -> Solution | None:
    """The best way to cover `demand` (pods of each pod set) at no more than `ceiling` micro-dollars an hour, None when there
    is none.

    Raises SearchLimitError when the search had to be cut off before it could tell.
    """
    if not _enough(columns, demand):
        return None
    if len(demand) == 1 and len({column.patterns for column in columns}) == 1:
        return _by_sorting(columns, demand[0], ceiling)
    return _by_stages(columns, demand, ceiling)


def floor(columns: Sequence[Column], demand: Sequence[int]) -> tuple[int, int]:
    """Price and ranks that no answer is below: each pod set alone, on parts of nodes, the cheapest slots first."""
    prices = [[(column.price, column) for column in columns], [(column.rank, column) for column in columns]]
    least = [max(_least(priced, index, wanted) for index, wanted in enumerate(demand)) for priced in prices]
    return least[0], least[1]


def _least(priced: Sequence[tuple[int, Column]], index: int, wanted: int) -> int:
    offers = [(price, max(p[index] for p in column.patterns), column.limit) for price, column in priced]
    total, left = Fraction(0), wanted
    for price, slots, limit in sorted((o for o in offers if o[1]), key=lambda o: Fraction(o[0], o[1])):
        taken = min(left, slots * limit)
        total += Fraction(price * taken, slots)
        left -= taken
    return ceil(total)


def _enough(columns: Sequence[Column], demand: Sequence[int]) -> bool:
    """Whether each pod set alone would be covered: a bound that settles most hopeless cases at once."""
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
    solution = _solution(columns, counts)
    return solution if ceiling is None or solution.cost[0] <= ceiling else None


def _solution(columns: Sequence[Column], counts: Sequence[Count]) -> Solution:
    picked = [(columns[index], count) for index, _, count in counts]
    cost = (
        sum(column.price * count for column, count in picked),
        sum(column.rank * count for column, count in picked),
        sum(column.weight * count for column, count in picked),
        sum(count for _, count in picked),
    )
    return Solution(tuple(sorted(counts)), cost)


def _by_stages(columns: Sequence[Column], demand: Sequence[int], ceiling: int | None) -> Solution | None:
    """One objective after the other, each held fast while the next is minimised."""
    pairs = [(index, number) for index, column in enumerate(columns) for number in range(len(column.patterns))]
    upper = [columns[index].limit for index, _ in pairs]
    rows = _rows(columns, pairs, demand, ceiling)
    best: list[int] | None = None
    for objective in _objectives(columns, pairs, sum(demand)):
        try:
            found = _minimise(objective, upper, rows)
        except SearchLimitError:
            if best is None:
                raise
            break
        if found is None:
            break
        best = found
        rows.append(_Row({i: f for i, f in enumerate(objective) if f}, sum(f * x for f, x in zip(objective, best, strict=True))))
    if best is None:
        return None
    return _solution(columns, [(*pair, count) for pair, count in zip(pairs, best, strict=True) if count])


def _rows(columns: Sequence[Column], pairs: Sequence[tuple[int, int]], demand: Sequence[int], ceiling: int | None) -> list[_Row]:
    cover = [
        _Row({j: columns[i].patterns[p][s] for j, (i, p) in enumerate(pairs) if columns[i].patterns[p][s]}, wanted, least=True)
        for s, wanted in enumerate(demand)
    ]
    limits = [
        _Row({j: 1 for j, (i, _) in enumerate(pairs) if i == index}, column.limit)
        for index, column in enumerate(columns)
        if len(column.patterns) > 1
    ]
    prices = {j: columns[i].price for j, (i, _) in enumerate(pairs) if columns[i].price}
    return cover + limits + ([_Row(prices, ceiling)] if ceiling is not None and prices else [])


def _objectives(columns: Sequence[Column], pairs: Sequence[tuple[int, int]], most: int) -> list[list[int]]:
    """Price, ranks, then slots and nodes in one: no useful answer has more nodes than pods, so `most + 1` keeps the two apart."""
    prices = [columns[index].price for index, _ in pairs]
    ranks = [columns[index].rank for index, _ in pairs]
    slots = [columns[index].weight * (most + 1) + 1 for index, _ in pairs]
    return [*(one for one in (prices, ranks) if any(one)), slots]


def _minimise(objective: Sequence[int], upper: Sequence[int], rows: Sequence[_Row]) -> list[int] | None:
    """The integer point of least objective, None when there is none. Raises SearchLimitError when HiGHS can't tell."""
    highspy: Any = import_module("highspy")  # loaded when first needed: a gang of one pod set hardly ever does
    solver = highspy._Highs()  # noqa: SLF001  # in highspy's __all__; the wrapper around it prints a banner to stdout
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(highspy, objective, upper, rows))
    solver.run()
    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise SearchLimitError(f"the solver stopped with {status.name}")
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise SearchLimitError(f"no answer within {MAX_BRANCHES} branches")
    return _checked([round(x) for x in solver.getSolution().col_value], upper, rows)


_OPTIONS: dict[str, bool | int | float] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.5,  # objectives are integers: less than one apart is equal
    "mip_max_nodes": MAX_BRANCHES,
}


def _checked(x: list[int], upper: Sequence[int], rows: Sequence[_Row]) -> list[int]:
    """The solver computes in floating point; only what holds in integers counts."""
    if all(0 <= value <= bound for value, bound in zip(x, upper, strict=True)) and all(row.holds(x) for row in rows):
        return x
    raise SearchLimitError("the solver's answer does not hold in integers")


def _model(highspy: Any, objective: Sequence[int], upper: Sequence[int], rows: Sequence[_Row]) -> Any:
    """The programme in HiGHS' row-wise form; each row and the objective divided by the common divisor of its factors."""
    scale = gcd(*objective) or 1
    scaled = [(row, gcd(*row.coefficients.values()) or 1) for row in rows]
    infinity = highspy.kHighsInf
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(objective), len(rows)
    lp.col_cost_ = [factor / scale for factor in objective]
    lp.col_lower_ = [0.0] * len(upper)
    lp.col_upper_ = [float(bound) for bound in upper]
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(upper)
    lp.row_lower_ = [-(-row.bound // by) if row.least else -infinity for row, by in scaled]
    lp.row_upper_ = [infinity if row.least else row.bound // by for row, by in scaled]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    starts, indices, values = [0], [], []
    for row, by in scaled:
        indices += list(row.coefficients)
        values += [factor // by for factor in row.coefficients.values()]
        starts.append(len(indices))
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, indices, values
    return lp
