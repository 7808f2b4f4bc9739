"""A plan's proof, from its own text and the snapshot, apart from the search that made it.

Why no order of scheduling can spoil a proven plan: let some pod of a pod set still be unplaced. Its nodes offer at least as
many slots as the pod set has pods, so one of them, H, holds fewer pods of it than its slots there. On H no pod set ever
exceeds min(count, what fits of it alone), and all these maxima fit H at once (checked here); so one pod more of this set fits
as well, and the scheduler finds H.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, slots, together
from capacity.model import HOSTNAME, Plan, PodSet, Preferences, Snapshot
from capacity.topology import required_key


@dataclass(frozen=True, slots=True)
class _Place:
    """`count` alike nodes of the plan and the slots that each gives."""

    name: str
    where: Host
    count: int
    slots: tuple[tuple[PodSet, int], ...]


def prove(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> tuple[str, ...]:
    """What is wrong with the plan, as short phrases; empty when every pod is sure of its place in any order of scheduling."""
    places = list(_places(plan, snapshot))
    return (
        *_supply_flaws(plan, snapshot, preferences),
        *(flaw for place in places for flaw in _place_flaws(place)),
        *_cover_flaws(plan, places),
        *_domain_flaws(places, preferences),
        *_cost_flaws(plan, preferences),
    )


def _places(plan: Plan, snapshot: Snapshot) -> Iterator[_Place]:
    sets = {pod_set.name: pod_set for pod_set in plan.gang.pod_sets}
    for use in plan.uses:
        yield _Place(use.node.name, host(use.node), 1, tuple((sets[name], count) for name, count in use.pods.items()))
    for purchase in plan.purchases:
        where = new_host(purchase.offering, snapshot.topology_keys)
        pods = tuple((sets[name], count) for name, count in purchase.pods.items())
        yield _Place(purchase.offering.name, where, purchase.count, pods)


def _supply_flaws(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> Iterator[str]:
    """Each node once and free for a gang, and of each offering no more than there is."""
    uses = Counter(use.node.name for use in plan.uses)
    yield from (f"{name} is used {times} times" for name, times in sorted(uses.items()) if times > 1)
    for use in plan.uses:
        if why := barred(use.node, plan.gang, snapshot.now, preferences):
            yield f"{use.node.name} is {why}"
    bought = Counter[str]()
    for purchase in plan.purchases:
        bought[purchase.offering.name] += purchase.count
    for offering in {purchase.offering.name: purchase.offering for purchase in plan.purchases}.values():
        if why := closed(offering, plan.gang, snapshot.now, preferences):
            yield f"{offering.name}: {why}"
        if bought[offering.name] > offering.available:
            yield f"{offering.name}: {bought[offering.name]} nodes of {offering.available}"


def _place_flaws(place: _Place) -> Iterator[str]:
    for pod_set, count in place.slots:
        if why := refusal(pod_set, place.where):
            yield f"{place.name} refuses {pod_set.name}: {why}"
        if count > slots(needs(pod_set), place.where.free):
            yield f"{place.name} has fewer than {count} slots for {pod_set.name}"
    requests = [needs(pod_set) for pod_set, _ in place.slots]
    most = [min(pod_set.count, slots(needs(pod_set), place.where.free)) for pod_set, _ in place.slots]
    if len(most) > 1 and not together(requests, most, place.where.free):
        yield f"pod sets compete on {place.name}"


def _cover_flaws(plan: Plan, places: Sequence[_Place]) -> Iterator[str]:
    room: dict[str, int] = {}
    for place in places:
        for pod_set, count in place.slots:
            room[pod_set.name] = room.get(pod_set.name, 0) + count * place.count
    for pod_set in plan.gang.pod_sets:
        if room.get(pod_set.name, 0) < pod_set.count:
            yield f"{pod_set.name} has {room.get(pod_set.name, 0)} slots for {pod_set.count} pods"


def _domain_flaws(places: Sequence[_Place], preferences: Preferences) -> Iterator[str]:
    """All pod sets that name one key are in one domain of it, whose value is known for each node."""
    spans: dict[str, set[str | None]] = {}
    for number, place in enumerate(places):
        for key in {required_key(pod_set, preferences) for pod_set, _ in place.slots} - {None}:
            spans.setdefault(str(key), set()).update(_values(place, str(key), number))
    for key, values in sorted(spans.items()):
        if len(values) != 1 or None in values:
            yield f"{key} is not one domain"


def _values(place: _Place, key: str, number: int) -> set[str | None]:
    """The domains that the place's nodes are in; each node is a host of its own."""
    if key == HOSTNAME:
        return {f"{number}.{node}" for node in range(place.count)}
    return {place.where.labels.get(key)}


def _cost_flaws(plan: Plan, preferences: Preferences) -> Iterator[str]:
    cost = sum(use.node.price for use in plan.uses) + sum(one.offering.price * one.count for one in plan.purchases)
    if cost != plan.cost:
        yield f"costs {cost}, not {plan.cost}"
    if preferences.price_ceiling is not None and cost > preferences.price_ceiling:
        yield f"costs {cost}, above the ceiling of {preferences.price_ceiling}"
