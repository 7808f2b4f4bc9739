"""How many pods of each role find a place in the worst order of scheduling, and what its rules lack to keep every order right."""

from collections.abc import Iterator, Sequence

from capacity import neighbours
from capacity.fit import needs
from capacity.model import HOSTNAME
from capacity.programme.couplings import Apart, Even, Rule, Sliced, Units, concerned
from capacity.programme.question import Question
from capacity.proof.adversary import Shared, surely
from capacity.proof.evidence import Place
from capacity.proof.orders import survives


def order_flaws(asked: Question, places: Sequence[Place]) -> Iterator[str]:
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
    counts = [worst(asked, here, index)]
    for rule in rules:
        if isinstance(rule, Even):
            counts.append(_evenly(asked, places, index, rule))
        elif isinstance(rule, Apart):
            counts.append(_one_each(asked, here, index, rule.key))
    return min(counts)


def worst(asked: Question, places: Sequence[Place], index: int) -> int:
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
        running = dict.fromkeys(opened(asked, everywhere, index, rule.spread), 0) | running
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


def opened(asked: Question, places: Sequence[Place], index: int, spread: int) -> set[str]:
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
