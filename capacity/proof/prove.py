"""A plan's proof, from its own text and the snapshot, apart from the search that made it.

Why no order of scheduling can spoil a proven plan: let some pod of a role still be unplaced and nothing move any more. Then none
of the role's nodes has room for one pod more, or a rule turns it away from those that have. How many of its pods are placed in
the worst such case follows from what the other roles can take of its nodes (adversary) and from each rule's own arithmetic; the
plan stands when that is never less than the role has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from capacity.fit import Host, barred, closed, refusal
from capacity.model import HOSTNAME, Plan, Preferences, Snapshot
from capacity.programme.couplings import Sliced, concerned
from capacity.programme.question import Question
from capacity.proof.evidence import Place, asked_of, open_to_all, places_of
from capacity.proof.worst import opened, order_flaws, worst
from capacity.tas import guarantee as tas
from capacity.topology import ways


def prove(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> tuple[str, ...]:
    """What is wrong with the plan, as short phrases; empty when every pod is sure of its place in any order of scheduling."""
    asked = asked_of(plan, snapshot, preferences)
    places, flaws = places_of(asked, plan)
    pinned = any(pod_set.placed_by_kueue for pod_set in asked.pod_sets)
    let_in = open_to_all(asked, places) if plan.gang.one_mark else places
    if not pinned:  # Kueue keeps pods that it places to their levels, whatever nodes let them in
        places = let_in
    found = [
        *flaws,
        *_supply_flaws(asked, plan, snapshot, preferences),
        *_filter_flaws(asked, places),
        *_opening_flaws(asked, places),
        *_domain_flaws(asked, places),
        *_cost_flaws(plan, preferences),
    ]
    if not found:
        found += _kueue_flaws(asked, let_in) if pinned else order_flaws(asked, places)
    return tuple(found)


def missing(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> tuple[int, ...]:
    """How many pods of each role could be left without a place for want of room, whatever else is wrong with the plan."""
    asked = asked_of(plan, snapshot, preferences)
    places, _ = places_of(asked, plan)
    placed = (worst(asked, [place for place in places if index in place.caps], index) for index in range(len(asked.roles)))
    return tuple(max(0, count - found) for count, found in zip(asked.demand, placed, strict=True))


# --- supply, filters, cost ------------------------------------------------------------------------------------------------


def _supply_flaws(asked: Question, plan: Plan, snapshot: Snapshot, preferences: Preferences) -> Iterator[str]:
    """Each node once and free for a gang, of each offering no more than there is, and no shared limit broken."""
    uses = Counter(use.node.name for use in plan.uses)
    yield from (f"{name} is used {times} times" for name, times in sorted(uses.items()) if times > 1)
    for use in plan.uses:
        if why := barred(use.node, plan.gang, snapshot.now, preferences):
            yield f"{use.node.name} is {why}"
    bought = Counter[str]()
    for purchase in plan.purchases:
        bought[purchase.offering.name] += purchase.count
        if asked.neighbours.minds(purchase.offering.shape.pods):
            yield f"{purchase.offering.name}: the pods of its DaemonSets are minded"
    for offering in {purchase.offering.name: purchase.offering for purchase in plan.purchases}.values():
        if why := closed(offering, plan.gang, snapshot.now, preferences):
            yield f"{offering.name}: {why}"
        if bought[offering.name] > offering.available:
            yield f"{offering.name}: {bought[offering.name]} nodes of {offering.available}"
    for budget in snapshot.budgets:
        if sum(budget.weight.get(name, 0) * count for name, count in bought.items()) > max(0, budget.left):
            yield f"LimitExceeded: {budget.text}"


def _filter_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
    ties = asked.couplings
    for place in places:
        for index in place.caps:
            pod_set = asked.pod_sets[index]
            why = refusal(pod_set, place.where) or asked.neighbours.refusal(index, place.where.labels, place.where.unknown)
            if why:
                yield f"{place.name} refuses {pod_set.name}: {why}"
            if any(place.where.labels.get(key) in full for (role, key), full in ties.barred.items() if role == index):
                yield f"a spread keeps {pod_set.name} off {place.name}"
        for one, other in sorted(ties.parted(place.where.labels.keys() | place.where.unknown, wary=False)):
            if one in place.caps and other in place.caps:
                yield f"{asked.pod_sets[one].name} and {asked.pod_sets[other].name} share {place.name}"


def _opening_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
    """Where new nodes open an empty domain, as many pods as others have in a domain are that much more than in the emptiest."""
    for index, pod_set in enumerate(asked.pod_sets):
        here = [place for place in places if index in place.caps]
        for number, spread in enumerate(pod_set.spreads):
            if spread.honors_affinity or (spread.selector is not None and spread.selector.selects(pod_set.labels)):
                continue  # its own nodes are all that it compares; or its own pods count, too: see _evenly
            counts = asked.neighbours.domains(index, number)
            values = {value for place in here for value in place.domains(spread.topology_key)}
            if opened(asked, places, index, number) - counts.keys() and any(counts.get(v, 0) > spread.max_skew for v in values):
                yield f"new nodes open a domain of {spread.topology_key} to a spread of {pod_set.name}"


def _cost_flaws(plan: Plan, preferences: Preferences) -> Iterator[str]:
    cost = sum(use.node.price for use in plan.uses) + sum(one.offering.price * one.count for one in plan.purchases)
    if cost != plan.cost:
        yield f"costs {cost}, not {plan.cost}"
    if preferences.price_ceiling is not None and cost > preferences.price_ceiling:
        yield f"costs {cost}, above the ceiling of {preferences.price_ceiling}"


# --- levels ---------------------------------------------------------------------------------------------------------------


def _domain_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
    """All roles that are bound to each other are in one domain, whose value is known for each node."""
    required = list(ways(asked.pod_sets, asked.snapshot.topology_keys, asked.preferences))[-1]
    for bind in (*required.binds, *asked.couplings.binds, *asked.couplings.herds):
        values = {value for place in places if bind.roles & place.caps.keys() for value in place.domains(bind.key)}
        if len(values) != 1 or "" in values:
            yield f"{bind.key} is not one domain"
    if asked.couplings.impossible:
        yield asked.couplings.impossible


def _kueue_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
    """Kueue pins the pods: its own algorithm, run on the plan's nodes, must place them all."""
    hosts = [
        (_named(place, number), frozenset(asked.pod_sets[index].name for index in place.caps))
        for place in places
        for number in range(place.count)
    ]
    levels = {one.levels or (*asked.snapshot.topology_keys, HOSTNAME) for one in asked.pod_sets if one.placed_by_kueue}
    if len(levels) > 1:
        yield "Kueue places its pod sets by different topologies"
    elif flaw := tas.guaranteed(asked.pod_sets, hosts, next(iter(levels))):
        yield flaw
    for rule in asked.couplings.rules:
        if not isinstance(rule, Sliced):
            yield f"{asked.pod_sets[concerned(rule)[0]].name}: Kueue doesn't look at its inter-pod rules"


def _named(place: Place, number: int) -> Host:
    if place.node is not None:
        return place.where
    name = f"{place.name}#{number}"
    return Host(name, {**place.where.labels, HOSTNAME: name}, place.where.taints, place.where.free, place.where.unknown)
