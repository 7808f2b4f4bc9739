"""Topology requests that keep Kueue from ever reserving quota, whatever is free, and what to write instead. Pure."""

from collections.abc import Collection, Iterator

from kube.kueue import ClusterQueue, ResourceFlavor, TopologyRequest, Workload
from kube.levels import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, SLICE_TOPOLOGY


def traps(
    workload: Workload, queue: ClusterQueue | None, flavors: Collection[ResourceFlavor], checks: Collection[str]
) -> Iterator[str]:
    """`flavors` are all that there are, `checks` the names of those that Corral serves. For a workload without quota."""
    if queue is None:
        return
    names = {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}
    used = [flavor for flavor in flavors if flavor.metadata.name in names]
    if used and not any(flavor.spec.topology_name for flavor in used):
        yield from _without_topology(workload)
    guarded = {name for rule in queue.checks if rule.name in checks for name in rule.on_flavors or names}
    for flavor in used:
        if flavor.spec.topology_name and flavor.metadata.name in guarded:
            yield (
                f"  trap: flavor {flavor.metadata.name} has topologyName {flavor.spec.topology_name}: "
                f"Kueue reserves quota only on nodes that are there already, and Corral is asked after that"
            )
            yield "    use a flavor without topologyName, or Kueue's own provisioning check with class gang.corral.dev"


def _without_topology(workload: Workload) -> Iterator[str]:
    """Kueue v0.17.0 admits no pod set with a topology request on a flavor without topologyName (pkg/scheduler/flavorassigner)."""
    for pod_set in workload.spec.pod_sets:
        written = _written(pod_set.topology_request)
        if written is not None:
            annotation, instead = written
            yield f"  trap: {annotation} of pod set {pod_set.name} needs a flavor with topologyName, and the queue has none"
            yield f"    {instead}"


def _written(request: TopologyRequest | None) -> tuple[str, str] | None:
    """Kueue's annotation, and what does the same here; None for what Kueue adds to every pod set by itself, such as the label of
    a pod's index (v0.17.0, pkg/workload/workload.go IsExplicitlyRequestingTAS).
    """
    if request is None:
        return None
    for kind, key, own in (
        ("required", request.required, REQUIRED_TOPOLOGY),
        ("preferred", request.preferred, PREFERRED_TOPOLOGY),
        ("slice-required", request.pod_set_slice_required_topology, SLICE_TOPOLOGY),
    ):
        if key:
            return f"kueue.x-k8s.io/podset-{kind}-topology", f"write {own}: {key} in its place"
    if request.podset_slice_required_topology_constraints:
        return "kueue.x-k8s.io/podset-slice-required-topology-constraints", "remove it: slices within slices are not planned for"
    if request.unconstrained is None:
        return None
    return "kueue.x-k8s.io/podset-unconstrained-topology", "remove it: pods are placed as the policy says"
