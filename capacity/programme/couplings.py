"""What ties the pods of a gang to each other: levels that they share, domains that they keep apart, and how they spread.

Sources: kube-scheduler 1.36.3, plugins InterPodAffinity and PodTopologySpread; JobSet and LeaderWorkerSet, exclusive topology;
Kueue 0.17, topology slices. Each rule here is about whole domains of one topology key. What is about single hosts becomes a cap
on the pods of a role on one node, or a pair of roles that never share one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from capacity.model import HOSTNAME, PodSet
from capacity.neighbours import Neighbours
from capacity.requirements import PodTerm, Spread

Pair = tuple[int, int]
ALWAYS = ""


@dataclass(frozen=True, slots=True)
class Bind:
    """All pods of these roles are in one domain."""

    key: str
    roles: frozenset[int]


@dataclass(frozen=True, slots=True)
class Apart:
    """No domain has pods of both roles; one role named twice has at most one pod in each."""

    key: str
    one: int
    other: int


@dataclass(frozen=True, slots=True)
class Even:
    """Pods of the role in one domain never exceed those in the emptiest by more than `skew`; the emptiest counts as empty while
    there are fewer than `min_domains`. `spread` is the place of the constraint among the pod set's own. `elsewhere` holds the
    running pods of every domain where the domains don't depend on the nodes that are chosen. Pods of `others` count, too,
    on nodes that are the role's as well.
    """

    key: str
    role: int
    skew: int
    min_domains: int
    spread: int
    elsewhere: Mapping[str, int] | None = None
    others: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Sliced:
    """The role comes in whole slices of `size`, each within one domain. `exact`: nobody pins the pods, so each domain must be
    filled to the last slot.
    """

    key: str
    role: int
    size: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Units:
    """The role comes in units of `size`, each the only one in its domain."""

    key: str
    role: int
    size: int


@dataclass(frozen=True, slots=True)
class Follow:
    """Each domain with pods of the role has pods of `others`, too; but those where running pods `met` its affinity, and one where
    the role itself came `first`.
    """

    key: str
    role: int
    others: frozenset[int]
    first: bool
    met: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Many:
    """At least `nodes` nodes are taken for the role."""

    role: int
    nodes: int
    key: str = ""


Rule = Apart | Even | Follow | Sliced | Units | Many


@dataclass(slots=True)
class Couplings:
    """`herds` are roles that a plan keeps in one domain, of which all that must hold is in `follows`; roles in `opened` may join
    domains that others of the gang open. `lonely` names the keys of whose domains a role has at most one pod, `strangers` the
    pairs of roles that share no node with one of the keys (ALWAYS: none at all), `shunned` those that share none in a plan. On
    nodes with a pod that a constraint in `shy` (role, place among its spreads) counts, the role is not put if it can be helped;
    `barred` are domains that are full by what runs already. `unclear` says why nothing can be told at all, `loose` why at least a
    "no" can't be; `impossible` why no pod of some role can ever be first.
    """

    binds: list[Bind] = field(default_factory=list)
    herds: list[Bind] = field(default_factory=list)
    follows: list[Follow] = field(default_factory=list)
    opened: set[int] = field(default_factory=set)
    rules: list[Rule] = field(default_factory=list)
    lonely: dict[int, set[str]] = field(default_factory=dict)
    strangers: dict[Pair, set[str]] = field(default_factory=dict)
    shunned: set[Pair] = field(default_factory=set)
    shy: set[Pair] = field(default_factory=set)
    barred: dict[tuple[int, str], frozenset[str]] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    impossible: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Topology keys by whose domains nodes must be told apart, bound levels apart."""
        return tuple(sorted({rule.key for rule in (*self.rules, *self.follows)} - {HOSTNAME}))

    def wide(self) -> tuple[Rule, ...]:
        """The rules about domains of several hosts."""
        return tuple(rule for rule in self.rules if rule.key != HOSTNAME)

    def local(self) -> tuple[Rule, ...]:
        """The rules about single hosts."""
        return tuple(rule for rule in self.rules if rule.key == HOSTNAME)

    def part(self, one: int, other: int, key: str = ALWAYS) -> None:
        self.strangers.setdefault((min(one, other), max(one, other)), set()).add(key)

    def parted(self, borne: Collection[str], *, wary: bool = True) -> frozenset[Pair]:
        """The pairs of roles that can't share a node that bears these label keys, or had better not (`wary`)."""
        parted = (pair for pair, keys in self.strangers.items() if ALWAYS in keys or any(key in borne for key in keys))
        return frozenset(parted) | frozenset(self.shunned if wary else ())

    def tied(self) -> tuple[int, ...]:
        """The roles that some rule looks at."""
        return tuple(sorted({role for rule in (*self.rules, *self.follows) for role in concerned(rule)}))

    def alone(self, role: int, borne: Collection[str]) -> bool:
        """Whether at most one pod of the role can be on a node that bears these label keys."""
        return any(key in borne for key in self.lonely.get(role, ()))


