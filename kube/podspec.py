"""From a pod template to the planner's PodSet: the pod as the API server will admit it, and what about it can't be decided.

Source: kube-scheduler 1.36.3, default profile. What that profile filters on and the planner doesn't model is named in
`undecidable`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import UNSET, structs

from capacity import requirements
from capacity.model import PodSet
from kube.core import (
    DaemonSet,
    NodeSelectorTerm,
    PodAffinity,
    PodSpec,
    PodTemplateSpec,
    RuntimeClass,
    SelectorRequirement,
    Taint,
    Toleration,
    Volume,
)
from kube.meta import decode
from kube.requests import PodSpecError, pod_requests

REQUIRED_TOPOLOGY = "corral.dev/required-topology"
PREFERRED_TOPOLOGY = "corral.dev/preferred-topology"

_QUEUE_GATES = "kueue.x-k8s.io/"  # gates that Kueue itself removes when it admits
_IMPLICIT_DEVICE = "deviceclass.resource.kubernetes.io/"  # extended resources that always stand for a DeviceClass (KEP-5004)

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
    extra_node_selector: Mapping[str, str] | None = None,
    extra_tolerations: Iterable[Toleration] = (),
    runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES,
    device_resources: frozenset[str] = frozenset(),
) -> PodSet:
    """`count` pods of `template` as they will be admitted, with a flavor's selector and tolerations added.

    `runtime_classes` are the known RuntimeClasses by name; `device_resources` the extended resources that some DeviceClass
    serves. Raises PodSpecError for a bad amount, or a selector that contradicts the template's own.
    """
    spec = _with_runtime_class(template.spec, runtime_classes)
    requests = pod_requests(spec)
    notes = template.metadata.annotations
    return PodSet(
        name=name,
        count=count,
        requests=requests,
        node_selector=_joined(spec.node_selector, extra_node_selector or {}),
        affinity=_affinity(spec),
        tolerations=tolerations(_admitted_tolerations((*spec.tolerations, *extra_tolerations))),
        required_topology=notes.get(REQUIRED_TOPOLOGY) or None,
        preferred_topology=notes.get(PREFERRED_TOPOLOGY) or None,
        undecidable=(*_undecidable(spec, runtime_classes), *_device_backed(requests, device_resources)),
    )


def daemon_pod_set(view: DaemonSet, *, runtime_classes: Mapping[str, RuntimeClass] = NO_RUNTIME_CLASSES) -> PodSet:
    """One pod of a DaemonSet, with the tolerations that the DaemonSet controller adds (Kubernetes docs, "DaemonSet: Taints and
    tolerations"). Raises PodSpecError for a bad amount."""
    keys = ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
    if view.spec.template.spec.host_network:
        keys.append("network-unavailable")
    added = [Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoSchedule") for key in keys]
    name = f"{view.metadata.namespace}/{view.metadata.name}"
    return pod_set(name, 1, view.spec.template, extra_tolerations=added, runtime_classes=runtime_classes)


def tolerations(views: Iterable[Toleration]) -> tuple[requirements.Toleration, ...]:
    return tuple(requirements.Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in views)


def taints(views: Iterable[Taint]) -> tuple[requirements.Taint, ...]:
    return tuple(requirements.Taint(t.key, t.effect, t.value) for t in views)


def _with_runtime_class(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> PodSpec:
    """What the RuntimeClass admission plugin makes of the pod; a class that isn't known changes nothing (and is undecidable)."""
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
    return tuple(_term(term) for term in required.node_selector_terms) if required else None


def _term(view: NodeSelectorTerm) -> requirements.NodeSelectorTerm:
    return requirements.NodeSelectorTerm(_expressions(view.match_expressions), _expressions(view.match_fields))


def _expressions(views: Iterable[SelectorRequirement]) -> tuple[requirements.Expression, ...]:
    return tuple(requirements.Expression(v.key, v.operator, v.values) for v in views)


# --- what can't be decided ------------------------------------------------------------------------------------------------


def _undecidable(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> Iterator[str]:
    if spec.scheduler_name not in ("", "default-scheduler"):
        yield f"scheduler {spec.scheduler_name} places it, not default-scheduler"
    if spec.node_name:
        yield f"spec.nodeName {spec.node_name} bypasses the scheduler"
    if spec.runtime_class_name and spec.runtime_class_name not in classes:
        yield f"runtimeClass {spec.runtime_class_name} isn't known here, so neither are its overhead and node selector"
    for rule in (_gates, _volumes, _ports, _claims, _spread, _pod_affinity):
        yield from rule(spec)


def _gates(spec: PodSpec) -> Iterator[str]:
    for gate in spec.scheduling_gates:
        if not gate.name.startswith(_QUEUE_GATES):
            yield f"scheduling gate {gate.name} holds it back"


def _volumes(spec: PodSpec) -> Iterator[str]:
    for volume in spec.volumes:
        if source := _limiting_source(volume):
            yield f"volume {volume.name} ({source}) may limit where it runs"


def _limiting_source(volume: Volume) -> str | None:
    set_ = [f for f in structs.fields(Volume) if f.name != "name" and getattr(volume, f.name) not in (UNSET, None)]
    return set_[0].encode_name if set_ else None


def _ports(spec: PodSpec) -> Iterator[str]:
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if number := port.host_port or (port.container_port if spec.host_network else 0):
                yield f"host port {number}/{port.protocol} of container {container.name} must be free on its node"


def _claims(spec: PodSpec) -> Iterator[str]:
    for claim in spec.resource_claims:
        yield f"resource claim {claim.name} is allocated by the scheduler"


def _spread(spec: PodSpec) -> Iterator[str]:
    for constraint in spec.topology_spread_constraints:
        if constraint.when_unsatisfiable in ("DoNotSchedule", ""):
            yield f"topology spread over {constraint.topology_key} must hold (DoNotSchedule)"


def _pod_affinity(spec: PodSpec) -> Iterator[str]:
    if spec.affinity is None:
        return
    yield from _pod_terms("pod affinity", spec.affinity.pod_affinity)
    yield from _pod_terms("pod anti-affinity", spec.affinity.pod_anti_affinity)


def _pod_terms(what: str, affinity: PodAffinity | None) -> Iterator[str]:
    for term in affinity.required if affinity else ():
        yield f"required {what} over {term.topology_key} depends on where other pods run"


def _device_backed(requests: Mapping[str, int], served: frozenset[str]) -> Iterator[str]:
    for name in sorted(requests):
        if name in served or name.startswith(_IMPLICIT_DEVICE):
            yield f"resource {name} is served by a DeviceClass, whose devices the scheduler allocates"
