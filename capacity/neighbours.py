"""What pods that run already mean for where a gang's pods may go: inter-pod affinity and anti-affinity, exclusive domains and
topology spread, by topology key and domain.

The rules are those of kube-scheduler 1.36.3 (plugins interpodaffinity/filtering.go and podtopologyspread/filtering.go): a pod
counts in the domain that its node's label names; one on a node without the label counts nowhere; an affinity is met by pods that
match all of its terms; anti-affinity holds both ways.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from capacity.model import Labels, Node, PodSet, Running, Snapshot
from capacity.requirements import PodTerm, Spread, Taint, affinity_matches, selector_misses, untolerated

_FAR = "anti-affinity to pods that run in {}"
_SHUNNED = "pods that run in {} want none of these beside them"
_RIVALS = "{} is not exclusive: other pods run there"
_LONELY = "no pod that its affinity asks for runs anywhere or comes with the gang"


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the snapshot, ours to plan on or not, as affinity and spread see it."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    pods: tuple[Running, ...]


@dataclass(slots=True)
class _Ground:
    """How one pod set finds the ground: domain values that are `closed` to it, with the reason, and those where pods run that
    meet its affinity, by topology key; keys that a node must bear.
    """

    closed: dict[str, dict[str, str]] = field(default_factory=dict)
    met: dict[str, set[str]] = field(default_factory=dict)
    borne: tuple[str, ...] = ()
    lonely: bool = False
    settled: bool = True


def places(snapshot: Snapshot) -> Iterator[Place]:
    """All nodes there are, those of bookings and of nobody included."""
    for node in snapshot.nodes:
        yield Place(node.name, node.labels, node.taints, node.pods)
    for other in snapshot.bystanders:
        yield Place(other.name, other.labels, other.taints, other.pods)


def meets(pod_set: PodSet, namespace: str, labels: Labels) -> bool:
    """Whether a pod is one that the pod set's affinity asks for: all terms must select it."""
    return bool(pod_set.near) and all(term.selects(namespace, labels) for term in pod_set.near)


def spread_counts(spread: Spread, labels: Labels) -> bool:
    """Whether a spread counts a running pod of its namespace; an empty selector counts none, although it selects the pod that
    comes (podtopologyspread/common.go, countPodsMatchSelector).
    """
    return spread.selector is not None and bool(spread.selector.expressions) and spread.selector.selects(labels)


def in_spread(pod_set: PodSet, spread: Spread, place: Place) -> bool:
    """Whether a node is one of those whose domains the spread compares (matchNodeInclusionPolicies, podtopologyspread/common.go);
    a booking's own taint keeps no pod of its gang away.
    """
    if any(one.topology_key not in place.labels for one in pod_set.spreads):
        return False
    if spread.honors_affinity and selector_misses(pod_set.node_selector, place.labels) is not None:
        return False
    if spread.honors_affinity and not affinity_matches(pod_set.affinity, place.labels, place.name):
        return False
    return not spread.honors_taints or untolerated(place.taints, pod_set.tolerations) is None


