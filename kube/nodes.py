"""From a Node and the pods on it to the planner's Node and Shape."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from capacity import model
from capacity.model import Labels, Resources
from capacity.quantity import amount
from kube.core import Node, Pod, ResourceList
from kube.podrules import NO_NAMESPACES, apart, host_ports
from kube.podspec import taints
from kube.requests import pod_requests

BOOKED = "corral.dev/booked"

_PER_NODE = frozenset({"kubernetes.io/hostname"})
_OURS = "corral.dev/"
_OUR_MARKS = ".booking.corral.dev/"
# Taints that say how the node is at the moment, not what it is: Kubernetes docs, "Well-Known Labels, Annotations and Taints".
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", _OURS)


class Standing(TypedDict, total=False):
    """What the cluster doesn't say about a node and the caller knows; names and units as in `capacity.model.Node`."""

    booked_by: str | None
    capacity_type: model.CapacityType | None
    reservation: str | None
    ends: int | None
    price: int


def node(
    view: Node,
    pods: Iterable[Pod],
    *,
    pool: str,
    namespaces: Mapping[str, Labels] = NO_NAMESPACES,
    **standing: Unpack[Standing],
) -> model.Node:
    """The planner's node. All pods on it count until they are terminal, those being deleted included. `namespaces` as for
    `running`.

    Raises ValueError for an amount that is no quantity.
    """
    pods = [pod for pod in pods if not pod.terminal]
    return model.Node(
        name=view.metadata.name,
        pool=pool,
        allocatable=amounts(view.status.allocatable),
        requested=requested(pods),
        labels=view.metadata.labels,
        taints=taints(view.spec.taints),
        unschedulable=view.spec.unschedulable,
        ready=view.ready,
        pods=tuple(replace(running(pod, namespaces), requests=pod_requests(pod.spec, pod.status)) for pod in pods),
        **standing,
    )


def running(pod: Pod, namespaces: Mapping[str, Labels] = NO_NAMESPACES) -> model.Running:
    """What the pod means for others. `namespaces` are the labels of those known, by name: when none is, an anti-affinity term
    that selects them by labels counts in all.
    """
    meta = pod.metadata
    return model.Running(
        namespace=meta.namespace,
        labels=meta.labels,
        ports=host_ports(pod.spec),
        apart=apart(pod.spec, meta.namespace, meta.labels, namespaces),
        terminating=meta.deletion_timestamp is not None,
    )


def shape(
    name: str,
    view: Node,
    *,
    overhead: Resources | None = None,
    per_node_labels: Iterable[str] = (),
    startup_taints: Iterable[str] = (),
) -> model.Shape:
    """The shape that `view` is one node of: without its own name, our marks, the labels named (topology) and taints that pass."""
    dropped = {*_PER_NODE, *per_node_labels}
    passing = (*_PASSING, *startup_taints)
    labels = view.metadata.labels.items()
    return model.Shape(
        name=name,
        allocatable=amounts(view.status.allocatable),
        labels={key: value for key, value in labels if key not in dropped and not _is_mark(key)},
        taints=taints(t for t in view.spec.taints if not t.key.startswith(passing)),
        overhead=overhead or {},
    )


def bystander(view: Node, pods: Iterable[Pod], namespaces: Mapping[str, Labels] = NO_NAMESPACES) -> model.Bystander:
    """A node that is nobody's to give, with the pods that count there. `namespaces` as for `running`."""
    there = tuple(running(pod, namespaces) for pod in pods if not pod.terminal)
    return model.Bystander(view.metadata.name, view.metadata.labels, there, taints(view.spec.taints))


def requested(pods: Iterable[Pod]) -> Resources:
    """What the pods ask for together, `pods` included."""
    total: dict[str, int] = {}
    for pod in pods:
        if not pod.terminal:
            for name, number in pod_requests(pod.spec, pod.status).items():
                total[name] = total.get(name, 0) + number
    return total


def amounts(resources: ResourceList) -> Mapping[str, int]:
    """Counted amounts: cpu in milli-cores, others in base units. Raises ValueError naming the resource."""
    return {name: _counted(name, text) for name, text in resources.items()}


def _counted(name: str, text: str | int) -> int:
    try:
        return amount(name, text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _is_mark(key: str) -> bool:
    return key.startswith(_OURS) or _OUR_MARKS in key
