"""The smallest changes that would make a gang fit, each planned again to be sure."""

from collections.abc import Iterator
from dataclasses import replace

from capacity.model import Change, Gang, Plan, PodSet, Preferences, Relaxation, Snapshot
from capacity.quantity import dollars
from capacity.search import search
from capacity.solver import SearchLimitError
from capacity.supply import gather, safe_mixes
from capacity.topology import required_key, wider


def cheapest(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Plan | None:
    """The best plan; None also when the search was cut off: what is suggested must be sure."""
    try:
        return search(gang, snapshot, preferences)
    except SearchLimitError:
        return None


def emptied(snapshot: Snapshot) -> Snapshot:
    """The snapshot as it would be if nothing were booked, in use, cordoned, not ready, or still to start."""
    nodes = tuple(replace(node, requested={}, booked_by=None, ready=True, unschedulable=False) for node in snapshot.nodes)
    offerings = tuple(
        replace(offering, available=max(offering.total, offering.available), starts=None) for offering in snapshot.offerings
    )
    return replace(snapshot, nodes=nodes, offerings=offerings)


def most_pods(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> dict[str, int]:
    """How many pods of each pod set can be had at once: the smallest pod sets whole first, then as many as possible of the
    next.
    """
    found = dict.fromkeys((pod_set.name for pod_set in gang.pod_sets), 0)
    for pod_set in sorted(gang.pod_sets, key=lambda one: (one.count, one.name)):
        low, high = 0, most_alone(gang, pod_set, snapshot, preferences)
        middle = high  # mostly right at once
        while low < high:
            if cheapest(_resized(gang, {**found, pod_set.name: middle}), snapshot, preferences) is not None:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        found[pod_set.name] = low
    return found


def most_alone(gang: Gang, pod_set: PodSet, snapshot: Snapshot, preferences: Preferences) -> int:
    """How many pods of one pod set could go if they had all to themselves, price apart, but in one domain of their level."""
    key = required_key(pod_set, preferences)
    rooms: dict[str | None, int] = {}
    for cell in gather(gang, (pod_set,), snapshot, preferences, (key,) if key else (), safe_mixes):
        value = cell.domains[0] if key else ""
        if value is not None:
            rooms[value] = rooms.get(value, 0) + cell.patterns[0][0] * cell.limit
    return min(pod_set.count, max(rooms.values(), default=0))


def relaxations(gang: Gang, snapshot: Snapshot, preferences: Preferences, found: dict[str, int]) -> Iterator[Relaxation]:
    """The change that gives up least first. `found` is what `most_pods` says."""
    yield from _fewer(gang, found)
    for key in _required(gang, preferences):
        yield from _wider(gang, snapshot, preferences, key)
    if preferences.price_ceiling is not None:
        plan = cheapest(gang, snapshot, replace(preferences, price_ceiling=None))
        if plan is not None:
            yield Relaxation(Change.PRICE_CEILING, f"without the price ceiling, at ${dollars(plan.cost)}/h")


def unbound(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> tuple[Gang, Snapshot, Preferences]:
    """The same question without any required level."""
    pod_sets = tuple(replace(pod_set, required_topology=None) for pod_set in gang.pod_sets)
    return replace(gang, pod_sets=pod_sets), snapshot, replace(preferences, required_topology=None)


def _required(gang: Gang, preferences: Preferences) -> list[str]:
    return sorted({key for pod_set in gang.pod_sets if pod_set.count and (key := required_key(pod_set, preferences))})


def _wider(gang: Gang, snapshot: Snapshot, preferences: Preferences, key: str) -> Iterator[Relaxation]:
    """One level wider, else without the level at all; without is not worth saying where wider does."""
    above = wider(key, snapshot.topology_keys)
    if above is not None and cheapest(*_rebound(gang, snapshot, preferences, key, above)) is not None:
        yield Relaxation(Change.LEVEL, f"with {above} as the required level instead of {key}")
    elif cheapest(*_rebound(gang, snapshot, preferences, key, None)) is not None:
        yield Relaxation(Change.LEVEL, f"without {key} as a required level")


def _rebound(
    gang: Gang, snapshot: Snapshot, preferences: Preferences, key: str, level: str | None
) -> tuple[Gang, Snapshot, Preferences]:
    """The same question with one required level replaced; each pod set now carries its own."""
    own = {pod_set.name: required_key(pod_set, preferences) for pod_set in gang.pod_sets}
    pod_sets = tuple(
        replace(pod_set, required_topology=level if own[pod_set.name] == key else own[pod_set.name]) for pod_set in gang.pod_sets
    )
    return replace(gang, pod_sets=pod_sets), snapshot, replace(preferences, required_topology=None)


def _fewer(gang: Gang, found: dict[str, int]) -> Iterator[Relaxation]:
    short = [pod_set for pod_set in gang.pod_sets if found[pod_set.name] < pod_set.count]
    if len(short) == 1 and found[short[0].name]:
        yield Relaxation(Change.PODS, f"with {found[short[0].name]} pods of {short[0].name} instead of {short[0].count}")


def _resized(gang: Gang, counts: dict[str, int]) -> Gang:
    return replace(gang, pod_sets=tuple(replace(pod_set, count=counts[pod_set.name]) for pod_set in gang.pod_sets))
