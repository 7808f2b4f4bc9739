"""Places, kinds of pods, and whether one more pod may go somewhere: the scheduler's filters over a state of counts.

A state is a tuple: how many pods of kind k are on site n, at index k * len(sites) + n.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.agreement.truth.admitted import Admitted, Namespaces, Spread
from bench.agreement.truth.amounts import Amounts
from bench.agreement.truth.matching import any_term, blocked, on_node

Json = dict[str, Any]
State = tuple[int, ...]
Marks = tuple[frozenset[int], ...]
"""By kind: the sites that its pods may go to and that it sees as nodes of its own."""
Pair = tuple[str, str]

_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_OLD_ZONES = {f"failure-domain.beta.kubernetes.io/{key.rpartition('/')[2]}": key for key in _ZONES}


@dataclass(frozen=True, eq=False)
class Site:
    """A node with its running pods; `offering` names what it would be bought from."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    cordoned: bool
    allocatable: Amounts
    running: tuple[Admitted, ...]
    offering: str = ""

    @cached_property
    def room(self) -> Amounts:
        return {
            name: amount - sum(pod.amounts.get(name, 0) for pod in self.running)
            for name, amount in ({"pods": 0} | self.allocatable).items()
        }


@dataclass(frozen=True, eq=False)
class Counting:
    """One spread constraint of one kind on these sites: `base` pods that count on each, and which kinds count."""

    rule: Spread
    domains: tuple[str | None, ...]
    base: tuple[int, ...]
    kinds: tuple[int, ...]
    itself: bool
    eligible: frozenset[int]


