"""A plan's proof, from its own text and the snapshot, apart from the search that made it.

Why no order of scheduling can spoil a proven plan: let some pod of a role still be unplaced and nothing move any more. Then none
of the role's nodes has room for one pod more, or a rule turns it away from those that have. How many of its pods are placed in
the worst such case follows from what the other roles can take of its nodes (adversary) and from each rule's own arithmetic; the
plan stands when that is never less than the role has.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from capacity import neighbours, tas
from capacity.adversary import Shared, surely
from capacity.couplings import Apart, Even, Rule, Sliced, Units, concerned
from capacity.fit import Host, barred, closed, host, needs, new_host, refusal, slots
from capacity.model import HOSTNAME, Node, Plan, Preferences, Snapshot
from capacity.orders import survives
from capacity.question import Question, question
from capacity.topology import ways


@dataclass(frozen=True, slots=True)
class Place:
    """`count` alike nodes of the plan, the roles whose pods are let in, and how many of each may ever be on one."""

    name: str
    where: Host
    count: int
    node: Node | None
    caps: Mapping[int, int] = field(default_factory=dict)

    def domains(self, key: str) -> list[str]:
        """The domain of each of the nodes; one that is not there yet is a host of its own."""
        if key == HOSTNAME and self.node is None:
            return [f"{self.name}#{number}" for number in range(self.count)]
        return [self.where.labels.get(key, "")] * self.count


def prove(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> tuple[str, ...]:
    """What is wrong with the plan, as short phrases; empty when every pod is sure of its place in any order of scheduling."""
    asked = _asked(plan, snapshot, preferences)
    places, flaws = _places(asked, plan)
    found = [
        *flaws,
        *_supply_flaws(asked, plan, snapshot, preferences),
        *_filter_flaws(asked, places),
        *_opening_flaws(asked, places),
        *_domain_flaws(asked, places),
        *_cost_flaws(plan, preferences),
    ]
    if not found:
        pinned = [index for index, pod_set in enumerate(asked.pod_sets) if pod_set.placed_by_kueue]
        found += _kueue_flaws(asked, places) if pinned else _order_flaws(asked, places)
    return tuple(found)


def missing(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> tuple[int, ...]:
    """How many pods of each role could be left without a place for want of room, whatever else is wrong with the plan."""
    asked = _asked(plan, snapshot, preferences)
    places, _ = _places(asked, plan)
    worst = (_worst(asked, [place for place in places if index in place.caps], index) for index in range(len(asked.roles)))
    return tuple(max(0, count - found) for count, found in zip(asked.demand, worst, strict=True))


# --- what the plan says ---------------------------------------------------------------------------------------------------


def _asked(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> Question:
    """Interchangeable pod sets are one role where they are let in on the same nodes."""
    marks = {
        one.name: (
            [use.node.name for use in plan.uses if one.name in use.pods],
            [number for number, purchase in enumerate(plan.purchases) if one.name in purchase.pods],
        )
        for one in plan.gang.pod_sets
    }
    return question(plan.gang, snapshot, preferences, lambda one, other: marks[one.name] == marks[other.name])


def _places(asked: Question, plan: Plan) -> tuple[list[Place], list[str]]:
    """The nodes as kube-scheduler sees them, and where the plan promises more than they hold."""
    found = [_place(asked, use.node.name, host(use.node), 1, use.node, use.pods) for use in plan.uses]
    flaws = []
    for purchase in plan.purchases:
        where = new_host(purchase.offering, asked.snapshot.topology_keys)
        found.append(_place(asked, purchase.offering.name, where, purchase.count, None, purchase.pods))
    for place, pods in zip(found, [*(use.pods for use in plan.uses), *(one.pods for one in plan.purchases)], strict=True):
        for index, role in enumerate(asked.roles):
            most = max((pods.get(member.name, 0) for member in role.members), default=0)
            if most > place.caps.get(index, 0):
                flaws.append(f"{place.name} has fewer than {most} slots for {role.pod_set.name}")
    return found, flaws


def _place(asked: Question, name: str, where: Host, count: int, node: Node | None, pods: Mapping[str, int]) -> Place:
    caps = {}
    for index, role in enumerate(asked.roles):
        if any(member.name in pods for member in role.members):
            lonely = asked.couplings.alone(index, where.labels.keys() | where.unknown)
            most = min(role.pod_set.count, slots(needs(role.pod_set), where.free))
            caps[index] = min(most, 1) if lonely else most
    return Place(name, where, count, node, caps)


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
            if _opened(asked, places, index, number) - counts.keys() and any(counts.get(v, 0) > spread.max_skew for v in values):
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
    if flaw := tas.guaranteed(asked.pod_sets, hosts, (*asked.snapshot.topology_keys, HOSTNAME)):
        yield flaw
    for rule in asked.couplings.rules:
        if not isinstance(rule, Sliced):
            yield f"{asked.pod_sets[concerned(rule)[0]].name}: Kueue doesn't look at its inter-pod rules"


def _named(place: Place, number: int) -> Host:
    if place.node is not None:
        return place.where
    name = f"{place.name}#{number}"
    return Host(name, {**place.where.labels, HOSTNAME: name}, place.where.taints, place.where.free, place.where.unknown)


# --- orders ---------------------------------------------------------------------------------------------------------------


def _order_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
    ties = asked.couplings
    for index, pod_set in enumerate(asked.pod_sets):
        mine = [rule for rule in ties.rules if index in concerned(rule)]
        placed = _placed(asked, places, index, [rule for rule in mine if not isinstance(rule, Apart) or rule.one == rule.other])
        if placed < pod_set.count:
            yield f"{pod_set.name} is sure of {placed} places for {pod_set.count} pods"
        for rule in mine:
            yield from _rule_flaws(asked, places, index, rule)
        yield from _standing_flaws(asked, places, index)
        if any(isinstance(rule, Even) for rule in mine):
            yield from _crossing_flaws(asked, places, index, mine)
        if sum(isinstance(rule, Even) for rule in mine) > 1 and not survives(asked, places, index):
            yield f"{pod_set.name}: its spreads may get into each other's way"


def _crossing_flaws(asked: Question, places: Sequence[Place], index: int, mine: Sequence[Rule]) -> Iterator[str]:
    """A spread counts slots as if pods were free to take any: so they are only if no other rule leaves slots empty. Then the
    emptiest domain, while it has a slot, has a pod for it, too: one more of a unit that began there, or the first of the next.
    """
    name, here = asked.pod_sets[index].name, [place for place in places if index in place.caps]
    for rule in mine:
        sizes = [sum(place.caps[index] for place in inside) for inside in _by_domain(here, rule.key).values()]
        if isinstance(rule, Units) and (set(sizes) != {rule.size} or sum(sizes) != asked.demand[index]):
            yield f"{name}: its spread may keep units of {rule.size} from where they have room"
        if isinstance(rule, Apart) and rule.one == rule.other and rule.key != HOSTNAME and set(sizes) != {1}:
            yield f"{name}: its spread may count nodes that its anti-affinity leaves empty"


def _standing_flaws(asked: Question, places: Sequence[Place], index: int) -> Iterator[str]:
    """Spreads that don't count the role's own pods: what runs on its nodes must be even enough as it is."""
    here = [place for place in places if index in place.caps]
    for number in sorted(number for role, number in asked.couplings.shy if role == index):
        spread = asked.pod_sets[index].spreads[number]
        counts = {
            value: sum(asked.neighbours.counted(index, number, place.node) for place in inside if place.node is not None)
            for value, inside in _by_domain(here, spread.topology_key).items()
        }
        least = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
        if any(count - least > spread.max_skew for count in counts.values()):
            yield f"a spread of {asked.pod_sets[index].name} counts too many pods in one {spread.topology_key}"


def _placed(asked: Question, places: Sequence[Place], index: int, rules: Sequence[Rule]) -> int:
    """Pods of the role that are placed in the worst case: the least that any of its rules, or room alone, allows."""
    here = [place for place in places if index in place.caps]
    counts = [_worst(asked, here, index)]
    for rule in rules:
        if isinstance(rule, Even):
            counts.append(_evenly(asked, places, index, rule))
        elif isinstance(rule, Apart):
            counts.append(_one_each(asked, here, index, rule.key))
    return min(counts)


def _worst(asked: Question, places: Sequence[Place], index: int) -> int:
    requests = [needs(pod_set) for pod_set in asked.pod_sets]
    return surely(index, requests, asked.demand, [Shared(place.where.free, place.caps, place.count) for place in places])


def _sure(asked: Question, place: Place, index: int) -> int:
    """Slots of the role on one node of the place that nobody can take."""
    requests = [needs(pod_set) for pod_set in asked.pod_sets]
    return surely(index, requests, [*asked.demand], [Shared(place.where.free, place.caps, 1)])


def _by_domain(places: Sequence[Place], key: str) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in places:
        for value in place.domains(key):
            found.setdefault(value, []).append(place)
    return found


def _one_each(asked: Question, places: Sequence[Place], index: int, key: str) -> int:
    """At most one pod in each domain: every domain with a sure slot takes one, nodes without the label as many as they hold.
    Nodes whose domain only the launch will tell may all be in one, and in one that is counted already.
    """
    domains = _by_domain([place for place in places if key not in place.where.unknown], key)
    free = sum(_sure(asked, place, index) for place in domains.pop("", []))
    known = sum(any(_sure(asked, place, index) for place in inside) for inside in domains.values())
    somewhere = any(_sure(asked, place, index) for place in places if key in place.where.unknown)
    return free + max(known, int(somewhere))


def _evenly(asked: Question, everywhere: Sequence[Place], index: int, rule: Even) -> int:
    """See rules._even: with M the least that any domain can be full at, each takes min(s, M + skew - running) pods."""
    places = [place for place in everywhere if index in place.caps]
    if any(rule.others & place.caps.keys() for place in places):
        return _in_one(asked, places, index, rule)
    slots_in: dict[str, int] = {}
    running: dict[str, int] = dict(rule.elsewhere or {})
    if rule.elsewhere is not None:
        running = dict.fromkeys(_opened(asked, everywhere, index, rule.spread), 0) | running
    for value, inside in _by_domain(places, rule.key).items():
        slots_in[value] = sum(_sure(asked, place, index) for place in inside)
        if rule.elsewhere is None:
            running[value] = sum(
                asked.neighbours.counted(index, rule.spread, place.node) for place in inside if place.node is not None
            )
    domains = {*slots_in, *running}
    least = min((running.get(value, 0) + slots_in.get(value, 0) for value in domains), default=0)
    if len(domains) < rule.min_domains:
        least = 0
    return sum(max(0, min(room, least + rule.skew - running.get(value, 0))) for value, room in slots_in.items())


def _opened(asked: Question, places: Sequence[Place], index: int, spread: int) -> set[str]:
    """The domains of the plan's new nodes, whatever they are for, as far as a spread compares them once they are there; "" where
    only the launch will tell.
    """
    pod_set, found = asked.pod_sets[index], set[str]()
    key = pod_set.spreads[spread].topology_key
    for place in places:
        labels = {**dict.fromkeys(place.where.unknown, ""), **place.where.labels}
        seen = neighbours.Place(place.name, labels, place.where.taints, ())
        if place.node is None and neighbours.in_spread(pod_set, pod_set.spreads[spread], seen):
            found.update(place.domains(key))
    return found


def _in_one(asked: Question, places: Sequence[Place], index: int, rule: Even) -> int:
    """Where other pods count, too, only a single domain is surely even."""
    single = rule.elsewhere is None and rule.min_domains <= 1 and len(_by_domain(places, rule.key)) == 1
    return asked.demand[index] if single else 0


def _may_meet(places: Sequence[Place], rule: Apart) -> bool:
    """Whether a node of one role, its domain not known before launch, may join one of the other role's."""
    bearing = [place for place in places if rule.key in place.where.labels or rule.key in place.where.unknown]
    sides = [[place for place in bearing if role in place.caps] for role in (rule.one, rule.other)]
    return all(sides) and any(rule.key in place.where.unknown for side in sides for place in side)


