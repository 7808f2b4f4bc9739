"""What no plan can be cheaper than: an integer programme over sums, which knows nothing of how our planner searches.

Pods may be split over nodes of one sort as the sums of their resources allow: that only ever makes the programme's answer cheaper
than a real one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil
from typing import Any

from bench.planner.problems import Amounts, Labels, Offer, Problem

highspy: Any = import_module("highspy")  # it has no types

Term = tuple[int, float]
Demand = dict["Group", int]
Group = tuple[str, tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]  # owner, requests, selector


@dataclass(frozen=True, slots=True)
class Bound:
    """Micro-dollars an hour that every plan costs at least, and whether that is its optimum; None: there is no plan."""

    cost: int | None
    solved: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes that are alike: `most` of them at `price` each."""

    room: Amounts
    labels: Labels
    most: int
    price: int


@dataclass(slots=True)
class Programme:
    """Columns from 0 to `upper` at `costs`, and rows `low <= sum of terms <= high`."""

    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def column(self, cost: int, most: int) -> int:
        self.costs.append(float(cost))
        self.upper.append(float(most))
        return len(self.costs) - 1

    def row(self, low: float, high: float, terms: list[Term]) -> None:
        self.columns += [column for column, _ in terms]
        self.factors += [factor for _, factor in terms]
        self.starts.append(len(self.columns))
        self.low.append(low)
        self.high.append(high)


def bound(problem: Problem, *, integer: bool, share: bool = True, seconds: float = 60) -> Bound:
    """The linear bound, or the one in whole nodes as far as HiGHS gets in `seconds`.

    Gangs `share` nodes, or each node is one gang's.
    """
    programme, places = Programme(), list(_places(problem, problem.pods))
    taken: list[list[Term]] = [[] for _ in places]
    for demand in _demands(problem, share=share):
        split: dict[Group, list[Term]] = {group: [] for group in demand}
        for place, terms in zip(places, taken, strict=True):
            _host(programme, place, demand, terms, split)
        for group, wanted in demand.items():
            if not split[group]:
                return Bound(None, solved=True)
            programme.row(wanted, wanted, split[group])
    for place, terms in zip(places, taken, strict=True):
        if len(terms) > 1:
            programme.row(-highspy.kHighsInf, place.most, terms)
    return _solve(programme, integer=integer, seconds=seconds)


def _host(programme: Programme, place: Place, demand: Demand, taken: list[Term], split: dict[Group, list[Term]]) -> None:
    """Columns for how many nodes of a place are taken and how many pods of each group go there, within what the nodes hold."""
    fitting = {group: each for group in demand if (each := _fits(group, place))}
    if not fitting:
        return
    count = programme.column(place.price, place.most)
    taken.append((count, 1.0))
    pods = {group: programme.column(0, demand[group]) for group in fitting}
    for group, each in fitting.items():
        split[group].append((pods[group], 1.0))
        programme.row(-highspy.kHighsInf, 0, [(pods[group], 1.0), (count, -float(each))])
    for name in place.room if len(fitting) > 1 else ():
        asked = [(pods[group], amount / _unit(name)) for group in fitting for key, amount in group[1] if key == name]
        programme.row(-highspy.kHighsInf, 0, [*asked, (count, -place.room[name] / _unit(name))])


def _demands(problem: Problem, *, share: bool) -> list[Demand]:
    """How many pods of each sort, of all gangs together or of each."""
    demands: dict[str, Demand] = {}
    for gang in problem.gangs:
        owner = "" if share else gang.name
        counts = demands.setdefault(owner, {})
        for one in gang.sets:
            group = owner, tuple(sorted(one.requests.items())), tuple(sorted(one.selector.items()))
            counts[group] = counts.get(group, 0) + one.count
    return list(demands.values())


def _unit(name: str) -> float:
    """Keeps the factors of all rows near one another, as floating point likes it."""
    return {"memory": float(1 << 30), "cpu": 1000.0}.get(name, 1.0)


def _fits(group: Group, place: Place) -> int:
    _, requests, selector = group
    if any(place.labels.get(key) != value for key, value in selector):
        return 0
    return max(0, min(place.room.get(name, 0) // amount for name, amount in requests if amount))


def _places(problem: Problem, pods: int) -> Iterator[Place]:
    alike: dict[Any, Place] = {}
    for node in problem.nodes:
        key = tuple(sorted(node.free().items())), tuple(sorted(node.labels.items()))
        most = alike[key].most + 1 if key in alike else 1
        alike[key] = Place(node.free(), node.labels, most, 0)
    yield from alike.values()
    kinds = {kind.name: kind for kind in problem.kinds}
    for offer in _worth(problem, pods):
        kind = kinds[offer.kind]
        yield Place(kind.allocatable, {**kind.labels, **offer.domain}, min(offer.available, pods), offer.price)


def _worth(problem: Problem, pods: int) -> list[Offer]:
    """Without offers that another, as plentiful as can be needed, beats in price and in every resource under the same labels."""
    kinds = {kind.name: kind for kind in problem.kinds}
    kept: dict[Any, list[Offer]] = {}
    for offer in sorted(problem.offers, key=lambda offer: (offer.price, offer.name)):
        kind = kinds[offer.kind]
        same = kept.setdefault(tuple(sorted({**kind.labels, **offer.domain}.items())), [])
        if not any(other.available >= pods and _covers(kinds[other.kind].allocatable, kind.allocatable) for other in same):
            same.append(offer)
    return [offer for same in kept.values() for offer in same]


def _covers(large: Amounts, small: Amounts) -> bool:
    return all(large.get(name, 0) >= amount for name, amount in small.items())


def _solve(programme: Programme, *, integer: bool, seconds: float) -> Bound:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(programme.costs), len(programme.low)
    lp.col_cost_, lp.col_upper_ = programme.costs, programme.upper
    lp.col_lower_ = [0.0] * len(programme.costs)
    lp.row_lower_, lp.row_upper_ = programme.low, programme.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = programme.starts, programme.columns, programme.factors
    if integer:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(programme.costs)
    solver = highspy._Highs()  # noqa: SLF001  # in highspy's __all__; the wrapper around it prints a banner to stdout
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 0, "time_limit": seconds, "mip_rel_gap": 0.0}.items():
        solver.setOptionValue(name, value)
    solver.passModel(lp)
    solver.run()
    return _read(solver, integer=integer)


def _read(solver: Any, *, integer: bool) -> Bound:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return Bound(None, solved=True)
    solved = status == highspy.HighsModelStatus.kOptimal
    if integer and solved:
        return Bound(round(info.objective_function_value), solved)
    best = info.mip_dual_bound if integer else info.objective_function_value if solved else 0.0
    return Bound(max(0, ceil(best - max(1e-6, 1e-9 * best))), solved)
