"""What pods ask of each other: required inter-pod affinity, topology spread and host ports, as they are after admission.

Sources, Kubernetes 1.36.3: pkg/registry/core/pod/strategy.go (matchLabelKeys), framework/types.go of kube-scheduler 0.36.3
(namespaces of a term), podtopologyspread/common.go, nodeports/node_ports.go.
"""

from collections.abc import Iterable, Iterator, Mapping

from capacity import requirements
from capacity.model import Labels
from kube.core import PodAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from kube.selectors import LabelSelector, label_selector

ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # the API's default, not something that we bind
NO_NAMESPACES: Mapping[str, Labels] = {}

_HARD = ("DoNotSchedule", "")


def near(spec: PodSpec, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> tuple[requirements.PodTerm, ...]:
    """Required affinity terms of a pod of `namespace` that bears `labels`. `namespaces` are the known ones with their labels;
    when none is known, a term that selects them by labels reaches all.
    """
    affinity = spec.affinity and spec.affinity.pod_affinity
    return _terms(affinity, namespace, labels, namespaces) if affinity else ()


def apart(spec: PodSpec, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> tuple[requirements.PodTerm, ...]:
    """Required anti-affinity terms; arguments as for `near`."""
    affinity = spec.affinity and spec.affinity.pod_anti_affinity
    return _terms(affinity, namespace, labels, namespaces) if affinity else ()


def spreads(spec: PodSpec, labels: Labels) -> tuple[requirements.Spread, ...]:
    return tuple(_spread(each, labels) for each in hard_spreads(spec))


def hard_spreads(spec: PodSpec) -> Iterable[TopologySpreadConstraint]:
    """The constraints that filter; those with ScheduleAnyway only weigh."""
    return (each for each in spec.topology_spread_constraints if each.when_unsatisfiable in _HARD)


def required_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    if spec.affinity:
        for part in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            yield from part.required if part else ()


def selecting(spec: PodSpec) -> Iterator[str]:
    """Keys of the labels by which its rules select pods."""
    for term in required_terms(spec):
        yield from (*keys(term.label_selector), *term.match_label_keys, *term.mismatch_label_keys)
    for constraint in hard_spreads(spec):
        yield from (*keys(constraint.label_selector), *constraint.match_label_keys)


def keys(selector: LabelSelector | None) -> Iterable[str]:
    return (*selector.match_labels, *(each.key for each in selector.match_expressions)) if selector else ()


def host_ports(spec: PodSpec) -> tuple[requirements.HostPort, ...]:
    """The ports of containers and sidecars that are bound on the node; with `hostNetwork` every port is."""
    if not spec.host_network and not any(c.ports for c in (*spec.containers, *spec.init_containers)):
        return ()
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    found = (
        requirements.HostPort(number, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )
    return tuple(dict.fromkeys(found))


def _terms(
    affinity: PodAffinity, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]
) -> tuple[requirements.PodTerm, ...]:
    return tuple(
        requirements.PodTerm(
            term.topology_key,
            _merged(term.label_selector, labels, (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys))),
            _reached(term, namespace, namespaces),
        )
        for term in affinity.required
    )


def _reached(term: PodAffinityTerm, namespace: str, namespaces: Mapping[str, Labels]) -> frozenset[str] | None:
    """The namespaces in which a term finds pods, None for all: those named and those selected; its own if it says nothing."""
    wanted = term.namespace_selector
    if wanted is None:
        return frozenset(term.namespaces or (namespace,))
    selector = label_selector(wanted)
    if not selector.expressions or not namespaces:
        return None
    return frozenset((*term.namespaces, *(name for name, labels in namespaces.items() if selector.selects(labels))))


def _spread(view: TopologySpreadConstraint, labels: Labels) -> requirements.Spread:
    return requirements.Spread(
        topology_key=view.topology_key,
        max_skew=view.max_skew,
        selector=_merged(view.label_selector, labels, (("In", view.match_label_keys),)),
        min_domains=view.min_domains or 1,
        honors_affinity=view.node_affinity_policy != "Ignore",
        honors_taints=view.node_taints_policy == "Honor",
    )


def _merged(
    view: LabelSelector | None, labels: Labels, keys: Iterable[tuple[str, Iterable[str]]]
) -> requirements.LabelSelector | None:
    """The selector with the pod's own values of the keys, as (operator, keys). A key of which the selector speaks was merged
    before: the API forbids naming one in both.
    """
    if view is None:
        return None
    selector = label_selector(view)
    spoken = {each.key for each in selector.expressions}
    added = (
        requirements.Expression(key, operator, (labels[key],))
        for operator, names in keys
        for key in names
        if key in labels and key not in spoken
    )
    return requirements.LabelSelector((*selector.expressions, *added))
