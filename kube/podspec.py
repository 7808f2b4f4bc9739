"""From a pod template to the planner's PodSet: the pod as the API server will admit it, and what about it can't be decided.

Source: kube-scheduler 1.36.3, default profile. What that profile filters on and the planner doesn't model is named in
`undecidable`, what the pod names that isn't there yet in `awaits`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from capacity import requirements
from capacity.model import Labels, PodSet
from kube import podrules
from kube.core import DaemonSet, PodSpec, PodTemplateSpec, RuntimeClass, Taint, Toleration
from kube.levels import given_labels, levels, unplanned
from kube.meta import decode
from kube.podrules import NO_NAMESPACES
from kube.requests import PodSpecError, pod_requests
from kube.selectors import terms
from kube.volumes import NO_VOLUMES, Volumes, reaches

_QUEUE_GATES = "kueue.x-k8s.io/"  # gates that Kueue itself removes when it admits
_IMPLICIT_DEVICE = "deviceclass.resource.kubernetes.io/"  # extended resources that always stand for a DeviceClass (KEP-5004)
# Labels that pods get from the controllers that make them, beside those of their template.
_GIVEN = (
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "jobset.sigs.k8s.io/",
    "kueue.x-k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "pod-template-hash",
    "ray.io/",
    "statefulset.kubernetes.io/",
    "training.kubeflow.org/",
)

NO_RUNTIME_CLASSES: Mapping[str, RuntimeClass] = {}


def template(raw: Mapping[str, Any]) -> PodTemplateSpec:
    """The typed view of a raw PodTemplateSpec. Raises PodSpecError when a field has the wrong type."""
    try:
        return decode(raw, PodTemplateSpec)
    except ValueError as error:
        raise PodSpecError(f"pod template: {error}") from None


def pod_set(
    name: str,
    count: int,
    template: PodTemplateSpec,
    *,
    namespace: str = "",
    extra_node_selector: Mapping[str, str] | None = None,
    extra_tolerations: Iterable[Toleration] = (),
    runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES,
    namespaces: Mapping[str, Labels] = NO_NAMESPACES,
    volumes: Volumes = NO_VOLUMES,
    device_resources: frozenset[str] = frozenset(),
) -> PodSet:
    """`count` pods of `template` in `namespace` as they will be admitted, with a flavor's selector and tolerations added.

    `runtime_classes` are the known RuntimeClasses and `namespaces` the labels of the known namespaces, by name; `volumes` what is
    known of storage; `device_resources` the extended resources that some DeviceClass serves. Raises PodSpecError for a bad amount
    or annotation, or a selector that contradicts the template's own.
    """
    spec = _with_runtime_class(template.spec, runtime_classes)
    requests = pod_requests(spec)
    labels = template.metadata.labels
    where = levels(name, template.metadata.annotations)
    reach = reaches(spec, count, namespace, volumes)
    return PodSet(
        name=name,
        count=count,
        requests=requests,
        node_selector=_joined(spec.node_selector, extra_node_selector or {}),
        affinity=_affinity(spec),
        tolerations=tolerations(_admitted_tolerations((*spec.tolerations, *extra_tolerations))),
        required_topology=where.required,
        preferred_topology=where.preferred,
        undecidable=(
            *_undecidable(spec),
            *reach.doubts,
            *unplanned(template.metadata.annotations),
            *_unknown_company(spec, labels, namespaces),
            *_device_backed(requests, device_resources),
        ),
        awaits=(*_awaited(spec, runtime_classes), *reach.awaits),
        namespace=namespace,
        labels={**given_labels(template.metadata.annotations), **labels},
        ports=podrules.host_ports(spec),
        near=podrules.near(spec, namespace, labels, namespaces),
        apart=podrules.apart(spec, namespace, labels, namespaces),
        spreads=podrules.spreads(spec, labels),
        volumes=reach.terms,
        topology_group=where.group,
        slices=where.slices,
        exclusive=where.exclusive,
        placed_by_kueue=where.placed_by_kueue,
    )


def daemon_pod_set(view: DaemonSet, *, runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES) -> PodSet:
    """One pod of a DaemonSet, with the tolerations that the DaemonSet controller adds (Kubernetes docs, "DaemonSet: Taints and
    tolerations"). Annotations for gangs mean nothing here. Raises PodSpecError for a bad amount."""
    keys = ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
    if view.spec.template.spec.host_network:
        keys.append("network-unavailable")
    added = [Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoSchedule") for key in keys]
    name = f"{view.metadata.namespace}/{view.metadata.name}"
    where = view.metadata.namespace
    template = structs.replace(view.spec.template, metadata=structs.replace(view.spec.template.metadata, annotations={}))
    return pod_set(name, 1, template, namespace=where, extra_tolerations=added, runtime_classes=runtime_classes)


def tolerations(views: Iterable[Toleration]) -> tuple[requirements.Toleration, ...]:
    return tuple(requirements.Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in views)


def taints(views: Iterable[Taint]) -> tuple[requirements.Taint, ...]:
    return tuple(requirements.Taint(t.key, t.effect, t.value) for t in views)


def _with_runtime_class(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> PodSpec:
    """What the RuntimeClass admission plugin makes of the pod; a class that isn't known changes nothing (and is awaited)."""
    found = classes.get(spec.runtime_class_name)
    if found is None:
        return spec
    scheduling = found.scheduling
    return structs.replace(
        spec,
        overhead=found.overhead.pod_fixed if found.overhead else spec.overhead,
        node_selector=_joined(spec.node_selector, scheduling.node_selector) if scheduling else spec.node_selector,
        tolerations=(*spec.tolerations, *scheduling.tolerations) if scheduling else spec.tolerations,
    )


def _joined(selector: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    for key, value in more.items():
        if selector.get(key, value) != value:
            raise PodSpecError(
                f"nodeSelector {key}: the template wants {selector[key]}, its flavor or runtime class {value}: remove one of them"
            )
    return {**selector, **more}


def _admitted_tolerations(given: tuple[Toleration, ...]) -> Iterator[Toleration]:
    """With those that the DefaultTolerationSeconds plugin adds to pods that say nothing of the two taints."""
    yield from given
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.key in (key, "") and t.effect in ("NoExecute", "") for t in given):
            yield Toleration(key=key, operator="Exists", effect="NoExecute")


def _affinity(spec: PodSpec) -> tuple[requirements.NodeSelectorTerm, ...] | None:
    required = spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required
    return terms(required) if required else None


# --- what can't be decided ------------------------------------------------------------------------------------------------


def _awaited(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> Iterator[str]:
    """Without its RuntimeClass no pod of it is admitted."""
    if spec.runtime_class_name and spec.runtime_class_name not in classes:
        yield f"RuntimeClass {spec.runtime_class_name} isn't there: create it"


def _undecidable(spec: PodSpec) -> Iterator[str]:
    if spec.scheduler_name not in ("", "default-scheduler"):
        yield f"scheduler {spec.scheduler_name} places it, not default-scheduler"
    if spec.node_name:
        yield f"spec.nodeName {spec.node_name} bypasses the scheduler"
    for rule in (_gates, _claims):
        yield from rule(spec)


def _gates(spec: PodSpec) -> Iterator[str]:
    for gate in spec.scheduling_gates:
        if not gate.name.startswith(_QUEUE_GATES):
            yield f"scheduling gate {gate.name} holds it back"


def _claims(spec: PodSpec) -> Iterator[str]:
    for claim in spec.resource_claims:
        yield f"resource claim {claim.name} is allocated by the scheduler"


def _unknown_company(spec: PodSpec, labels: Labels, namespaces: Mapping[str, Labels]) -> Iterator[str]:
    """Terms of which it isn't known which pods they select."""
    for term in podrules.required_terms(spec):
        if term.namespace_selector and podrules.keys(term.namespace_selector) and not namespaces:
            yield f"pod affinity over {term.topology_key} selects namespaces by labels, which aren't known here"
    for key in dict.fromkeys(podrules.selecting(spec)):
        if key.startswith(_GIVEN) and key not in labels:
            yield f"pods are selected by label {key}, which their controller adds and the template doesn't show"


def _device_backed(requests: Mapping[str, int], served: frozenset[str]) -> Iterator[str]:
    for name in sorted(requests):
        if name in served or name.startswith(_IMPLICIT_DEVICE):
            yield f"resource {name} is served by a DeviceClass, whose devices the scheduler allocates"
