"""Who may be asked to leave a node, and which nodes are to be left alone. Pure.

The annotations are those that users of other autoscalers know: `karpenter.sh/do-not-disrupt` on pods and nodes (Karpenter's docs,
"Disruption"), `cluster-autoscaler.kubernetes.io/safe-to-evict` on pods and `.../scale-down-disabled` on nodes (the FAQ of Cluster
Autoscaler), and one of our own for both.
"""

from collections.abc import Mapping

from kube import core
from kube.levels import DO_NOT_DISRUPT
from provisioner.nodes import marks
from provisioner.nodes.checkups import is_checkup

_HOLDS_POD = (
    (DO_NOT_DISRUPT, "true"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
)
_HOLDS_NODE = ((DO_NOT_DISRUPT, "true"), *marks.GUARD_ANNOTATIONS.items())
_REMADE = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds whose pods come back elsewhere and lose nothing by it. A Job's pod loses its work; nobody makes a bare pod again."""


def is_stranger(pod: core.Pod, bookings: frozenset[str] = frozenset(), *, home: str) -> bool:
    """A live pod that is neither a DaemonSet's, nor static, nor a health check's of the provisioner in namespace `home`, nor
    selects a key of these bookings.
    """
    kinds = {owner.kind for owner in pod.metadata.owner_references}
    return (
        not is_checkup(pod, home)
        and not pod.terminal
        and not kinds & {"DaemonSet", "Node"}
        and not bookings & marks.bookings_on(pod.spec.node_selector)
    )


def movable(pod: core.Pod) -> bool:
    """Whether a pod may be evicted for its node to go: another takes its place, it belongs to no booking, nobody forbids it."""
    remade = any(owner.controller and owner.kind in _REMADE for owner in pod.metadata.owner_references)
    return remade and not marks.bookings_on(pod.spec.node_selector) and not undisturbed(pod)


def undisturbed(pod: core.Pod) -> bool:
    """Whether its user forbids to disturb it."""
    return _held(pod.metadata.annotations, _HOLDS_POD)


def kept(node: core.Node) -> bool:
    """Whether somebody else than we ourselves has said that the node must stay."""
    notes = node.metadata.annotations
    ours = {*notes.get(marks.GUARDS, "").split(",")}
    return _held({key: value for key, value in notes.items() if key not in ours}, _HOLDS_NODE)


def _held(notes: Mapping[str, str], words: tuple[tuple[str, str], ...]) -> bool:
    return any(notes.get(key) == value for key, value in words)