def concerned(rule: Rule) -> tuple[int, ...]:
    return (rule.one, rule.other) if isinstance(rule, Apart) else (rule.role,)


def couple(pod_sets: Sequence[PodSet], neighbours: Neighbours) -> Couplings:
    """The rules among the pod sets of a gang (one for each role)."""
    found = Couplings()
    _affinity(found, pod_sets, neighbours)
    for index, pod_set in enumerate(pod_sets):
        _anti_affinity(found, pod_sets, index)
        _exclusive(found, pod_sets, index)
        if pod_set.slices:
            _sliced(found, index, pod_set, len(pod_sets))
        for place, spread in enumerate(pod_set.spreads):
            _spread(found, pod_sets, index, place, spread, neighbours)
    found.rules = [rule for place, rule in enumerate(found.rules) if rule not in found.rules[:place]]
    return found


def _selects(terms: Sequence[PodTerm], pod_set: PodSet) -> bool:
    return all(term.selects(pod_set.namespace, pod_set.labels) for term in terms)


# --- affinity -------------------------------------------------------------------------------------------------------------


def _affinity(found: Couplings, pod_sets: Sequence[PodSet], neighbours: Neighbours) -> None:
    """A pod must join a domain with a pod that matches all its terms. Where none runs yet, the first of a role that matches
    itself picks a domain and all others follow; one that doesn't waits for pods of another role.
    """
    waits: dict[int, set[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        if not pod_set.near:
            continue
        matching = {other for other, one in enumerate(pod_sets) if _selects(pod_set.near, one)}
        if neighbours.attracted(index):
            if not neighbours.settled(index):
                found.opened.add(index)
                others = frozenset(matching - {index})
                for key in sorted({term.topology_key for term in pod_set.near}):
                    found.follows.append(Follow(key, index, others, first=False, met=neighbours.met(index, key)))
            continue
        waits[index] = set() if index in matching else matching
        keys, others = sorted({term.topology_key for term in pod_set.near}), frozenset(matching - {index})
        if others:
            found.herds += [Bind(key, others | {index}) for key in keys]
            found.follows += [Follow(key, index, others, index in matching) for key in keys]
        else:
            found.binds += [Bind(key, frozenset({index})) for key in keys]
    stuck = _stuck(waits)
    if stuck:
        found.impossible = f"{pod_sets[min(stuck)].name}: no pod that its affinity asks for runs or can come first"


def _stuck(waits: Mapping[int, set[int]]) -> set[int]:
    """Roles of which no pod can ever be the first: all that they could follow wait for others, too."""
    stuck = {role for role, matching in waits.items() if matching}
    while freed := {role for role in stuck if waits[role] - stuck}:
        stuck -= freed
    return stuck


# --- anti-affinity --------------------------------------------------------------------------------------------------------


def _anti_affinity(found: Couplings, pod_sets: Sequence[PodSet], index: int) -> None:
    """Terms hold both ways: pods that match an earlier pod's term are kept off, too."""
    for term in pod_sets[index].apart:
        for other, one in enumerate(pod_sets):
            if term.selects(one.namespace, one.labels):
                _keep_apart(found, term.topology_key, index, other)


def _keep_apart(found: Couplings, key: str, one: int, other: int) -> None:
    if one == other:
        found.lonely.setdefault(one, set()).add(key)
    else:
        found.part(one, other, key)
    if key != HOSTNAME:
        found.rules.append(Apart(key, min(one, other), max(one, other)))


def _exclusive(found: Couplings, pod_sets: Sequence[PodSet], index: int) -> None:
    """All pods of a JobSet or LeaderWorkerSet bear the rivals' label once they exist, so other units of the gang are kept off."""
    wish = pod_sets[index].exclusive
    if wish is None:
        return
    group = pod_sets[index].topology_group
    fellows = {
        other
        for other, one in enumerate(pod_sets)
        if other == index or (not wish.size and one.exclusive and one.topology_group == group and one.exclusive.size == 0)
    }
    if wish.size:
        found.rules.append(Units(wish.topology_key, index, wish.size))
        if pod_sets[index].count % wish.size:
            found.unclear.append(_torn(pod_sets[index], "units", wish.size))
    else:
        found.binds.append(Bind(wish.topology_key, frozenset(fellows)))
    for other, one in enumerate(pod_sets):
        if other not in fellows and (one.exclusive or wish.rivals.selects(one.labels)):
            _keep_apart(found, wish.topology_key, index, other)


def _torn(pod_set: PodSet, what: str, size: int) -> str:
    remedy = f"ask for a multiple of {size}, or for {what} of another size"
    return f"{pod_set.name}: {pod_set.count} pods are no whole {what} of {size}: {remedy}"


# --- slices and spreads ---------------------------------------------------------------------------------------------------


def _sliced(found: Couplings, index: int, pod_set: PodSet, roles: int) -> None:
    assert pod_set.slices is not None
    size = pod_set.slices.size
    if size < 1 or pod_set.count % size:
        found.unclear.append(_torn(pod_set, "slices", size))
    elif size > 1:
        found.rules.append(Sliced(pod_set.slices.topology_key, index, size, exact=not pod_set.placed_by_kueue))
        for other in range(roles) if not pod_set.placed_by_kueue else ():
            if other != index:
                found.shunned.add((min(index, other), max(index, other)))


def _spread(found: Couplings, pod_sets: Sequence[PodSet], index: int, place: int, spread: Spread, neighbours: Neighbours) -> None:
    """A constraint that selects nothing, or all pods by an empty selector, never counts one (1.36.3): only its key matters."""
    if spread.selector is None or not spread.selector.expressions:
        return
    me = pod_sets[index]
    others = [
        other
        for other, one in enumerate(pod_sets)
        if other != index and one.namespace == me.namespace and spread.selector.selects(one.labels)
    ]
    mine = spread.selector.selects(me.labels)
    if others and not spread.honors_affinity:
        found.unclear.append(f"{me.name}: its spread over {spread.topology_key} counts pods of other pod sets wherever they are")
    if mine and spread.topology_key != HOSTNAME:
        found.shunned |= {(min(index, other), max(index, other)) for other in others}
    elif others:
        for other in others:
            found.part(index, other)
        found.loose.append(f"{me.name}: its spread over {spread.topology_key} counts pods of other pod sets")
    elsewhere = None if spread.honors_affinity else neighbours.domains(index, place)
    if mine:
        counted = frozenset(others)
        if spread.honors_affinity and spread.min_domains > 1 and any(neighbours.domains(index, place).values()):
            found.loose.append(f"{me.name}: its spread over {spread.topology_key} counts domains that none of its pods can join")
        found.rules.append(Even(spread.topology_key, index, spread.max_skew, spread.min_domains, place, elsewhere, counted))
    elif elsewhere is None:
        found.shy.add((index, place))
    else:
        least = min(elsewhere.values(), default=0) if len(elsewhere) >= spread.min_domains else 0
        full = frozenset(value for value, count in elsewhere.items() if count - least > spread.max_skew)
        found.barred[index, spread.topology_key] = found.barred.get((index, spread.topology_key), frozenset()) | full


def unions(binds: Sequence[Bind]) -> Iterator[Bind]:
    """The same binds with those of one key that share a role joined into one."""
    left = list(binds)
    while left:
        first = left.pop(0)
        while near := [bind for bind in left if bind.key == first.key and bind.roles & first.roles]:
            first = Bind(first.key, first.roles.union(*(bind.roles for bind in near)))
            left = [bind for bind in left if bind not in near]
        yield first
