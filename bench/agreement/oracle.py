"""The exact judge of small cases: what kube-scheduler can reach at all, what can be promised, and at what least cost.

Everything here follows from the case's JSON and `bench.agreement.truth`; nothing comes from the planner. Nodes to be bought join
without their passing taints, with their DaemonSet pods, under names that nobody asks for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from random import Random

from bench.agreement.cases import REQUIRED_LEVEL, Case, PodSet
from bench.agreement.truth.assign import Search, within_levels
from bench.agreement.truth.reach import TooBigError, complete, failure, greedy
from bench.agreement.truth.reading import Bought, admitted
from bench.agreement.truth.reading import world as world_of
from bench.agreement.truth.world import Marks, State, World

GROUP, SLICE_LEVEL, SLICE_SIZE = "corral.dev/topology-group", "corral.dev/slice-topology", "corral.dev/slice-size"
LIMIT = 200_000

Marking = Sequence[tuple[str, frozenset[str]]]
"""The names of the pod sets that each node is marked for: by name of a node, or of an offering, once for each node bought."""


@dataclass(frozen=True)
class Promise:
    """What steering can guarantee: `cost` in micro-dollars an hour, None if nothing."""

    cost: int | None
    marking: Marking = ()


def feasible(case: Case, limit: int = LIMIT) -> bool | None:
    """Whether nodes to be bought, marks, an order and choices of the scheduler exist with which all pods are bound.

    More nodes than needed only matter to a spread that sees nodes which its pods can't go to. None if that is too big to tell.
    """
    every = any(not rule.honors_affinity for pod_set in case.pod_sets for rule in admitted(case, pod_set.template).spreads)
    options = sorted(_purchases(case), key=lambda bought: -sum(bought.values()))
    return _first_true(_possible(case, bought, limit) for bought in (options if every else options[:1]))


def cheapest(case: Case, limit: int = LIMIT) -> int | None:
    """The least cost at which the gang could be bound, with luck: no plan is cheaper. None if it can't be.

    Raises TooBigError.
    """
    for cost, bought in _by_cost(case):
        found = _possible(case, bought, limit)
        if found is None:
            raise TooBigError
        if found:
            return cost
    return None


def cheapest_steered(case: Case, limit: int = LIMIT) -> Promise:
    """The least cost over all marks with which every order and every choice binds all pods. Raises TooBigError."""
    for cost, bought in _by_cost(case):
        if _possible(case, bought, limit) is False:
            continue
        world = world_of(case, bought)
        for marks in _all_marks(case, world):
            if _ends_well(case, world, marks) and failure(world, marks, _goal(case, world), limit) is None:
                return Promise(cost, _named(case, world, marks))
    return Promise(None)


def survives(case: Case, marking: Marking, *, limit: int = LIMIT) -> bool | None:
    """Whether every order and every choice of the scheduler ends with all pods bound, each level and slice as asked for."""
    world, marks = _marked(case, marking)
    try:
        return failure(world, marks, _goal(case, world), limit) is None
    except TooBigError:
        return None


def stuck(case: Case, marking: Marking, *, limit: int = LIMIT) -> dict[str, dict[str, int]] | None:
    """Pods by node and pod set in a state where it went wrong, for people. Raises TooBigError."""
    world, marks = _marked(case, marking)
    state = failure(world, marks, _goal(case, world), limit)
    return None if state is None else _told(case, world, state)


def random_greedy(case: Case, marking: Marking, seed: int) -> bool:
    """Whether one random order with random choices ends well."""
    world, marks = _marked(case, marking)
    state = greedy(world, marks, Random(seed))
    return complete(world, state) and _goal(case, world)(state)


def fits(case: Case, name: str, node: str) -> bool:
    """Whether one pod of a pod set may go on one node, nothing of the gang being there."""
    world = world_of(case, {})
    marks = (frozenset(range(world.width)),) * len(world.kinds)
    kind = [pod_set.name for pod_set in case.pod_sets].index(name)
    site = [site.name for site in world.sites].index(node)
    return world.allows(world.start, kind, site, marks)


# --- searches -------------------------------------------------------------------------------------------------------------


def _possible(case: Case, bought: Bought, limit: int) -> bool | None:
    world = world_of(case, bought)
    search = Search(world, _goal(case, world), limit)
    try:
        return any(search.first(allowed) for allowed in within_levels(world, _levels(case)))
    except TooBigError:
        return None


def _all_marks(case: Case, world: World) -> Iterator[Marks]:
    """All marks that give each pod set room enough by itself; a mark where none of its pods can go matters to spreads alone."""
    for allowed in within_levels(world, _levels(case)):
        options = [list(_marks_of(world, kind, allowed[kind])) for kind in range(len(world.kinds))]
        for marks in sorted(product(*options), key=_sharing):
            if _first_of_alike(world, marks):
                yield marks


def _marks_of(world: World, kind: int, allowed: frozenset[int]) -> Iterator[frozenset[int]]:
    wanted = world.demand[kind]
    slots = {n: world.slots(world.start, kind, n, wanted) if world.open[kind][n] else 0 for n in sorted(allowed)}
    useful = [n for n, count in slots.items() if count or any(counting.base[n] for counting in world.spreads[kind])]
    for chosen in product((False, True), repeat=len(useful)):
        marks = frozenset(n for n, taken in zip(useful, chosen, strict=True) if taken)
        if sum(slots[n] for n in marks) >= wanted:
            yield marks


def _sharing(marks: Marks) -> tuple[int, int]:
    total = sum(len(marked) for marked in marks)
    return total - len(frozenset().union(*marks)), total


def _first_of_alike(world: World, marks: Marks) -> bool:
    """Of alike nodes to be bought, only one order of the marks is tried."""
    columns = [(site.offering, [n in marked for marked in marks]) for n, site in enumerate(world.sites)]
    return all(one[0] != two[0] or not one[0] or one[1] >= two[1] for one, two in pairwise(columns))


def _ends_well(case: Case, world: World, marks: Marks) -> bool:
    """A few random runs: most marks that promise nothing fail one."""
    goal = _goal(case, world)
    ends = (greedy(world, marks, Random(seed)) for seed in range(4))
    return all(complete(world, state) and goal(state) for state in ends)


def _first_true(answers: Iterator[bool | None]) -> bool | None:
    unknown = False
    for answer in answers:
        if answer:
            return True
        unknown |= answer is None
    return None if unknown else False


# --- from the case ---------------------------------------------------------------------------------------------------------


def _purchases(case: Case) -> Iterator[dict[str, int]]:
    for counts in product(*(range(offering.limit + 1) for offering in case.offerings)):
        yield {offering.name: count for offering, count in zip(case.offerings, counts, strict=True)}


def _by_cost(case: Case) -> list[tuple[int, dict[str, int]]]:
    prices = {offering.name: offering.price for offering in case.offerings}
    options = [(sum(prices[name] * count for name, count in bought.items()), bought) for bought in _purchases(case)]
    return sorted(options, key=lambda option: (option[0], sum(option[1].values())))


def _notes(pod_set: PodSet) -> Mapping[str, str]:
    return pod_set.template["metadata"].get("annotations") or {}


def _levels(case: Case) -> dict[tuple[str, str], list[int]]:
    """The pod sets by the level that one domain must hold them in, and by group."""
    found: dict[tuple[str, str], list[int]] = {}
    for kind, pod_set in enumerate(case.pod_sets):
        notes = _notes(pod_set)
        if key := notes.get(REQUIRED_LEVEL):
            found.setdefault((key, notes.get(GROUP, "")), []).append(kind)
    return found


class _Goal:
    """Each slice within one domain: the pods of a domain are whole slices. (Required levels are in the marks.)"""

    def __init__(self, world: World, slices: Sequence[tuple[int, str, int]]) -> None:
        self.world, self.slices = world, slices

    def __call__(self, state: State) -> bool:
        return all(self._whole(state, *one) for one in self.slices)

    def _whole(self, state: State, kind: int, key: str, size: int) -> bool:
        counts: dict[str | None, int] = {}
        for n, site in enumerate(self.world.sites):
            value = site.labels.get(key)
            counts[value] = counts.get(value, 0) + state[kind * self.world.width + n]
        return not counts.pop(None, 0) and all(count % size == 0 for count in counts.values())


def _goal(case: Case, world: World) -> _Goal:
    notes = [_notes(pod_set) for pod_set in case.pod_sets]
    sliced = [(kind, each) for kind, each in enumerate(notes) if SLICE_LEVEL in each]
    return _Goal(world, [(kind, each[SLICE_LEVEL], int(each[SLICE_SIZE])) for kind, each in sliced])


def _marked(case: Case, marking: Marking) -> tuple[World, Marks]:
    bought = {offering.name: sum(name == offering.name for name, _ in marking) for offering in case.offerings}
    world = world_of(case, bought)
    left = {name: iter([n for n, site in enumerate(world.sites) if name in (site.name, site.offering)]) for name, _ in marking}
    at = [(next(left[name]), names) for name, names in marking]
    return world, tuple(frozenset(n for n, names in at if pod_set.name in names) for pod_set in case.pod_sets)


def _named(case: Case, world: World, marks: Marks) -> Marking:
    names = [pod_set.name for pod_set in case.pod_sets]
    found = []
    for n, site in enumerate(world.sites):
        marked = frozenset(name for name, sites in zip(names, marks, strict=True) if n in sites)
        if marked or site.offering:
            found.append((site.offering or site.name, marked))
    return found


def _told(case: Case, world: World, state: State) -> dict[str, dict[str, int]]:
    names = [pod_set.name for pod_set in case.pod_sets]
    columns = {site.name: dict(zip(names, state[n :: world.width], strict=True)) for n, site in enumerate(world.sites)}
    return {site: {name: count for name, count in column.items() if count} for site, column in columns.items()}