def _rule_flaws(asked: Question, places: Sequence[Place], index: int, rule: Rule) -> Iterator[str]:
    name = asked.pod_sets[index].name
    here = _by_domain([place for place in places if index in place.caps], rule.key)
    if "" in here and not isinstance(rule, Apart):
        yield f"{name} has nodes without {rule.key}"
    match rule:
        case Apart() if rule.one != rule.other:
            other = rule.other if rule.one == index else rule.one
            there = _by_domain([place for place in places if other in place.caps], rule.key)
            if met := sorted((here.keys() & there.keys()) - {""}):
                yield f"{name} and {asked.pod_sets[other].name} meet in {rule.key} {met[0]}"
            if _may_meet(places, rule):
                yield f"{name} and {asked.pod_sets[other].name} may meet in a {rule.key} that only the launch will tell"
        case Sliced():
            if len(here) == 1:
                return
            sizes = [sum(place.caps[index] for place in inside) for inside in here.values()]
            alone = all(len(place.caps) == 1 for inside in here.values() for place in inside)
            if not alone or any(size % rule.size for size in sizes) or sum(sizes) != asked.demand[index]:
                yield f"{name}: nothing keeps its slices of {rule.size} whole"
        case Units():
            sure = {value: sum(_sure(asked, place, index) for place in inside) for value, inside in here.items()}
            if any(size < rule.size for size in sure.values()) or len(sure) * rule.size < asked.demand[index]:
                yield f"{name}: units of {rule.size} may start where they can't end"
