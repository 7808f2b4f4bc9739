"""One instance: the planner's answer against what is true of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bench.agreement import oracle
from bench.agreement.cases import Case
from bench.agreement.oracle import Marking, Promise
from bench.agreement.planner import pod_set, snapshot
from bench.optimality.instances import Instance
from capacity.model import Gang, Outcome, Plan, Preferences, Shortfall
from capacity.plan import plan


class Verdict(StrEnum):
    """How an answer compares to the truth; the wrong ones are `WRONG`."""

    OPTIMAL = "optimal"
    COVERED = "covered by gap"
    NO_FIT = "rightly no fit"
    UNDECIDED = "undecided, nothing could be promised"
    UNDECIDED_NO_FIT = "undecided, nothing fits"
    MISSED = "undecided, a plan could be promised"
    UNSAFE = "plan that some order breaks"
    TOO_DEAR = "plan dearer than its gap admits"
    MISPRICED = "plan with a wrong cost, or above the ceiling"
    FALSE_NO_FIT = "false no fit"


WRONG = frozenset({Verdict.UNSAFE, Verdict.TOO_DEAR, Verdict.MISPRICED, Verdict.FALSE_NO_FIT})


@dataclass
class Judged:
    """`best` is the least cost that can be promised, `least` the least with luck, both in micro-dollars and None where above the
    ceiling or impossible.
    """

    verdict: Verdict
    outcome: Outcome
    best: int | None
    least: int | None


def judge(instance: Instance) -> Judged:
    """Raises TooBigError for an instance that can't be solved by looking at everything."""
    outcome = answer(instance)
    least = _within(oracle.cheapest(instance.case), instance.ceiling)
    promise = oracle.cheapest_steered(instance.case) if least is not None else Promise(None)
    best = _within(promise.cost, instance.ceiling)
    return Judged(_verdict(instance, outcome, best, least), outcome, best, least)


def answer(instance: Instance) -> Outcome:
    return plan(gang(instance.case), snapshot(instance.case), Preferences(price_ceiling=instance.ceiling))


def gang(case: Case) -> Gang:
    return Gang(case.id, tuple(pod_set(case, each.name, each.count, each.template) for each in case.pod_sets))


def marking(found: Plan) -> Marking:
    """The marks that a plan sets."""
    there = [(use.node.name, _names(use.pods)) for use in found.uses]
    return there + [(each.offering.name, _names(each.pods)) for each in found.purchases for _ in range(each.count)]


def _names(pods: Mapping[str, int]) -> frozenset[str]:
    return frozenset(name for name, count in pods.items() if count)


def _within(cost: int | None, ceiling: int | None) -> int | None:
    return cost if cost is not None and (ceiling is None or cost <= ceiling) else None


def _verdict(instance: Instance, outcome: Outcome, best: int | None, least: int | None) -> Verdict:
    if isinstance(outcome, Plan):
        return _plan(instance, outcome, best)
    if isinstance(outcome, Shortfall):
        return Verdict.NO_FIT if least is None else Verdict.FALSE_NO_FIT
    if best is not None:
        return Verdict.MISSED
    return Verdict.UNDECIDED_NO_FIT if least is None else Verdict.UNDECIDED


def _plan(instance: Instance, found: Plan, best: int | None) -> Verdict:
    if not oracle.survives(instance.case, marking(found)):
        return Verdict.UNSAFE
    assert best is not None, "what survives can be promised"
    if found.cost != _cost(instance.case, found) or _within(found.cost, instance.ceiling) is None:
        return Verdict.MISPRICED
    if found.cost == best:
        return Verdict.OPTIMAL
    return Verdict.COVERED if found.cost - found.gap <= best else Verdict.TOO_DEAR


def _cost(case: Case, found: Plan) -> int:
    prices = {offering.name: offering.price for offering in case.offerings}
    return sum(prices[each.offering.name] * each.count for each in found.purchases)
