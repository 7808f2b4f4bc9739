"""What a gang can tell nodes apart by: those that look alike through its lens are judged once."""

from collections.abc import Iterator, Sequence

from capacity.fit import Host, is_port, needs, ports_left, room
from capacity.model import Node, PodSet
from capacity.requirements import NodeSelectorTerm

Glimpse = tuple[object, ...]


class Lens:
    """The labels that the pod sets' selectors, affinities and volumes name, the resources and ports that they ask for, and
    taints. What running pods mean for their place is not seen through it (neighbours.py). `labels` are the label keys in order;
    `named` tells that nodes are asked for by name.
    """

    def __init__(self, pod_sets: Sequence[PodSet]) -> None:
        names = sorted({name for pod_set in pod_sets for name in needs(pod_set)})
        self._resources = tuple(name for name in names if not is_port(name))
        self._ports = tuple(name for name in names if is_port(name))
        self.labels = tuple(sorted({key for pod_set in pod_sets for key in _asked(pod_set)}))
        self.named = any(term.fields for pod_set in pod_sets for term in _terms(pod_set))

    def node(self, node: Node) -> Glimpse:
        """All that any filter looks at, free amounts included."""
        labels, whole, used = node.labels, node.allocatable, node.requested
        return (
            node.taints,
            node.name if self.named else "",
            *[labels.get(key) for key in self.labels],
            *[whole.get(name, 0) - used.get(name, 0) for name in self._resources],
            *(self._open(node) if self._ports else ()),
        )

    def filters(self, where: Host) -> Glimpse:
        """What decides whether pods are let in at all, room apart."""
        labels = [where.labels.get(key) for key in self.labels]
        return (where.taints, where.unknown, where.name if self.named else "", *labels)

    def _open(self, node: Node) -> Iterator[int]:
        left = ports_left(pod.ports for pod in node.pods)
        return (room(left, name) for name in self._ports)


def _asked(pod_set: PodSet) -> Iterator[str]:
    yield from pod_set.node_selector
    for term in _terms(pod_set):
        yield from (expression.key for expression in term.expressions)


def _terms(pod_set: PodSet) -> Iterator[NodeSelectorTerm]:
    for terms in (pod_set.affinity or (), *pod_set.volumes):
        yield from terms
