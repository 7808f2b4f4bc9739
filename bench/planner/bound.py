"""What no plan can be cheaper than: an integer programme over sums, which knows nothing of how our planner searches.

Pods may be split over nodes of one sort as the sums of their resources allow, and pods of all gangs may share nodes: both only ever make
the programme's answer cheaper than a real one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import highspy

from bench.planner.problems import Amounts, Labels, Offer, Problem

Group = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Bound:
    """Micro-dollars an hour that every plan costs at least, and whether this is the programme's own optimum; None: no plan exists."""

    cost: int | None
    solved: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes that are alike: `most` of them at `price` each. Those that are there cost nothing and need no decision."""

    room: Amounts
    labels: Labels
    most: int
    price: int
    there: bool = False


@dataclass(slots=True)
class Rows:
    """Linear rows `low <= sum <= high`, each a list of (column, factor)."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, low: float, high: float, terms: list[tuple[int, float]]) -> None:
        self.columns += [column for column, _ in terms]
        self.factors += [factor for _, factor in terms]
        self.starts.append(len(self.columns))
        self.low.append(low)
        self.high.append(high)


def bound(problem: Problem, *, integer: bool, seconds: float = 60) -> Bound:
    """The linear bound, or the one in whole nodes as far as HiGHS gets in `seconds`."""
    demand: dict[Group, int] = {}
    for gang in problem.gangs:
        for one in gang.sets:
            group = tuple(sorted(one.requests.items())), tuple(sorted(one.selector.items()))
            demand[group] = demand.get(group, 0) + one.count
    places = list(_places(problem, sum(demand.values())))
    costs, upper, rows = [float(place.price) for place in places], [float(place.most) for place in places], Rows()
    split: dict[Group, list[tuple[int, float]]] = {group: [] for group in demand}
    for index, place in enumerate(places):
        inside: list[tuple[int, Amounts]] = []
        for group, count in demand.items():
            each = _fits(group, place)
            if each:
                column = len(costs)
                costs.append(0.0)
                upper.append(float(count))
                inside.append((column, dict(group[0])))
                split[group].append((column, 1.0))
                rows.add(-highspy.kHighsInf, 0, [(column, 1.0), (index, -float(each))])
        for name in place.room if len(inside) > 1 else ():
            used = [(column, asked[name] / _unit(name)) for column, asked in inside if name in asked]
            rows.add(-highspy.kHighsInf, 0, [*used, (index, -place.room[name] / _unit(name))])
    for group, count in demand.items():
        rows.add(count, count, split[group])
    return _solve(costs, upper, rows, [place.most if place.there else 0 for place in places], integer, seconds)


def _unit(name: str) -> float:
    """Keeps the factors of all rows near one another, as floating point likes it."""
    return {"memory": float(1 << 30), "cpu": 1000.0}.get(name, 1.0)


def _fits(group: Group, place: Place) -> int:
    requests, selector = group
    if any(place.labels.get(key) != value for key, value in selector):
        return 0
    return max(0, min(place.room.get(name, 0) // amount for name, amount in requests if amount))


def _places(problem: Problem, pods: int) -> Iterator[Place]:
    alike: dict[Any, Place] = {}
    for node in problem.nodes:
        key = tuple(sorted(node.free().items())), tuple(sorted(node.labels.items()))
        most = alike[key].most + 1 if key in alike else 1
        alike[key] = Place(node.free(), node.labels, most, 0, there=True)
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


def _solve(costs: list[float], upper: list[float], rows: Rows, least: list[int], integer: bool, seconds: float) -> Bound:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(costs), len(rows.low)
    lp.col_cost_, lp.col_upper_ = costs, upper
    lp.col_lower_ = [float(number) for number in least] + [0.0] * (len(costs) - len(least))
    lp.row_lower_, lp.row_upper_ = rows.low, rows.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.starts, rows.columns, rows.factors
    if integer:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    solver = highspy._Highs()  # noqa: SLF001  # in highspy's __all__; the wrapper around it prints a banner to stdout
    for name, value in {"output_flag": False, "threads": 1, "random_seed": 0, "time_limit": seconds, "mip_rel_gap": 0.0}.items():
        solver.setOptionValue(name, value)
    solver.passModel(lp)
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return Bound(None, solved=True)
    solved = status == highspy.HighsModelStatus.kOptimal
    best = info.mip_dual_bound if integer else info.objective_function_value if solved else 0.0
    return Bound(max(0, int(best - 0.5)), solved)
