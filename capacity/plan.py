"""`plan(gang, snapshot, preferences)`: the one way in. Pure and deterministic; never a guess."""

from dataclasses import replace

from capacity import pinned
from capacity.common import quick
from capacity.index.fleet import stocked
from capacity.model import Gang, Outcome, Plan, Preferences, Snapshot, Undecidable
from capacity.programme.luck import lucky, without_luck
from capacity.programme.milp import SearchLimitError
from capacity.programme.question import Question, question
from capacity.programme.search import find, least, may_be_lucky
from capacity.proof.prove import prove
from capacity.why.explain import explain


def plan(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Outcome:
    """Where the whole gang goes, or why it can't, or why that can't be told.

    The best plan has, in this order: the fewest broken preferred levels, the least added cost, the earliest places in the
    policy's capacity order, the fewest domains of the preferred level given up last (where capacity/common/quick.py answers), the
    smallest domains, the fewest slots taken out of what is free, the fewest nodes. A plan is proven once more, apart from the
    search, before it is returned.
    """
    if unclear := _unclear(gang):
        return unclear
    if pinned.pinned(gang):
        return pinned.answer(gang, snapshot, preferences)
    snapshot = stocked(snapshot)
    common = quick.answer(gang, snapshot, preferences)
    if common is not None:
        return common.plan or explain(gang, snapshot, preferences)
    asked = question(gang, snapshot, preferences)
    if asked.couplings.unclear:
        return Undecidable(tuple(asked.couplings.unclear), lasting=True)
    try:
        found = _best(asked)
    except SearchLimitError as error:
        return Undecidable((f"the search was cut off: {error}",))
    if found is None:
        return _without(asked)
    if flaws := prove(found, snapshot, preferences):
        better = _by_luck(asked)
        return better if isinstance(better, Plan) else Undecidable(_unproven(flaws))
    return _improved(asked, found) if may_be_lucky(asked) and found.cost > least(asked) else found


def _best(asked: Question) -> Plan | None:
    """Interchangeable pod sets share all slots as one role; but each by itself has fewer pods, which may be easier to fit beside
    others.
    """
    found = find(asked)
    several = sum(one.count > 0 for one in asked.gang.pod_sets) > len(asked.roles) > 1
    if not several or (found is not None and not found.cost):
        return found
    apart = find(question(asked.gang, asked.snapshot, asked.preferences, lambda _one, _other: False))
    return min((one for one in (found, apart) if one is not None), key=lambda one: one.cost, default=None)


def _without(asked: Question) -> Outcome:
    """No marks are safe node by node; the plan as a whole may be, or nothing fits in whatever order."""
    if asked.couplings.impossible:
        return explain(asked.gang, asked.snapshot, asked.preferences)
    by_luck = _by_luck(asked)
    if by_luck is not None:
        return by_luck
    if asked.couplings.loose:
        return Undecidable(tuple(asked.couplings.loose))
    return explain(asked.gang, asked.snapshot, asked.preferences)


def _by_luck(asked: Question) -> Plan | Undecidable | None:
    """A plan where no node by itself is sure of its pods; None when nothing fits in whatever order."""
    if not may_be_lucky(asked):
        return None
    try:
        found = lucky(asked)
    except SearchLimitError as error:
        return Undecidable((f"the search was cut off: {error}",))
    if found is None:
        return None
    return without_luck(asked, found) or Undecidable((_luck(asked),))


def _improved(asked: Question, found: Plan) -> Plan:
    """What luck could save bounds what a better plan could; if the lucky plan can do without, it is the better one."""
    try:
        best = lucky(asked)
    except SearchLimitError:
        return replace(found, gap=found.cost)
    if best is None or best.cost >= found.cost:
        return found
    gap = max(found.gap, found.cost - best.cost + best.gap)
    return without_luck(asked, best, found.cost) or replace(found, gap=gap)


def _unclear(gang: Gang) -> Undecidable | None:
    """What isn't there yet may come; what isn't modelled stays so."""
    some = [one for one in gang.pod_sets if one.count > 0]
    reasons = tuple(f"{one.name}: {phrase}" for one in some for phrase in (*one.undecidable, *one.awaits))
    return Undecidable(reasons, lasting=any(one.undecidable for one in some)) if reasons else None


def _unproven(flaws: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"the plan did not stand up to its proof: {flaw}" for flaw in flaws)


def _luck(asked: Question) -> str:
    names = ", ".join(pod_set.name for pod_set in asked.gang.pod_sets if pod_set.count > 0)
    return (
        f"fits only if the scheduler packs the pods of {names} together in a lucky order; "
        "give pod sets that share nodes equal requests, or room on nodes of their own"
    )
