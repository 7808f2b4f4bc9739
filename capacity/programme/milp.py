"""Integer programmes, solved exactly: HiGHS searches in floating point, and only what holds in integers counts.

One thread, one seed, bounded by branch-and-bound nodes and not by time, so that the same question always has the same answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import floor, gcd
from typing import Any

MAX_BRANCHES = 20_000

Terms = Mapping[int, int]  # variable -> factor


class SearchLimitError(Exception):
    """The search was cut off, or its answer not exact: whether a plan exists is not known."""


@dataclass(frozen=True, slots=True)
class _Row:
    """`sum(terms) <= bound`."""

    terms: Terms
    bound: int

    def holds(self, x: Sequence[int]) -> bool:
        return sum(factor * x[index] for index, factor in self.terms.items()) <= self.bound


@dataclass(frozen=True, slots=True)
class Answer:
    """`gap` is how far the first objective may be from its optimum: 0 when it is proven."""

    x: list[int]
    gap: int


@dataclass(slots=True)
class Programme:
    """Variables are integers from 0 to their upper bound."""

    upper: list[int] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)

    def variable(self, upper: int) -> int:
        self.upper.append(upper)
        return len(self.upper) - 1

    def most(self, terms: Terms, bound: int) -> None:
        """sum(terms) <= bound"""
        self.rows.append(_Row({index: factor for index, factor in terms.items() if factor}, bound))

    def least(self, terms: Terms, bound: int) -> None:
        """sum(terms) >= bound"""
        self.most({index: -factor for index, factor in terms.items()}, -bound)

    def minimise(self, objectives: Sequence[Terms]) -> Answer | None:
        """One objective after the other, each held fast while the next is minimised; None when nothing satisfies all rows.

        Raises SearchLimitError when the search was cut off before it found anything, or can't be trusted.
        """
        best: Answer | None = None
        for objective in objectives:
            try:
                found = _minimise(objective, self.upper, self.rows)
            except SearchLimitError:
                if best is None:
                    raise
                break
            if found is None:
                break
            best = Answer(found.x, found.gap if best is None else best.gap)
            self.most(objective, sum(factor * found.x[index] for index, factor in objective.items()))
        return best


def _minimise(objective: Terms, upper: Sequence[int], rows: Sequence[_Row]) -> Answer | None:
    if any(not row.terms and row.bound < 0 for row in rows):
        return None
    highspy: Any = import_module("highspy")  # loaded when first needed: a gang of one pod set hardly ever does
    solver = highspy._Highs()  # noqa: SLF001  # in highspy's __all__; the wrapper around it prints a banner to stdout
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(highspy, objective, upper, [row for row in rows if row.terms]))
    solver.run()
    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise SearchLimitError(f"the solver stopped with {status.name}")
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        raise SearchLimitError(f"no answer within {MAX_BRANCHES} branches")
    x = _checked([round(value) for value in solver.getSolution().col_value], upper, rows)
    reached = sum(factor * x[index] for index, factor in objective.items())
    proven = status == highspy.HighsModelStatus.kOptimal
    bound = reached if proven else floor(info.mip_dual_bound * (gcd(*objective.values()) or 1))
    return Answer(x, max(0, reached - max(0, bound)))


_OPTIONS: dict[str, bool | int | float] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.5,  # objectives are integers: less than one apart is equal
    "mip_max_nodes": MAX_BRANCHES,
    "mip_heuristic_run_feasibility_jump": False,  # takes longer than all the rest where programmes are small
}


def _checked(x: list[int], upper: Sequence[int], rows: Sequence[_Row]) -> list[int]:
    if all(0 <= value <= bound for value, bound in zip(x, upper, strict=True)) and all(row.holds(x) for row in rows):
        return x
    raise SearchLimitError("the solver's answer does not hold in integers")


def _model(highspy: Any, objective: Terms, upper: Sequence[int], rows: Sequence[_Row]) -> Any:
    """The programme in HiGHS' row-wise form; each row and the objective divided by the common divisor of its factors."""
    scale = gcd(*objective.values()) or 1
    scaled = [(row, gcd(*row.terms.values()) or 1) for row in rows]
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(upper), len(rows)
    lp.col_cost_ = [objective.get(index, 0) / scale for index in range(len(upper))]
    lp.col_lower_ = [0.0] * len(upper)
    lp.col_upper_ = [float(bound) for bound in upper]
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(upper)
    lp.row_lower_ = [-highspy.kHighsInf] * len(rows)
    lp.row_upper_ = [float(row.bound // by) for row, by in scaled]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    starts, indices, values = [0], [], []
    for row, by in scaled:
        indices += list(row.terms)
        values += [factor // by for factor in row.terms.values()]
        starts.append(len(indices))
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, indices, values
    return lp
