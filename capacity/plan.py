"""`plan(gang, snapshot, preferences)`: the one way in. Pure and deterministic; never a guess."""

from dataclasses import replace

from capacity import quick
from capacity.drafting import widened
from capacity.explain import explain
from capacity.milp import SearchLimitError
from capacity.mixes import lucky_mixes
from capacity.model import Gang, Outcome, Plan, Preferences, Snapshot, Undecidable
from capacity.prove import prove
from capacity.question import Question, question
from capacity.search import find, may_be_lucky


def plan(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Outcome:
    """Where the whole gang goes, or why it can't, or why that can't be told.

    The best plan has, in this order: the fewest broken preferred levels, the least added cost, the earliest places in the
    policy's capacity order, the smallest domains, the fewest slots taken out of what is free, the fewest nodes. A plan is
    proven once more, apart from the search, before it is returned.
    """
    if unclear := _unclear(gang):
        return Undecidable(unclear)
    common = quick.answer(gang, snapshot, preferences)
    if common is not None:
        return common.plan or explain(gang, snapshot, preferences)
    asked = question(gang, snapshot, preferences)
    if asked.couplings.unclear:
        return Undecidable(tuple(asked.couplings.unclear))
    try:
        found = find(asked)
    except SearchLimitError as error:
        return Undecidable((f"the search was cut off: {error}",))
    if found is None:
        return _without(asked)
    if flaws := prove(found, snapshot, preferences):
        better = _lucky(asked)
        return better if isinstance(better, Plan) else Undecidable(_unproven(flaws))
    return found if not found.cost or not may_be_lucky(asked) else _improved(asked, found)


def _without(asked: Question) -> Outcome:
    """No marks are safe node by node; the plan as a whole may be, or nothing fits in whatever order."""
    if asked.couplings.impossible:
        return explain(asked.gang, asked.snapshot, asked.preferences)
    lucky = _lucky(asked)
    if isinstance(lucky, Plan | Undecidable):
        return lucky
    if asked.couplings.loose:
        return Undecidable(tuple(asked.couplings.loose))
    return explain(asked.gang, asked.snapshot, asked.preferences)


def _lucky(asked: Question) -> Plan | Undecidable | None:
    """The best plan that needs luck as far as single nodes tell, if it turns out not to; None when there is none at all."""
    if not may_be_lucky(asked):
        return None
    try:
        found = find(asked, lucky_mixes)
    except SearchLimitError as error:
        return Undecidable((f"the search was cut off: {error}",))
    if found is None:
        return None
    return _provable(asked, found) or Undecidable((_luck(asked),))


def _provable(asked: Question, lucky: Plan) -> Plan | None:
    """The nodes of a plan that seemed to need luck, marked so that it doesn't, if there is a way."""
    for one in (lucky, *widened(asked, lucky)):
        if not prove(one, asked.snapshot, asked.preferences):
            return one
    return None


def _improved(asked: Question, found: Plan) -> Plan:
    """What luck could save bounds what a better plan could; if the lucky plan can be proven, it is the better one."""
    try:
        lucky = find(asked, lucky_mixes)
    except SearchLimitError:
        return replace(found, gap=found.cost)
    if lucky is None or lucky.cost >= found.cost:
        return found
    return _provable(asked, lucky) or replace(found, gap=max(found.gap, found.cost - lucky.cost + lucky.gap))


def _unclear(gang: Gang) -> tuple[str, ...]:
    return tuple(f"{one.name}: {phrase}" for one in gang.pod_sets if one.count > 0 for phrase in one.undecidable)


def _unproven(flaws: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"the plan did not stand up to its proof: {flaw}" for flaw in flaws)


def _luck(asked: Question) -> str:
    names = ", ".join(pod_set.name for pod_set in asked.gang.pod_sets if pod_set.count > 0)
    return (
        f"fits only if the scheduler packs the pods of {names} together in a lucky order; "
        "give pod sets that share nodes equal requests, or room on nodes of their own"
    )
