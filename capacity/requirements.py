"""Node selectors, required node affinity, taints and tolerations, as kube-scheduler 1.36 matches them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BLOCKING = ("NoSchedule", "NoExecute")
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Expression:
    """One `matchExpressions` or `matchFields` entry; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All expressions (on labels) and fields (on `metadata.name`) must hold; a term with neither matches nothing."""

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements on a pod's labels, all of which must hold; without any it selects every pod (meta/v1 LabelSelector).

    `matchLabels` are In expressions with one value here; labels that `matchLabelKeys` adds at admission are merged in.
    """

    expressions: tuple[Expression, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(holds(expression, labels) for expression in self.expressions)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One required inter-pod affinity or anti-affinity term, as admitted.

    A `selector` of None selects no pod. `namespaces` are those in which pods count, None all of them.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.selects(labels)


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint with whenUnsatisfiable DoNotSchedule; it counts pods of the pod's own namespace.

    Domains are the values of `topology_key` on nodes that bear the keys of all the pod's constraints, pass its node selector and
    affinity if `honors_affinity`, and have no untolerated taint if `honors_taints`.
    """

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod binds; 0.0.0.0 conflicts with every address of the same protocol and port."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104  # the API's own default, not something that we bind


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """`operator` is Equal (the default, also for "") or Exists; an empty `effect` matches every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration lets a pod bear one taint (k8s.io/api/core/v1 0.36.3, Toleration.ToleratesTaint; Gt and Lt are
    off).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod away; only NoSchedule and NoExecute do, and tolerationSeconds plays no part."""
    known = tuple(tolerations)
    for taint in taints:
        if taint.effect in _BLOCKING and not any(tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Whether a node's labels satisfy one expression; one that the API server would refuse holds for no node."""
    check = _OPERATORS.get(expression.operator)
    return check is not None and check(expression.values, labels.get(expression.key))


def field_holds(expression: Expression, name: str) -> bool:
    """A `matchFields` entry: `metadata.name` with In or NotIn and exactly one value, else it matches nothing."""
    if expression.key != "metadata.name" or len(expression.values) != 1:
        return False
    return {"In": name == expression.values[0], "NotIn": name != expression.values[0]}.get(expression.operator, False)


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(holds(e, labels) for e in term.expressions) and all(field_holds(f, name) for f in term.fields)


def affinity_matches(terms: tuple[NodeSelectorTerm, ...] | None, labels: Mapping[str, str], name: str) -> bool:
    """Required node affinity: None asks for nothing, an empty tuple matches nothing, else any one term is enough."""
    return terms is None or any(term_matches(term, labels, name) for term in terms)


def selector_misses(selector: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """The first key, in order, whose value differs from what the node selector asks for."""
    return next((key for key in sorted(selector) if labels.get(key) != selector[key]), None)


def _number(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 10, 64): a sign and ASCII digits, in the range of int64."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 400:
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


def _compare(values: tuple[str, ...], found: str | None, sign: int) -> bool:
    if len(values) != 1 or found is None:
        return False
    bound, number = _number(values[0]), _number(found)
    return bound is not None and number is not None and (number - bound) * sign > 0


_OPERATORS = {
    "In": lambda values, found: bool(values) and found in values,
    "NotIn": lambda values, found: bool(values) and found not in values,
    "Exists": lambda values, found: not values and found is not None,
    "DoesNotExist": lambda values, found: not values and found is None,
    "Gt": lambda values, found: _compare(values, found, 1),
    "Lt": lambda values, found: _compare(values, found, -1),
}
