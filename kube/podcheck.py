"""What the API server would refuse about a pod template, where it bears on placement and the types don't show it.

Templates out of a cluster have passed the API server; those out of files have not. Source: Kubernetes 1.36.3,
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterable, Iterator

from capacity.quantity import milli
from kube.core import Container, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint
from kube.podrules import required_terms
from kube.requests import PodSpecError
from kube.selectors import LabelSelector, SelectorRequirement

_UNVALUED = ("Exists", "DoesNotExist")
_OPERATORS = ("In", "NotIn", *_UNVALUED)
_NODE_OPERATORS = (*_OPERATORS, "Gt", "Lt")
_SPREADS = ("DoNotSchedule", "ScheduleAnyway")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TOLERATIONS = ("Equal", "Exists", "Lt", "Gt", "")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_PORTS = range(1, 65536)


def check(spec: PodSpec) -> None:
    """Raises PodSpecError for the first thing that the API server would refuse; the text names the field and the remedy."""
    fault = next(_faults(spec), None)
    if fault:
        raise PodSpecError(f"pod template: spec.{fault}")


def _faults(spec: PodSpec) -> Iterator[str]:
    if not spec.containers:
        yield "containers is empty: a pod needs one"
    for container in (*spec.containers, *spec.init_containers):
        yield from _container(container)
    for at, spread in enumerate(spec.topology_spread_constraints):
        yield from (f"topologySpreadConstraints[{at}].{fault}" for fault in _spread(spread))
    for term in required_terms(spec):
        yield from (f"affinity: a required pod term: {fault}" for fault in _pod_term(term))
    yield from (f"affinity.nodeAffinity: {fault}" for fault in _node_affinity(spec))
    for at, toleration in enumerate(spec.tolerations):
        yield from (f"tolerations[{at}].{fault}" for fault in _toleration(toleration))


def _container(container: Container) -> Iterator[str]:
    where = f"containers {container.name}"
    for port in container.ports:
        if port.container_port not in _PORTS:
            yield f"{where}: containerPort {port.container_port}: write 1 to 65535"
        if port.host_port and port.host_port not in _PORTS:
            yield f"{where}: hostPort {port.host_port}: write 1 to 65535"
        yield from _one_of(f"{where}: protocol", port.protocol, _PROTOCOLS)
    for amounts in (container.resources.requests, container.resources.limits):
        for name, amount in amounts.items():
            if "/" in name and milli(amount) % 1000:
                yield f"{where}: {name}: {amount} is no whole number, and devices can't be shared out: write one"


def _spread(spread: TopologySpreadConstraint) -> Iterator[str]:
    if not spread.topology_key:
        yield "topologyKey is missing: name a node label key"
    if spread.max_skew < 1:
        yield f"maxSkew is {spread.max_skew}: write 1 or more"
    if spread.min_domains is not None and spread.min_domains < 1:
        yield f"minDomains is {spread.min_domains}: write 1 or more"
    yield from _one_of("whenUnsatisfiable", spread.when_unsatisfiable, _SPREADS)
    yield from _selector(spread.label_selector)


def _pod_term(term: PodAffinityTerm) -> Iterator[str]:
    if not term.topology_key:
        yield "topologyKey is missing: name a node label key"
    yield from _selector(term.label_selector)
    yield from _selector(term.namespace_selector)


def _node_affinity(spec: PodSpec) -> Iterator[str]:
    required = spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required
    if not required:
        return
    if not required.node_selector_terms:
        yield "nodeSelectorTerms is empty: write a term, or remove it"
    for term in required.node_selector_terms:
        yield from _expressions(term.match_expressions, _NODE_OPERATORS)


def _selector(selector: LabelSelector | None) -> Iterator[str]:
    if selector:
        yield from _expressions(selector.match_expressions, _OPERATORS)


def _expressions(expressions: Iterable[SelectorRequirement], operators: tuple[str, ...]) -> Iterator[str]:
    for each in expressions:
        yield from _one_of(f"operator of {each.key}", each.operator, operators)
        if each.operator in _UNVALUED and each.values:
            yield f"{each.key} {each.operator} takes no values: remove them"
        if each.operator in ("In", "NotIn") and not each.values:
            yield f"{each.key} {each.operator} needs values: add some"
        if each.operator in ("Gt", "Lt") and not _whole(each.values):
            yield f"{each.key} {each.operator} needs one value that is a whole number"


def _whole(values: tuple[str, ...]) -> bool:
    return len(values) == 1 and values[0].removeprefix("-").isdecimal()


def _toleration(toleration: Toleration) -> Iterator[str]:
    yield from _one_of("operator", toleration.operator, _TOLERATIONS)
    yield from _one_of("effect", toleration.effect, _EFFECTS)
    if not toleration.key and toleration.operator != "Exists":
        yield "key is missing: name a taint's key, or write operator Exists for all taints"


def _one_of(field: str, value: str, values: tuple[str, ...]) -> Iterator[str]:
    if value not in values:
        yield f'{field} is "{value}": write {" or ".join(filter(None, values))}'
