"""Every way to spread the gang over the sites that could be the end of some order of its pods.

Resources, ports and anti-affinity only ever get tighter as pods come, and forbid a pair of pods whichever comes second: a state
that breaks none of them breaks none on the way there. Affinity and spread depend on the order; whether one exists is searched.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product

from bench.agreement.truth.reach import Goal, TooBigError, reachable
from bench.agreement.truth.world import Counting, Marks, State, World


class Search:
    """One search in one world; raises TooBigError after `limit` steps."""

    def __init__(self, world: World, goal: Goal, limit: int) -> None:
        self.world, self.goal, self.limit, self._steps = world, goal, limit, 0

    def first(self, allowed: Marks) -> tuple[State, Marks] | None:
        """An assignment within `allowed` that some order reaches, with marks under which it does."""
        world = self.world
        for state in self._states(world.start, 0, 0, world.demand[0] if world.demand else 0, allowed):
            if not self.goal(state):
                continue
            for marks in self._markings(state):
                if reachable(world, state, marks, self.limit):
                    return state, marks
        return None

    def _states(self, state: State, kind: int, site: int, left: int, allowed: Marks) -> Iterator[State]:
        """Kind by kind, site by site; among alike nodes to be bought the first take no less of the first kind than the next."""
        self._step()
        world = self.world
        if kind == len(world.demand):
            yield state
        elif left == 0:
            if self._rest_fits(state, kind + 1, allowed):
                yield from self._states(state, kind + 1, 0, (*world.demand, 0)[kind + 1], allowed)
        elif site < world.width and self._reach(state, kind, site, left, allowed) >= left:
            for count in range(self._most(state, kind, site, left, allowed), -1, -1):
                yield from self._states(_with(state, kind * world.width + site, count), kind, site + 1, left - count, allowed)

    def _most(self, state: State, kind: int, site: int, left: int, allowed: Marks) -> int:
        world = self.world
        if kind == 0 and site and world.sites[site].offering and world.sites[site].offering == world.sites[site - 1].offering:
            left = min(left, state[site - 1])
        return self._slots(state, kind, site, left, allowed)

    def _slots(self, state: State, kind: int, site: int, left: int, allowed: Marks) -> int:
        world = self.world
        if site not in allowed[kind] or not world.open[kind][site] or not world.tolerated(state, kind, site):
            return 0
        most = world.slots(state, kind, site, left)
        keys = world.apart[kind][kind] & world.sites[site].labels.keys()
        return min(most, 1) if keys else most

    def _reach(self, state: State, kind: int, site: int, left: int, allowed: Marks) -> int:
        return sum(self._slots(state, kind, n, left, allowed) for n in range(site, self.world.width))

    def _rest_fits(self, state: State, kind: int, allowed: Marks) -> bool:
        demand = self.world.demand
        return all(self._reach(state, k, 0, demand[k], allowed) >= demand[k] for k in range(kind, len(demand)))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self.limit:
            raise TooBigError

    def _markings(self, state: State) -> Iterator[Marks]:
        """Those under which the state may be reached at all: the sites used, and more where that can loosen a spread.

        A further node helps a kind only if pods that its constraint counts are on it: any other adds nothing but domains without
        a pod, which is no better than fewer domains than minDomains.
        """
        world = self.world
        options = []
        for kind in range(len(world.kinds)):
            used = frozenset(n for n in range(world.width) if state[kind * world.width + n])
            more = sorted(n for n in range(world.width) if n not in used and self._counts_there(state, kind, n))
            options.append([used | set(extra) for extra in _subsets(more)])
        for marks in product(*options):
            self._step()
            pairs = ((kind, counting) for kind, every in enumerate(world.spreads) for counting in every)
            if all(self._may_end(state, counting, kind, marks) for kind, counting in pairs):
                yield marks

    def _counts_there(self, state: State, kind: int, site: int) -> bool:
        width = self.world.width
        return any(
            counting.rule.honors_affinity
            and site in counting.eligible
            and (counting.base[site] or any(state[other * width + site] for other in counting.kinds))
            for counting in self.world.spreads[kind]
        )

    def _may_end(self, state: State, counting: Counting, kind: int, marks: Marks) -> bool:
        """Where only pods of the kind itself count, its last one in a domain saw no higher minimum than there is in the end."""
        if counting.kinds != (kind,):
            return True
        counts = self.world.tally(state, counting, marks[kind])
        least = min(counts.values(), default=0) if len(counts) >= counting.rule.least_domains else 0
        used = (counting.domains[n] for n in range(self.world.width) if state[kind * self.world.width + n])
        return all(domain is not None and counts.get(domain, 0) - least <= counting.rule.skew for domain in used)


def within_levels(world: World, levels: Mapping[tuple[str, str], list[int]]) -> Iterator[Marks]:
    """The sites of each choice of one domain for every required level; `levels` are the kinds by topology key and group.

    A cordoned node is nobody's, even if pods tolerate the cordon: whoever set it wants the node empty.
    """
    every = frozenset(n for n, site in enumerate(world.sites) if not site.cordoned)
    domains = [sorted({site.labels[key] for site in world.sites if key in site.labels}) for key, _ in levels]
    for values in product(*domains):
        allowed = [every for _ in world.kinds]
        for ((key, _), kinds), value in zip(levels.items(), values, strict=True):
            inside = frozenset(n for n, site in enumerate(world.sites) if site.labels.get(key) == value)
            for kind in kinds:
                allowed[kind] = allowed[kind] & inside
        yield tuple(allowed)


def _with(state: State, at: int, count: int) -> State:
    return (*state[:at], count, *state[at + 1 :])


def _subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
