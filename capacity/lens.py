"""What a gang can tell nodes apart by: those that look alike through its lens are judged once."""

from collections.abc import Iterator, Sequence

from capacity.fit import Host, needs
from capacity.model import Node, PodSet

Glimpse = tuple[object, ...]


class Lens:
    """The labels that the pod sets' selectors name, the resources that they ask for, and taints."""

    def __init__(self, pod_sets: Sequence[PodSet]) -> None:
        self._resources = tuple(sorted({name for pod_set in pod_sets for name in needs(pod_set)}))
        self._labels = tuple(sorted({key for pod_set in pod_sets for key in _asked(pod_set)}))
        self._named = any(term.fields for pod_set in pod_sets for term in pod_set.affinity or ())

    def node(self, node: Node) -> Glimpse:
        """All that any filter looks at, free amounts included."""
        labels, whole, used = node.labels, node.allocatable, node.requested
        return (
            node.taints,
            node.name if self._named else "",
            *[labels.get(key) for key in self._labels],
            *[whole.get(name, 0) - used.get(name, 0) for name in self._resources],
        )

    def filters(self, where: Host) -> Glimpse:
        """What decides whether pods are let in at all, room apart."""
        labels = [where.labels.get(key) for key in self._labels]
        return (where.taints, where.unknown, where.name if self._named else "", *labels)


def _asked(pod_set: PodSet) -> Iterator[str]:
    yield from pod_set.node_selector
    for term in pod_set.affinity or ():
        yield from (expression.key for expression in term.expressions)
