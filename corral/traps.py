"""What keeps a workload from ever starting, whatever is free, and what to write instead. Pure."""

import re
from collections.abc import Collection, Iterator

from kube.kueue import ClusterQueue, ResourceFlavor, TopologyRequest, Workload
from kube.levels import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, SLICE_TOPOLOGY
from kube.ours import CapacityPool

_TOLD = ("LabelsMissing", "FlavorsUnfit")
_SENTENCES = re.compile(r"; (?=ResourceFlavor )")


def flavor_traps(pools: Collection[CapacityPool], flavors: Collection[str]) -> Iterator[str]:
    """What the pools' own conditions say of these flavors: the provisioner alone judges them (provisioner/telling/flavors.py)."""
    for pool in pools:
        for told in pool.status.conditions:
            if told.type in _TOLD and told.status == "True":
                for sentence in _SENTENCES.split(told.message):
                    if any(sentence.startswith(f"ResourceFlavor {name} ") for name in flavors):
                        yield f"  trap: pool {pool.metadata.name}: {sentence}"


def topology_traps(workload: Workload, queue: ClusterQueue | None, flavors: Collection[ResourceFlavor]) -> Iterator[str]:
    """Topology requests in Kueue's words where no flavor of the queue has a topology. `flavors` are all that there are.

    Kueue v0.17.0 admits no such pod set on a flavor without topologyName (pkg/scheduler/flavorassigner).
    """
    used = [flavor for flavor in flavors if queue and flavor.metadata.name in queue.flavors]
    if not used or any(flavor.spec.topology_name for flavor in used):
        return
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
