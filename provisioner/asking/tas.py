"""Gangs whose pods Kueue's topology-aware scheduling places, and those for which Kueue's own check asks: what their plans must
hold for that the pods alone do not tell.

Kueue v0.17.0 places the pods of a flavor with a topology once all checks are ready, among the nodes that bear the labels of all
levels and that the node selectors of podSetUpdates admit (pkg/cache/scheduler/tas_flavor_snapshot.go). Its own check can set one
selector, the same for all pod sets, so that any pod may come to any node of the booking. Until pods run there, Kueue takes a node
for unhealthy, and evicts the workload, if the Workload's own pod template does not tolerate the node's taints: tolerations of the
flavor and of podSetUpdates don't count (pkg/controller/tas/node_controller.go, checkTaintTolerations).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from capacity.fit import BOOKED_TAINT
from capacity.model import HOSTNAME, PodSet, Slices
from capacity.requirements import Expression, NodeSelectorTerm, Taint, untolerated
from kube import kueue
from kube.assignments import pods_by_host
from kube.autoscaling import ProvisioningRequest
from kube.podspec import template, tolerations
from kube.requests import PodSpecError
from provisioner.asking.authority import Look, named_workload
from provisioner.asking.producers import KUEUE_CONTROLLER, check_of, stated
from provisioner.nodes.marks import REQUEST

DETAIL = "RequestLabel"
VERSION = "0.17"
_BOOKED = Taint(BOOKED_TAINT, "NoSchedule")


def one_mark(request: ProvisioningRequest) -> bool:
    """Whether one node selector serves all its pod sets."""
    said = stated(request)
    return said is not None and said.by_kueue


def placed(request: ProvisioningRequest, pods: Sequence[PodSet], look: Look) -> list[PodSet]:
    """The pod sets with the topology by which Kueue will place them. Raises PodSpecError, naming object, field and remedy, when
    Kueue's own check would not send the pods to their booking, or would send others there.
    """
    workload = named_workload(request, look)
    if workload is None or workload.status.admission is None:
        return list(pods)
    assigned = {each.name: each for each in workload.status.admission.pod_set_assignments}
    wanted = {each.name: each for each in workload.spec.pod_sets}
    if one_mark(request):
        _steered(check_of(request, workload), look)
        _whole(pods, assigned)
        for pod in pods:
            _tolerant(pod, assigned)
    both = assigned.keys() & wanted.keys()
    found = [_placed(pod, assigned[pod.name], wanted[pod.name], look) if pod.name in both else pod for pod in pods]
    return _of_one_topology(found, assigned)


def levels_of(flavor: kueue.ResourceFlavor, look: Look) -> tuple[str, ...] | None:
    """The levels of the flavor's topology, the widest first; None where it has none, () while the Topology is not there."""
    if not flavor.spec.topology_name:
        return None
    topology = look.topology(flavor.spec.topology_name)
    return tuple(level.node_label for level in topology.spec.levels) if topology else ()


def _placed(pod: PodSet, assigned: kueue.PodSetAssignment, own: kueue.WorkloadPodSet, look: Look) -> PodSet:
    flavors = [found for name in sorted(set(assigned.flavors.values())) if (found := look.flavor(name))]
    tas = [(flavor.spec.topology_name, levels) for flavor in flavors if (levels := levels_of(flavor, look)) is not None]
    if not tas:
        return pod
    name, levels = tas[0]
    if not levels:
        return replace(pod, awaits=(*pod.awaits, f"Topology {name} of its flavor"))
    borne = tolerations(template(own.template).spec.tolerations)
    if untolerated([_BOOKED], borne):
        raise PodSpecError(
            f"pod set {pod.name}: its pod template doesn't tolerate {BOOKED_TAINT}, and Kueue {VERSION} would evict it from "
            f"nodes with that taint whatever its flavor tolerates: add the toleration to the job's own pod template"
        )
    wanted = own.topology_request or kueue.TopologyRequest()
    size = wanted.pod_set_slice_size
    key = wanted.pod_set_slice_required_topology
    return replace(
        pod,
        required_topology=wanted.required,
        preferred_topology=wanted.preferred,
        topology_group=wanted.pod_set_group_name or pod.name,
        slices=Slices(key, size) if key and size else None,
        placed_by_kueue=True,
        tolerations=borne,
        levels=levels,
        affinity=_bearing(pod.affinity, levels),
        undecidable=(*pod.undecidable, *_unplanned(str(name), levels, wanted)),
        pinned=pods_by_host(assigned.topology_assignment or {}),
    )


