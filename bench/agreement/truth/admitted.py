"""A pod as the API server admits it, with what the scheduler's filters read of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.agreement.truth.amounts import Amounts, pod_amounts
from bench.agreement.truth.matching import is_empty, selected

Json = dict[str, Any]
Namespaces = Mapping[str, Mapping[str, str]]
"""Labels by name of namespace."""

_PASSING = ("not-ready", "unreachable")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Term:
    """A required inter-pod term: which pods it means, and of which level's domain it speaks."""

    key: str
    selector: Json | None
    names: frozenset[str]
    namespace_selector: Json | None

    def means(self, pod: "Admitted", namespaces: Namespaces) -> bool:
        named = pod.namespace in self.names or selected(self.namespace_selector, namespaces.get(pod.namespace, {}))
        return named and selected(self.selector, pod.labels)


@dataclass(frozen=True)
class Spread:
    """A topology spread constraint with DoNotSchedule."""

    key: str
    skew: int
    selector: Json | None
    least_domains: int
    honors_affinity: bool
    honors_taints: bool

    def counts(self, pod: "Admitted", namespace: str) -> bool:
        """A pod that is there; an empty selector counts none of them (countPodsMatchSelector)."""
        if pod.namespace != namespace or pod.terminating or is_empty(self.selector):
            return False
        return selected(self.selector, pod.labels)

    def means_itself(self, pod: "Admitted") -> bool:
        """The pod that comes counts itself, and does so with an empty selector, too."""
        return selected(self.selector, pod.labels)


@dataclass(frozen=True, eq=False)
class Admitted:
    """`volumes` are the PersistentVolumes that its claims are bound to."""

    namespace: str
    labels: Mapping[str, str]
    spec: Json
    amounts: Amounts
    volumes: tuple[Json, ...] = ()
    terminating: bool = False
    tolerations: tuple[Json, ...] = field(default=())

    @cached_property
    def ports(self) -> frozenset[tuple[str, str, int]]:
        """Address, protocol and number of each host port; hostNetwork makes one of every port."""
        spec = self.spec
        kept = [one for one in spec.get("initContainers", []) if one.get("restartPolicy") == "Always"]
        own_network = spec.get("hostNetwork", False)
        found = set()
        for port in (port for container in (*spec["containers"], *kept) for port in container.get("ports") or []):
            number = port.get("hostPort") or (port["containerPort"] if own_network else 0)
            if number:
                found.add((port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number))
        return frozenset(found)

    @cached_property
    def near(self) -> tuple[Term, ...]:
        return tuple(self._terms("podAffinity"))

    @cached_property
    def apart(self) -> tuple[Term, ...]:
        return tuple(self._terms("podAntiAffinity"))

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        every = self.spec.get("topologySpreadConstraints") or []
        return tuple(self._spread(one) for one in every if one["whenUnsatisfiable"] == "DoNotSchedule")

    def _terms(self, kind: str) -> Iterable[Term]:
        for term in ((self.spec.get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or []:
            where = term.get("namespaceSelector")
            names = term.get("namespaces") or ([self.namespace] if where is None else [])
            yield Term(term["topologyKey"], self._merged(term), frozenset(names), where)

    def _spread(self, one: Json) -> Spread:
        return Spread(
            one["topologyKey"],
            one["maxSkew"],
            self._merged(one),
            one.get("minDomains") or 1,
            one.get("nodeAffinityPolicy") != "Ignore",
            one.get("nodeTaintsPolicy") == "Honor",
        )

    def _merged(self, rule: Json) -> Json | None:
        """The selector with what matchLabelKeys and mismatchLabelKeys make of the pod's own labels at admission."""
        selector: Json | None = rule.get("labelSelector")
        added = [
            {"key": key, "operator": operator, "values": [self.labels[key]]}
            for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in rule.get(name) or []
            if key in self.labels
        ]
        if not added or selector is None:
            return selector
        return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or []), *added]}


def admit(namespace: str, meta: Json, spec: Json, others: Iterable[Json]) -> Admitted:
    """`others` are the cluster's RuntimeClasses, PersistentVolumes and claims. Raises ValueError for one that isn't there."""
    known = {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in others}
    runtime = _found(known, "RuntimeClass", "", spec["runtimeClassName"]) if spec.get("runtimeClassName") else {}
    scheduling = runtime.get("scheduling") or {}
    spec = {**spec, "nodeSelector": {**(spec.get("nodeSelector") or {}), **(scheduling.get("nodeSelector") or {})}}
    passing = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute"} for name in _PASSING]
    return Admitted(
        namespace,
        meta.get("labels") or {},
        spec,
        pod_amounts(spec, (runtime.get("overhead") or {}).get("podFixed") or spec.get("overhead")),
        tuple(_volumes(namespace, spec, known)),
        "deletionTimestamp" in meta,
        (*(spec.get("tolerations") or []), *(scheduling.get("tolerations") or []), *passing),
    )


def _volumes(namespace: str, spec: Json, known: Mapping[tuple[str, str, str], Json]) -> Iterable[Json]:
    for volume in spec.get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            claim = _found(known, "PersistentVolumeClaim", namespace, volume["persistentVolumeClaim"]["claimName"])
            yield _found(known, "PersistentVolume", "", claim["spec"].get("volumeName", ""))


def _found(known: Mapping[tuple[str, str, str], Json], *which: str) -> Json:
    kind, namespace, name = which
    if (kind, namespace, name) not in known:
        raise ValueError(f"no {kind} {name!r}")
    return known[kind, namespace, name]
