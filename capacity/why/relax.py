"""The smallest changes that would make a gang fit, each planned again to be sure."""

from collections.abc import Iterator
from math import lcm

from capacity.common import quick
from capacity.model import Change, Gang, Plan, PodSet, Relaxation
from capacity.programme.milp import SearchLimitError
from capacity.programme.search import search
from capacity.proof.prove import prove
from capacity.why.changes import Candidate, candidates
from capacity.why.loosen import Question, resized, unwished
from capacity.why.lots import Survey
from capacity.why.rooms import most

MOST = 6
MOST_PLANS = 24
MOST_NODES = 40_000
"""Nodes that all the plans of one explanation may look at, but for the first few plans."""
FEWEST_PLANS = 4


def cheapest(question: Question) -> Plan | None:
    """The best plan; None also when it can't be proven or the search was cut off: what is suggested must be sure."""
    _, snapshot, preferences = question
    if (common := quick.answer(*question)) is not None:
        return common.plan
    try:
        found = search(*question)
    except SearchLimitError:
        return None
    return found if found and not prove(found, snapshot, preferences) else None


def fits(question: Question) -> bool:
    """Whether `cheapest` has a plan, be it the cheapest or not."""
    plain = quick.answer(*unwished(question))
    return plain.plan is not None if plain is not None else cheapest(question) is not None


def relaxations(question: Question, seen: Survey, found: dict[str, int], *, waiting_helps: bool) -> tuple[Relaxation, ...]:
    """At most `MOST`, the change that gives up least first. `found` is what `most_pods` says."""
    fit = list(_fewer(question[0], found))
    told: set[Change] = set()
    tries = max(FEWEST_PLANS, min(MOST_PLANS, MOST_NODES // max(1, len(question[1].nodes))))
    for candidate in candidates(question, seen, waiting_helps=waiting_helps):
        if candidate.change not in told and tries and len(fit) < MOST:
            tries -= 1
            if text := _text(candidate):
                told.add(candidate.change)
                fit.append(Relaxation(candidate.change, text))
    return tuple(fit)


def _text(candidate: Candidate) -> str:
    """What to tell of it, "" when it doesn't help."""
    if isinstance(candidate.tell, str):
        return candidate.tell if fits(candidate.question) else ""
    plan = cheapest(candidate.question)
    return candidate.tell(plan) if plan is not None else ""


def most_pods(question: Question, seen: Survey) -> dict[str, int]:
    """How many pods of each pod set can be had at once: the smallest pod sets whole first, then as many as possible of the
    next.
    """
    gang = question[0]
    found = dict.fromkeys((pod_set.name for pod_set in gang.pod_sets), 0)
    for index, pod_set in sorted(enumerate(seen.pod_sets), key=lambda one: (one[1].count, one[1].name)):
        step = _together(pod_set)
        low, high = 0, most(seen, index) // step
        middle = high  # mostly right at once
        while low < high:
            if fits(resized(question, {**found, pod_set.name: middle * step})):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        found[pod_set.name] = low * step
    return found


def _together(pod_set: PodSet) -> int:
    """How many pods come or go at once: whole slices and units."""
    return lcm(*(rule.size or 1 for rule in (pod_set.slices, pod_set.exclusive) if rule))


def _fewer(gang: Gang, found: dict[str, int]) -> Iterator[Relaxation]:
    short = [pod_set for pod_set in gang.pod_sets if found[pod_set.name] < pod_set.count]
    if len(short) == 1 and found[short[0].name]:
        yield Relaxation(Change.PODS, f"with {found[short[0].name]} pods of {short[0].name} instead of {short[0].count}")
