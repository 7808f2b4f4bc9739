"""One problem put to us and to its peer, and what must hold between the two answers."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bench.planner import scenarios
from bench.planner.bound import Bound, bound
from bench.planner.ours import Ours, measure
from bench.planner.peers import Theirs
from bench.planner.problems import RACK, Problem
from bench.planner.profiles import profile
from capacity import model

SHORT = 200_000_000
"""Nanoseconds below which a peer is measured three times; its median counts."""
FEW_NODES = 1_000
LIMIT_SECONDS = 60


@dataclass(slots=True)
class Row:
    """One line of the report. Times are nanoseconds, costs micro-dollars an hour; `mask` is a pass over four columns.

    `alone` is how many gangs cost what they must on what the gangs before them left, `racks` and `fewest` how many racks a plan
    takes and how many it must. `faults` are breaches of what both sides must agree on; each makes the run fail.
    """

    scenario: str
    problem: Problem
    ours: Ours
    theirs: Theirs | None
    mask: int = 0
    linear: Bound | None = None
    integer: Bound | None = None
    alone: int | None = None
    racks: int | None = None
    fewest: int | None = None
    profile: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times faster than the peer we plan with a kept index."""
        return self.theirs.took / self.ours.kept if self.theirs else None

    @property
    def cut_off(self) -> bool:
        return self.theirs is not None and self.theirs.cut_off


Peer = Callable[[Problem], Theirs]


def s1(sizes: list[int], gangs: list[int], peer: Peer | None) -> Iterator[Row]:
    for problem in scenarios.s1(sizes, gangs):
        row = Row("S1", problem, measure(problem, repeats(problem)), asked(peer, problem), mask_pass(problem))
        yield checked(row)


def s2(sizes: list[int], gangs: list[int], peer: Peer | None) -> Iterator[Row]:
    """Each problem twice on our side: with the hosts as nodes, and as reservations of which none is launched."""
    for problem in scenarios.s2(sizes, gangs):
        theirs = asked(peer, problem)
        for ours in (problem, scenarios.as_reservations(problem)):
            row = Row("S2", ours, measure(ours, repeats(problem)), theirs, fewest=scenarios.fewest_racks(problem))
            row.racks = racks(row.ours.outcomes[0])
            yield checked(row)


def s3(counts: list[int], peer: Peer | None) -> Iterator[Row]:
    for problem in scenarios.s3(counts):
        row = Row("S3", problem, measure(problem, 5), asked(peer, problem), linear=bound(problem, integer=False))
        row.integer = bound(problem, integer=True, seconds=LIMIT_SECONDS)
        yield checked(row)


def s4(gangs: int, peer: Peer | None) -> Iterator[Row]:
    problem = scenarios.s4(gangs)
    row = Row("S4", problem, measure(problem, 1), asked(peer, problem), linear=bound(problem, integer=False))
    row.integer = bound(problem, integer=True, share=False, seconds=LIMIT_SECONDS)
    row.alone = best_alone(problem, row.ours.outcomes)
    yield checked(row)


def best_alone(problem: Problem, outcomes: list[model.Outcome]) -> int:
    """How many of the plans cost no more than the bound on what was left when they were made."""
    best, left = 0, {offer.name: offer.available for offer in problem.offers}
    taken: set[str] = set()
    for ask, outcome in zip(problem.gangs, outcomes, strict=True):
        offers = tuple(replace(offer, available=left[offer.name]) for offer in problem.offers if left[offer.name])
        nodes = tuple(node for node in problem.nodes if node.name not in taken)
        least = bound(replace(problem, gangs=(ask,), nodes=nodes, offers=offers), integer=True)
        if isinstance(outcome, model.Plan):
            best += least.cost is not None and outcome.cost <= least.cost + 1
            taken |= {use.node.name for use in outcome.uses}
            for purchase in outcome.purchases:
                left[purchase.offering.name] -= purchase.count
        else:
            best += least.cost is None
    return best


def repeats(problem: Problem) -> int:
    return 3 if len(problem.nodes) > 20_000 else 7


def asked(peer: Peer | None, problem: Problem) -> Theirs | None:
    if peer is None:
        return None
    first = peer(problem)
    if first.took > SHORT:
        return first
    return replace(first, took=int(statistics.median([first.took, peer(problem).took, peer(problem).took])))


def mask_pass(problem: Problem) -> int:
    """The least that looking at every node costs: four columns compared, in numpy."""
    wanted = problem.gangs[0].sets[0].requests
    columns = [np.array([node.free().get(name, 0) for node in problem.nodes]) for name in sorted(wanted)]
    bounds = [wanted[name] for name in sorted(wanted)]
    times = []
    for _ in range(21):
        began = time.perf_counter_ns()
        mask = columns[0] >= bounds[0]
        for column, least in zip(columns[1:], bounds[1:], strict=True):
            mask &= column >= least
        np.flatnonzero(mask)
        times.append(time.perf_counter_ns() - began)
    return int(statistics.median(times))


def racks(outcome: model.Outcome) -> int | None:
    if not isinstance(outcome, model.Plan):
        return None
    there = {use.node.labels[RACK] for use in outcome.uses}
    return len(there | {purchase.offering.domain[RACK] for purchase in outcome.purchases})


def checked(row: Row) -> Row:
    row.faults = list(faults(row))
    row.profile = profile(row.problem)
    return row


def faults(row: Row) -> Iterator[str]:
    """Feasibility must be equal, unless the peer was cut off; cost equal or better (but for the gap that a plan admits to,
    as it must where only luck with the order of pods would make a cheaper one work), and never below what is proven possible.
    """
    ours, theirs = row.ours, row.theirs
    for outcome in ours.outcomes:
        if isinstance(outcome, model.Undecidable):
            yield f"undecided: {'; '.join(outcome.reasons)}"
    if theirs is not None and not row.cut_off and ours.feasible != theirs.feasible:
        yield f"ours says {'fits' if ours.feasible else 'does not fit'}, {theirs.peer} the opposite"
    if (
        theirs is not None
        and theirs.cost is not None
        and theirs.feasible
        and ours.feasible
        and ours.cost - ours.gap > theirs.cost
    ):
        yield f"costs {ours.cost / theirs.cost:.4f} times {theirs.peer}'s, and calls no more than {ours.gap} of that unproven"
    for name, least in (("linear", row.linear), ("integer", row.integer)):
        if least is not None and ours.feasible and (least.cost is None or ours.cost < least.cost):
            yield f"costs less than the {name} bound allows: one of them is wrong"
    if row.fewest is not None and row.racks is not None and row.racks < row.fewest:
        yield "in fewer racks than there can be"
