"""`plan(gang, snapshot, preferences)`: the one way in. Pure and deterministic; never a guess."""

from capacity.explain import explain
from capacity.model import Gang, Outcome, Plan, Preferences, Snapshot, Undecidable
from capacity.prove import prove
from capacity.search import by_luck, search
from capacity.solver import SearchLimitError


def plan(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Outcome:
    """Where the whole gang goes, or why it can't, or why that can't be told.

    The best plan has, in this order: the fewest broken preferred levels, the least added cost, the earliest places in the
    policy's capacity order, the smallest domains, the fewest slots taken out of what is free, the fewest nodes. A plan is
    proven once more, apart from the search, before it is returned.
    """
    unclear = _unclear(gang)
    if unclear:
        return Undecidable(unclear)
    try:
        found = search(gang, snapshot, preferences)
        if found is None and by_luck(gang, snapshot, preferences):
            return Undecidable((_luck(gang),))
    except SearchLimitError as error:
        return Undecidable((f"the search was cut off: {error}",))
    return _proven(found, snapshot, preferences) if found is not None else explain(gang, snapshot, preferences)


def _proven(found: Plan, snapshot: Snapshot, preferences: Preferences) -> Outcome:
    flaws = prove(found, snapshot, preferences)
    return Undecidable(tuple(f"the plan did not stand up to its proof: {flaw}" for flaw in flaws)) if flaws else found


def _unclear(gang: Gang) -> tuple[str, ...]:
    return tuple(f"{pod_set.name}: {phrase}" for pod_set in gang.pod_sets if pod_set.count > 0 for phrase in pod_set.undecidable)


def _luck(gang: Gang) -> str:
    names = ", ".join(pod_set.name for pod_set in gang.pod_sets if pod_set.count > 0)
    return (
        f"fits only if the scheduler packs the pods of {names} together in a lucky order; "
        "give pod sets that share nodes equal requests, or room on nodes of their own"
    )