class World:
    """All that is fixed while pods come. `kinds` are the gang's pod sets, `demand` how many pods each has."""

    def __init__(self, sites: Sequence[Site], kinds: Sequence[Admitted], demand: Sequence[int], namespaces: Namespaces) -> None:
        self.sites, self.kinds, self.demand, self.namespaces = tuple(sites), tuple(kinds), tuple(demand), namespaces
        self.width = len(self.sites)
        self.asks = [[(name, amount) for name, amount in kind.amounts.items() if amount > 0] for kind in kinds]
        self.open = [[self._open(kind, site) for site in self.sites] for kind in kinds]
        self.rivals = [[_ports_clash(one.ports, other.ports) for other in kinds] for one in kinds]
        self.apart = [[self._apart(one, other) for other in kinds] for one in kinds]
        self.leaders = [[other for other in range(len(kinds)) if self._follows(kind, kinds[other])] for kind in kinds]
        self.anchors = [self._anchors(kind) for kind in kinds]
        self.spreads = [[self._counting(kind, rule) for rule in kind.spreads] for kind in kinds]

    @property
    def start(self) -> State:
        return (0,) * (self.width * len(self.kinds))

    def allows(self, state: State, kind: int, site: int, marks: Marks) -> bool:
        """Whether the scheduler may put one more pod of this kind on this site."""
        return (
            site in marks[kind]
            and self.open[kind][site]
            and self.slots(state, kind, site, 1) > 0
            and self.tolerated(state, kind, site)
            and self._near(state, kind, site)
            and all(self._spread(state, counting, kind, site, marks) for counting in self.spreads[kind])
        )

    def slots(self, state: State, kind: int, site: int, most: int) -> int:
        """How many more pods of this kind the site has resources and ports for, up to `most`."""
        width, room = self.width, self.sites[site].room
        here = [state[other * width + site] for other in range(len(self.kinds))]
        if self.rivals[kind][kind]:
            most = min(most, 1 - here[kind])
        if any(count and self.rivals[kind][other] for other, count in enumerate(here)):
            return 0
        for name, amount in self.asks[kind]:
            left = room.get(name, 0) - sum(count * self.kinds[other].amounts.get(name, 0) for other, count in enumerate(here))
            most = min(most, left // amount)
        return max(most, 0)

    def tolerated(self, state: State, kind: int, site: int) -> bool:
        """No pod of the gang keeps one of this kind out of the site's domains, nor wouldn't bear it there."""
        for other, keys in enumerate(self.apart[kind]):
            for key in keys:
                value = self.sites[site].labels.get(key)
                if value is not None and any(self._at(state, other, key, value)):
                    return False
        return True

    def _at(self, state: State, kind: int, key: str, value: str) -> Iterable[int]:
        offset = kind * self.width
        return (state[offset + n] for n, site in enumerate(self.sites) if site.labels.get(key) == value)

    # --- affinity -------------------------------------------------------------------------------------------------------

    def _near(self, state: State, kind: int, site: int) -> bool:
        """Each term's domain has a pod that all terms mean; or there is none anywhere and the pod itself is meant by all."""
        terms = self.kinds[kind].near
        labels = self.sites[site].labels
        if any(term.key not in labels for term in terms):
            return False
        pairs = self._pairs(state, kind) if terms else set()
        if all((term.key, labels[term.key]) in pairs for term in terms):
            return True
        return not pairs and kind in self.leaders[kind]

    def _pairs(self, state: State, kind: int) -> set[Pair]:
        found = set(self.anchors[kind])
        for leader in self.leaders[kind]:
            for n, site in enumerate(self.sites):
                if state[leader * self.width + n]:
                    found |= _pairs_of(self.kinds[kind], site)
        return found

    def _anchors(self, kind: Admitted) -> frozenset[Pair]:
        there = (site for site in self.sites if any(self._follows(kind, pod) for pod in site.running))
        return frozenset(pair for site in there for pair in _pairs_of(kind, site))

    def _follows(self, one: Admitted, other: Admitted) -> bool:
        return bool(one.near) and all(term.means(other, self.namespaces) for term in one.near)

    def _apart(self, one: Admitted, other: Admitted) -> frozenset[str]:
        """Levels at which the two may not share a domain, whichever of them says so."""
        mine = {term.key for term in one.apart if term.means(other, self.namespaces)}
        return frozenset(mine | {term.key for term in other.apart if term.means(one, self.namespaces)})

    # --- spread ---------------------------------------------------------------------------------------------------------

    def _spread(self, state: State, counting: Counting, kind: int, site: int, marks: Marks) -> bool:
        value = counting.domains[site]
        if value is None:
            return False
        counts = self.tally(state, counting, marks[kind])
        least = min(counts.values(), default=0) if len(counts) >= counting.rule.least_domains else 0
        return counts.get(value, 0) + counting.itself - least <= counting.rule.skew

    def tally(self, state: State, counting: Counting, marked: frozenset[int]) -> dict[str, int]:
        """Matching pods by domain."""
        counts: dict[str, int] = {}
        for n in counting.eligible & marked if counting.rule.honors_affinity else counting.eligible:
            value = counting.domains[n]
            assert value is not None
            there = counting.base[n] + sum(state[kind * self.width + n] for kind in counting.kinds)
            counts[value] = counts.get(value, 0) + there
        return counts

    def _counting(self, kind: Admitted, rule: Spread) -> Counting:
        keys = [each.key for each in kind.spreads]
        return Counting(
            rule,
            tuple(site.labels.get(rule.key) for site in self.sites),
            tuple(sum(rule.counts(pod, kind.namespace) for pod in site.running) for site in self.sites),
            tuple(n for n, other in enumerate(self.kinds) if rule.counts(other, kind.namespace)),
            rule.means_itself(kind),
            frozenset(n for n, site in enumerate(self.sites) if _eligible(kind, rule, keys, site)),
        )

    # --- what no pod of the gang changes ------------------------------------------------------------------------------------

    def _open(self, kind: Admitted, site: Site) -> bool:
        """One pod on one node, with all that runs: selectors, taints, volumes, ports, anti-affinity of both sides."""
        cordon = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if site.cordoned else []
        return (
            on_node(kind.spec, site.name, site.labels)
            and not blocked((*site.taints, *cordon), kind.tolerations)
            and all(_reaches(volume, site) for volume in kind.volumes)
            and not any(_ports_clash(kind.ports, pod.ports) for pod in site.running)
            and not self._repelled(kind, site)
        )

    def _repelled(self, kind: Admitted, site: Site) -> bool:
        for other in self.sites:
            keys = [key for pod in other.running for key in self._apart(kind, pod)]
            if any(key in site.labels and site.labels[key] == other.labels.get(key) for key in keys):
                return True
        return False


def _pairs_of(kind: Admitted, site: Site) -> set[Pair]:
    return {(term.key, site.labels[term.key]) for term in kind.near if term.key in site.labels}


def _eligible(kind: Admitted, rule: Spread, keys: Iterable[str], site: Site) -> bool:
    """Whether pods on this site count, and the site makes its domain one of those to spread over."""
    if any(key not in site.labels for key in keys):
        return False
    if rule.honors_affinity and not on_node(kind.spec, site.name, site.labels):
        return False
    return not (rule.honors_taints and blocked(site.taints, kind.tolerations))


def _ports_clash(one: Iterable[tuple[str, str, int]], other: Iterable[tuple[str, str, int]]) -> bool:
    return any(
        mine[1:] == theirs[1:] and (mine[0] == theirs[0] or "0.0.0.0" in (mine[0], theirs[0])) for mine in one for theirs in other
    )


def _reaches(volume: Json, site: Site) -> bool:
    """A bound volume's node affinity, and its zone labels where the node bears any (VolumeBinding, VolumeZone)."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is not None and not any_term(required["nodeSelectorTerms"], site.name, site.labels):
        return False
    if not any(key in site.labels for key in (*_ZONES, *_OLD_ZONES)):
        return True
    zones = {key: text for key, text in (volume["metadata"].get("labels") or {}).items() if key in _ZONES or key in _OLD_ZONES}
    return all(site.labels.get(key, site.labels.get(_OLD_ZONES.get(key, ""))) in text.split("__") for key, text in zones.items())
