"""The gang of a workload as Kueue admitted it: which pods need capacity of a check, and what their flavors make of them.

Follows what Kueue v0.17.0 itself does with an admitted workload: counts are those of the admission (partial admission and
reclaimable pods taken off), flavors add node labels and tolerations (pkg/podset/podset.go FromAssignment), limits stand in for
requests that are missing (pkg/controller/admissionchecks/provisioning).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kube import makers
from kube.core import TemplateMeta
from kube.kueue import PodSetAssignment, ResourceFlavor, TopologyRequest, Workload, WorkloadPodSet
from kube.levels import (
    PLACED_BY_KUEUE,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    TOPOLOGY_GROUP,
)

Json = dict[str, Any]
NOTHING_SAID = TemplateMeta()


class WorkloadMistakeError(ValueError):
    """The workload asks for something that can't be; the message names pod set, field and remedy."""


class FlavorMissingError(LookupError):
    """The admission names a ResourceFlavor that isn't there (yet)."""


class AssignmentMissingError(LookupError):
    """The admission says nothing of a pod set: asking for the others alone would be asking for a part of the gang."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod set that needs capacity: `count` (1 or more) pods of the template, which is the raw JSON of a PodTemplateSpec."""

    name: str
    count: int
    template: Json


def needed(
    workload: Workload, on_flavors: Collection[str], managed: Collection[str]
) -> Iterator[tuple[WorkloadPodSet, PodSetAssignment]]:
    """The pod sets with pods on the check's flavors (none named: on any) that ask for a managed resource (none named: any).

    Raises AssignmentMissingError.
    """
    admission = workload.status.admission
    assignments = {each.name: each for each in admission.pod_set_assignments} if admission else {}
    for pod_set in workload.spec.pod_sets:
        assignment = assignments.get(pod_set.name)
        if assignment is None and pod_set.count:
            raise AssignmentMissingError(f'status.admission says nothing of pod set "{pod_set.name}": Kueue has yet to assign it')
        if assignment is None or count(pod_set, assignment) == 0:
            continue
        concerned = not on_flavors or any(flavor in on_flavors for flavor in assignment.flavors.values())
        if concerned and (not managed or asks_for(pod_set.template, managed)):
            yield pod_set, assignment


def count(pod_set: WorkloadPodSet, assignment: PodSetAssignment) -> int:
    """Pods that Kueue admitted: a count of 0 is one, too."""
    return pod_set.count if assignment.count is None else assignment.count


def asks_for(template: Mapping[str, Any], resources: Collection[str]) -> bool:
    """Whether a container requests, or is limited in, one of the resources."""
    amounts = [each.get("resources") or {} for each in _containers(template)]
    return any(name in (each.get(kind) or {}) for each in amounts for kind in ("requests", "limits") for name in resources)


def members(
    workload: Workload,
    on_flavors: Collection[str],
    managed: Collection[str],
    flavors: Mapping[str, ResourceFlavor],
    maker: makers.Maker | None = None,
) -> tuple[Member, ...]:
    """The gang, each template as its pods will be; `maker` makes them, if it says more of them than their templates.

    Raises AssignmentMissingError and FlavorMissingError, WorkloadMistakeError when a pod set's own node selector contradicts its
    flavor, or its topology request is of a kind that the planner doesn't know, and what `makers.left_out` raises.
    """
    return tuple(_member(pod_set, assignment, flavors, maker) for pod_set, assignment in needed(workload, on_flavors, managed))


def _member(
    pod_set: WorkloadPodSet, assignment: PodSetAssignment, flavors: Mapping[str, ResourceFlavor], maker: makers.Maker | None
) -> Member:
    template = levelled(pod_set, makers.left_out(maker, pod_set.name) if maker else NOTHING_SAID)
    notes = makers.notes(maker, pod_set.name) if maker else {}
    spec: Json = template.setdefault("spec", {})
    for name in sorted(set(assignment.flavors.values())):
        flavor = flavors.get(name)
        if flavor is None:
            raise FlavorMissingError(f'ResourceFlavor "{name}" of pod set "{pod_set.name}" is not there: create it')
        _select(spec, flavor, pod_set.name)
        _tolerate(spec, (each.to_json() for each in flavor.spec.tolerations))
        if flavor.spec.topology_name:
            notes[PLACED_BY_KUEUE] = "true"
    for container in _containers(template):
        _default_requests(container)
    _mark(template, "annotations", notes)
    return Member(pod_set.name, count(pod_set, assignment), template)


def levelled(pod_set: WorkloadPodSet, said: TemplateMeta = NOTHING_SAID) -> Json:
    """A copy of its template with what else is said of its pods, and with Kueue's topology request in the words that the
    planner's side reads.

    Raises WorkloadMistakeError for a request that nobody plans for.
    """
    template = deepcopy(pod_set.template)
    _mark(template, "labels", said.labels)
    _mark(template, "annotations", said.annotations)
    _mark(template, "annotations", _topology(pod_set, (template.get("metadata") or {}).get("annotations") or {}))
    return template


def _containers(template: Mapping[str, Any]) -> Iterator[Json]:
    spec = template.get("spec") or {}
    for kind in ("initContainers", "containers"):
        yield from spec.get(kind) or ()


def _select(spec: Json, flavor: ResourceFlavor, pod_set: str) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in flavor.spec.node_labels.items():
        if selector.setdefault(key, value) != value:
            raise WorkloadMistakeError(
                f'pod set "{pod_set}": nodeSelector {key}={selector[key]} contradicts ResourceFlavor "{flavor.metadata.name}" '
                f"({key}={value}): remove it from the pod template"
            )
    if selector:
        spec["nodeSelector"] = selector


def _tolerate(spec: Json, tolerations: Iterable[Json]) -> None:
    present = list(spec.get("tolerations") or ())
    present.extend(each for each in tolerations if each not in present)
    if present:
        spec["tolerations"] = present


def _default_requests(container: Json) -> None:
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def _topology(pod_set: WorkloadPodSet, own: Mapping[str, str]) -> Mapping[str, str]:
    """Kueue places each pod set by itself unless a group names several, so a level of its own goes with a group of its own."""
    request = pod_set.topology_request or TopologyRequest()
    if request.podset_slice_required_topology_constraints:
        raise WorkloadMistakeError(
            f'pod set "{pod_set.name}": slices within slices are not planned for: remove the annotation '
            "kueue.x-k8s.io/podset-slice-required-topology-constraints, or use a queue without this check"
        )
    levelled = (request.required or request.preferred) and REQUIRED_TOPOLOGY not in own and PREFERRED_TOPOLOGY not in own
    size = request.pod_set_slice_size
    notes = {
        REQUIRED_TOPOLOGY: request.required,
        PREFERRED_TOPOLOGY: request.preferred,
        TOPOLOGY_GROUP: request.pod_set_group_name or (pod_set.name if levelled else None),
        SLICE_TOPOLOGY: request.pod_set_slice_required_topology,
        SLICE_SIZE: None if size is None else str(size),
    }
    return {key: value for key, value in notes.items() if value}


def _mark(template: Json, kind: str, marks: Mapping[str, str]) -> None:
    """Adds labels or annotations to the template; what it says itself comes first."""
    if marks:
        metadata: Json = template.setdefault("metadata", {})
        metadata[kind] = {**marks, **(metadata.get(kind) or {})}
