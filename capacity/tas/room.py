"""How many pods, slices and leaders fit in each domain of a topology, as Kueue v0.17.0 counts them
(pkg/cache/scheduler/tas_flavor_snapshot.go, fillInCounts).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from capacity.fit import Host
from capacity.model import Resources, Slices

PODS = "pods"
Placement = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Request:
    """One pod set as Kueue sees it. `requests` are one pod's, `hosts` the names of those that its selector, affinity and
    tolerations admit.

    With neither `required` nor `preferred` it is unconstrained. The two pod sets of one `group` are placed together: a leader,
    which is the one of fewer pods, and its workers, whose topology counts for both.
    """

    name: str
    count: int
    requests: Resources
    hosts: frozenset[str]
    required: str | None = None
    preferred: str | None = None
    slices: Slices | None = None
    group: str = ""


class RefusalError(Exception):
    """Kueue's word that `pod_set` does not fit: `fits` of `wanted` units do, each a slice, or a pod where there are no slices."""

    def __init__(self, pod_set: str, fits: int, wanted: int, reason: str = "") -> None:
        super().__init__(reason or f"Kueue can place {fits} of {wanted} units of {pod_set}")
        self.pod_set, self.fits, self.wanted, self.counted = pod_set, fits, wanted, not reason


@dataclass(slots=True, eq=False)
class Domain:
    """What a domain has room for and, once it is chosen, what it is given. `led_*` is the room left if a leader sits in it."""

    values: tuple[str, ...]
    host: str = ""
    free: Mapping[str, int] = field(default_factory=dict)
    children: list["Domain"] = field(default_factory=list)
    leaders: int = 0
    pods: int = 0
    led_pods: int = 0
    slices: int = 0
    led_slices: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """What a group wants. Levels are numbered from the widest, 0; `size` is that of a slice; `loose`: unconstrained."""

    workers: Request
    leader: Request | None
    size: int
    level: int
    slice_level: int
    loose: bool

    @property
    def leaders(self) -> int:
        """How many leaders Kueue looks for: one, whatever the leader's count."""
        return int(self.leader is not None)


Tree = list[list[Domain]]
Usage = Mapping[str, Mapping[str, int]]


def grow(hosts: Iterable[Host], levels: Sequence[str]) -> Tree:
    """The domains of each level, the widest level first, hosts last; a host that lacks a level's label is left out."""
    known: list[dict[tuple[str, ...], Domain]] = [{} for _ in levels]
    for host in hosts:
        if all(key in host.labels for key in levels):
            values = tuple(host.labels[key] for key in levels)
            known[-1][values] = Domain(values, host.name, host.free)
    for depth in range(len(levels) - 1, 0, -1):
        for domain in known[depth].values():
            above = domain.values[:-1]
            known[depth - 1].setdefault(above, Domain(above)).children.append(domain)
    return [list(domains.values()) for domains in known]


def fill(tree: Tree, ask: Ask, used: Usage) -> None:
    """Count anew what fits in each domain beside what is `used`, in pods and, from the level of slices up, in slices."""
    leader = ask.leader
    one = {**ask.workers.requests, PODS: 1}
    first = {**leader.requests, PODS: 1} if leader else {}
    for leaf in tree[-1]:
        leaf.leaders = leaf.pods = leaf.led_pods = leaf.slices = leaf.led_slices = 0
        if leaf.host in ask.workers.hosts:
            free = _less(leaf.free, used.get(leaf.host, {}))
            leaf.pods = _times(one, free)
            leaf.leaders = int(leader is not None and _times(first, free) > 0)
            leaf.led_pods = _times(one, _less(free, first)) if leaf.leaders else leaf.pods
    for level in range(len(tree) - 1, -1, -1):
        for domain in tree[level]:
            if domain.children:
                _gather(domain)
            if level == ask.slice_level:
                domain.slices, domain.led_slices = _quotient(domain.pods, ask.size), _quotient(domain.led_pods, ask.size)


def _gather(domain: Domain) -> None:
    """The room of all children; a leader is thought to cost what it costs in the child where it costs least."""
    domain.pods = sum(child.pods for child in domain.children)
    domain.slices = sum(child.slices for child in domain.children)
    domain.led_pods = domain.pods - min(child.pods - child.led_pods for child in domain.children)
    domain.led_slices = domain.slices - min(child.slices - child.led_slices for child in domain.children)
    domain.leaders = max(child.leaders for child in domain.children)


def _less(free: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    return {name: free.get(name, 0) - taken.get(name, 0) for name in free.keys() | taken.keys()}


def _times(one: Resources, free: Mapping[str, int]) -> int:
    """How often a pod fits, negative where more is used than there is; each quotient is cut to 32 bits, as Kueue does."""
    wanted = [(name, amount) for name, amount in one.items() if amount]
    if any(name not in free for name, _ in wanted):
        return 0
    return min((_quotient(free[name], amount) + 2**31) % 2**32 - 2**31 for name, amount in wanted)


def _quotient(amount: int, size: int) -> int:
    """Rounded toward zero, as Go divides."""
    return amount // size if amount >= 0 else -(-amount // size)