def _bearing(affinity: tuple[NodeSelectorTerm, ...] | None, levels: Sequence[str]) -> tuple[NodeSelectorTerm, ...] | None:
    """The required affinity, and a node that bears the labels of all levels: any other is none of Kueue's."""
    there = tuple(Expression(key, "Exists") for key in levels if key != HOSTNAME)
    if not there:
        return affinity
    if affinity is None:
        return (NodeSelectorTerm(there),)
    some = [term for term in affinity if term.expressions or term.fields]  # an empty term matches nothing
    return tuple(replace(term, expressions=(*term.expressions, *there)) for term in some)


def _unplanned(topology: str, levels: Sequence[str], wanted: kueue.TopologyRequest) -> Iterator[str]:
    if levels[-1] != HOSTNAME:
        yield (
            f"Topology {topology} ends at {levels[-1]}, so that Kueue looks at no node selector and counts nodes of others, too: "
            f"add the level {HOSTNAME}"
        )
    if wanted.podset_slice_required_topology_constraints:
        yield "slices within slices (podset-slice-required-topology-constraints) are not planned for"


def _of_one_topology(pods: list[PodSet], assigned: Mapping[str, kueue.PodSetAssignment]) -> list[PodSet]:
    """Kueue keeps a count of its own for each flavor: what one takes of a node, another doesn't see."""
    mine = [pod for pod in pods if pod.placed_by_kueue and pod.name in assigned]
    if len({frozenset(assigned[pod.name].flavors.values()) for pod in mine}) < 2:
        return pods
    why = "its pod sets are on several flavors with topologies, whose nodes Kueue counts apart: use one flavor"
    return [replace(pod, undecidable=(*pod.undecidable, why)) if pod in mine else pod for pod in pods]


# --- Kueue's own check ----------------------------------------------------------------------------------------------------


def _steered(check: str, look: Look) -> None:
    known = look.check(check)
    if known is None or known.spec.controller_name != KUEUE_CONTROLLER or known.spec.parameters is None:
        return  # whoever looks at quota tells it
    config = look.config(known.spec.parameters.name)
    updates = config.spec.pod_set_updates.node_selector if config and config.spec.pod_set_updates else ()
    if not any((each.key, each.value_from_provisioning_class_detail) == (REQUEST, DETAIL) for each in updates):
        raise PodSpecError(
            f"ProvisioningRequestConfig {known.spec.parameters.name}: nothing would send the pods to their nodes: add to "
            f"spec.podSetUpdates.nodeSelector key {REQUEST} with valueFromProvisioningClassDetail {DETAIL}"
        )


def _whole(pods: Sequence[PodSet], assigned: Mapping[str, kueue.PodSetAssignment]) -> None:
    """Pods that Kueue places on the same flavor without asking for them would take room of the booking."""
    asked = {pod.name for pod in pods}
    flavors = {flavor for name in asked & assigned.keys() for flavor in assigned[name].flavors.values()}
    for name, each in assigned.items():
        if name not in asked and each.count != 0 and flavors & set(each.flavors.values()):
            raise PodSpecError(
                f"pod set {name} of the Workload is on the same flavor, but the request leaves it out: remove managedResources "
                f"and podSetMergePolicy from the ProvisioningRequestConfig, or give it a flavor of its own"
            )


def _tolerant(pod: PodSet, assigned: Mapping[str, kueue.PodSetAssignment]) -> None:
    if untolerated([_BOOKED], pod.tolerations) is None:
        return
    flavors = sorted(set(assigned[pod.name].flavors.values())) if pod.name in assigned else []
    raise PodSpecError(
        f"pod set {pod.name} doesn't tolerate {BOOKED_TAINT}, and Kueue's own check can't make it: add the toleration to "
        f"spec.tolerations of ResourceFlavor {', '.join(flavors)}"
    )
