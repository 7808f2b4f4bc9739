"""DaemonSets on a pool's nodes: what they take of each node, and which of them the booked taint would keep away."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacity.model import HOSTNAME, Labels, PodSet, Resources, Running, Shape
from capacity.requirements import Taint, affinity_matches, selector_misses, untolerated
from kube import core, ours
from kube.podspec import daemon_pod_set, taints
from kube.pools import launched_labels
from kube.requests import PodSpecError
from provisioner.state import BOOKED

BOOKED_TAINT = Taint(BOOKED, "NoSchedule")
_NEW_NODE = "a-node-that-is-not-there-yet"


@dataclass(frozen=True, slots=True)
class Blocked:
    """`offenders` don't tolerate the taint, `missing` are required but don't exist; both as namespace/name.

    `required` are those of both that the pool requires: while there are any, nothing is bought from it.
    """

    offenders: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        parts = []
        if self.offenders:
            parts.append(
                f"{_names(self.offenders)} would not run on booked nodes: add the toleration "
                f"{{key: {BOOKED}, operator: Exists, effect: NoSchedule}} to the pod template"
            )
        if self.missing:
            parts.append(
                f"{_names(self.missing)}: required by requiredDaemonSets but not there: create it or take it off the list"
            )
        if parts and not self.required:
            parts.append("none of them is required, so the pool goes on")
        return "; ".join(parts)


def daemon_pods(daemon_sets: Iterable[core.DaemonSet]) -> tuple[PodSet, ...]:
    """One pod of each DaemonSet, named namespace/name; one whose amounts can't be read runs nowhere and is left out."""
    return tuple(pod for pod in map(_pod, daemon_sets) if pod is not None)


def _pod(daemon_set: core.DaemonSet) -> PodSet | None:
    try:
        return daemon_pod_set(daemon_set)
    except PodSpecError:
        return None


def overheads(pool: ours.CapacityPool, shapes: Iterable[Shape], daemons: Sequence[PodSet]) -> Mapping[str, Resources]:
    """Shape name -> what the DaemonSets that run on its booked nodes take of each."""
    return {shape.name: _sum(pod.requests for pod in daemons if _booked(pod, shape, pool)) for shape in shapes}


def company(pool: ours.CapacityPool, shapes: Iterable[Shape], daemons: Sequence[PodSet]) -> Mapping[str, tuple[Running, ...]]:
    """Shape name -> the pods of these DaemonSets, as other pods see them."""
    return {shape.name: tuple(alongside(pod) for pod in daemons if _booked(pod, shape, pool)) for shape in shapes}


def alongside(pod: PodSet) -> Running:
    """A pod of a DaemonSet on a node that is not there yet."""
    return Running(pod.namespace, pod.labels, pod.ports, pod.apart)


def _booked(pod: PodSet, shape: Shape, pool: ours.CapacityPool) -> bool:
    return runs_on(pod, shape_labels(shape, pool), (*shape.taints, BOOKED_TAINT), _NEW_NODE)


def shape_labels(shape: Shape, pool: ours.CapacityPool) -> Labels:
    """The labels that nodes of the shape are sure to have in this pool."""
    return {**shape.labels, **launched_labels(pool)}


def runs_on(pod: PodSet, labels: Labels, node_taints: Iterable[Taint], name: str) -> bool:
    """Whether the DaemonSet controller would make a pod for the node (its own rule: selector, affinity and taints alone)."""
    if selector_misses(pod.node_selector, labels) or untolerated(node_taints, pod.tolerations):
        return False
    return affinity_matches(pod.affinity, {HOSTNAME: name, **labels}, name)


def _sum(parts: Iterable[Resources]) -> Resources:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def blocked(pool: ours.CapacityPool, shapes: Iterable[Shape], nodes: Iterable[core.Node], daemons: Sequence[PodSet]) -> Blocked:
    """Looks at each DaemonSet that runs on the pool's nodes or would run on its shapes if it weren't for the taint."""
    places = [(shape_labels(shape, pool), tuple(shape.taints), _NEW_NODE) for shape in shapes]
    places += [(node.metadata.labels, lasting(node), node.metadata.name) for node in nodes]
    required = set(pool.spec.readiness.required_daemon_sets)
    refusing = [pod for pod in daemons if untolerated((BOOKED_TAINT,), pod.tolerations)]
    offenders = tuple(pod.name for pod in refusing if pod.name in required or any(runs_on(pod, *place) for place in places))
    missing = tuple(sorted(required - {pod.name for pod in daemons}))
    return Blocked(offenders, missing, tuple(sorted({*missing, *(required & set(offenders))})))


def ready_on(pods: Iterable[core.Pod]) -> Iterable[str]:
    """The DaemonSets (namespace/name) of those of a node's pods that are ready."""
    for pod in pods:
        if any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions):
            yield from (f"{pod.metadata.namespace}/{o.name}" for o in pod.metadata.owner_references if o.kind == "DaemonSet")


def lasting(node: core.Node) -> tuple[Taint, ...]:
    """Its taints without those that say how it is at the moment, and without ours."""
    passing = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", BOOKED)
    return tuple(taint for taint in taints(node.spec.taints) if not taint.key.startswith(passing))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"DaemonSet {name}" for name in names)