class Neighbours:
    """Running pods and those still to come for a booking, seen by each pod set of a gang.

    `keys` are the topology keys that `refusal` looks at, sorted; none where nothing keeps any pod set from anywhere.
    """

    def __init__(self, snapshot: Snapshot, pod_sets: Sequence[PodSet]) -> None:
        self._snapshot = snapshot
        self._pod_sets = pod_sets
        self._grounds = [_Ground(borne=_borne(pod_set)) for pod_set in pod_sets]
        self._look(snapshot)
        for index, ground in enumerate(self._grounds):
            ground.lonely = bool(pod_sets[index].near) and not ground.met and next(self._feeders(index), None) is None
            ground.settled = self._settled(index)
        self.keys = tuple(sorted({key for ground in self._grounds for key in (*ground.borne, *ground.closed)}))

    def refusal(self, index: int, labels: Labels, unknown: frozenset[str] = frozenset(), *, openly: bool = False) -> str:
        """Why running pods keep pod set `index` off a node with these labels, "" when they don't. A key in `unknown`, which only
        a launch tells, refuses when its value would matter. `openly`: other pod sets of the gang may have opened domains to its
        affinity in which no such pod runs yet.
        """
        ground = self._grounds[index]
        if ground.lonely:
            return _LONELY
        for key in ground.borne:
            if key not in labels:
                return f"{key} is not known before launch" if key in unknown else f"has no label {key}"
        for key, values in sorted(ground.met.items()) if not openly else ():
            if labels[key] not in values:
                return f"no pod that its affinity asks for runs in {key}={labels[key]}"
        for key, reasons in ground.closed.items():
            if key in unknown:
                return f"{key} is not known before launch"
            if key in labels and (why := reasons.get(labels[key])):
                return why
        return ""

    def minds(self, pods: Sequence[Running]) -> bool:
        """Whether some pod set's rules, or rules of these pods about it, make a difference wherever such pods are."""
        return any(_minds(one, pod) for pod in pods for one in self._pod_sets)

    def attracted(self, index: int) -> bool:
        """Whether running pods meet its affinity somewhere: `refusal` then confines it to their domains."""
        return bool(self._grounds[index].met)

    def met(self, index: int, key: str) -> frozenset[str]:
        """The domains where running pods meet its affinity."""
        return frozenset(self._grounds[index].met.get(key, ()))

    def settled(self, index: int) -> bool:
        """Of a pod set that is attracted: whether these domains are all that its pods could ever get. False when another pod set
        of the gang meets the affinity and may open more of them, depending on where its pods go and on the order.
        """
        return self._grounds[index].settled

    def counted(self, index: int, spread: int, node: Node) -> int:
        """How many pods that run on the node a spread counts."""
        return self._count(self._pod_sets[index], self._pod_sets[index].spreads[spread], node.pods)

    def domains(self, index: int, spread: int) -> dict[str, int]:
        """Every domain that a spread compares on the nodes there are, with its number of running pods. Node affinity is that of
        the pod set itself: what a booking's label adds isn't known here.
        """
        pod_set, rule = self._pod_sets[index], self._pod_sets[index].spreads[spread]
        counts: dict[str, int] = {}
        for place in places(self._snapshot):
            if in_spread(pod_set, rule, place):
                value = place.labels[rule.topology_key]
                counts[value] = counts.get(value, 0) + self._count(pod_set, rule, place.pods)
        return counts

    @staticmethod
    def _count(pod_set: PodSet, rule: Spread, pods: Sequence[Running]) -> int:
        return sum(not pod.terminating and pod.namespace == pod_set.namespace and spread_counts(rule, pod.labels) for pod in pods)

    def _look(self, snapshot: Snapshot) -> None:
        """The one pass over all pods; pod sets without rules of their own are looked at for pods with anti-affinity only."""
        ruled = [
            (pod_set, ground)
            for pod_set, ground in zip(self._pod_sets, self._grounds, strict=True)
            if pod_set.near or pod_set.apart or pod_set.exclusive is not None
        ]
        for place in places(snapshot):
            for pod in place.pods:
                for pod_set, ground in ruled:
                    _own_rules(pod_set, ground, pod, place.labels)
                if pod.apart:
                    for pod_set, ground in zip(self._pod_sets, self._grounds, strict=True):
                        terms = (term for term in pod.apart if term.selects(pod_set.namespace, pod_set.labels))
                        _close(ground, terms, place.labels, _SHUNNED)

    def _feeders(self, index: int) -> Iterator[int]:
        """The pod sets, itself among them, whose pods meet its affinity."""
        wants = self._pod_sets[index]
        return (other for other, one in enumerate(self._pod_sets) if meets(wants, one.namespace, one.labels))

    def _settled(self, index: int) -> bool:
        """Whether pods that meet its affinity stay in the domains of running ones: all feeders, and theirs in turn, are drawn to
        just these, so that none of them can be the first elsewhere.
        """
        met, seen, ahead = self._grounds[index].met, {index}, [index]
        while ahead:
            for other in self._feeders(ahead.pop()):
                theirs = self._grounds[other].met
                if any(key not in theirs or not theirs[key] <= values for key, values in met.items()):
                    return False
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
        return True


def _minds(pod_set: PodSet, pod: Running) -> bool:
    selected = meets(pod_set, pod.namespace, pod.labels) or any(term.selects(pod.namespace, pod.labels) for term in pod_set.apart)
    spread = pod.namespace == pod_set.namespace and any(spread_counts(one, pod.labels) for one in pod_set.spreads)
    rival = pod_set.exclusive is not None and pod_set.exclusive.rivals.selects(pod.labels)
    return selected or spread or rival or any(term.selects(pod_set.namespace, pod_set.labels) for term in pod.apart)


def _borne(pod_set: PodSet) -> tuple[str, ...]:
    """The keys that a node must bear: those of affinity terms, spreads and the exclusive domain."""
    keys = {term.topology_key for term in pod_set.near} | {spread.topology_key for spread in pod_set.spreads}
    return tuple(sorted(keys if pod_set.exclusive is None else keys | {pod_set.exclusive.topology_key}))


def _own_rules(pod_set: PodSet, ground: _Ground, pod: Running, labels: Labels) -> None:
    """What a running pod on a node with these labels means by the pod set's own rules."""
    if pod_set.near and meets(pod_set, pod.namespace, pod.labels):
        _meet(ground, {term.topology_key for term in pod_set.near}, labels)
    if pod_set.apart:
        _close(ground, (term for term in pod_set.apart if term.selects(pod.namespace, pod.labels)), labels, _FAR)
    if pod_set.exclusive is not None and pod_set.exclusive.rivals.selects(pod.labels):
        _close_one(ground, pod_set.exclusive.topology_key, labels, _RIVALS)


def _meet(ground: _Ground, keys: set[str], labels: Labels) -> None:
    """A pod here meets the affinity. Once one does in some domain, each key has only such domains, be they none."""
    if any(key in labels for key in keys):
        for key in keys:
            ground.met.setdefault(key, set()).update({labels[key]} if key in labels else ())


def _close(ground: _Ground, terms: Iterator[PodTerm], labels: Labels, text: str) -> None:
    for term in terms:
        _close_one(ground, term.topology_key, labels, text)


def _close_one(ground: _Ground, key: str, labels: Mapping[str, str], text: str) -> None:
    if (value := labels.get(key)) is not None:
        ground.closed.setdefault(key, {}).setdefault(value, text.format(f"{key}={value}"))
