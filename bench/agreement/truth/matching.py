"""Labels, selectors, taints: does this match that? (apimachinery labels, component-helpers nodeaffinity, 0.36.3)"""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]
Labels = Mapping[str, str]


def selected(selector: Json | None, labels: Labels) -> bool:
    """A LabelSelector: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        holds(expression, labels) for expression in selector.get("matchExpressions") or []
    )


def is_empty(selector: Json | None) -> bool:
    """Selects everything."""
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def holds(expression: Json, labels: Labels) -> bool:
    """One requirement. A label that isn't there is not in any list, and neither greater nor less than a number."""
    found, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return found is not None and found in values
        case "NotIn":
            return found is None or found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            mine, bound = integer(found), integer(values[0])
            if mine is None or bound is None:
                return False
            return mine > bound if operator == "Gt" else mine < bound
        case other:
            raise ValueError(f"no operator: {other}")


def integer(text: str | None) -> int | None:
    """What Go's ParseInt makes of it in 64 bits; None where it makes nothing."""
    if text is None or not text.lstrip("+-").isdecimal() or not text.isascii() or len(text) - len(text.lstrip("+-")) > 1:
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def on_node(spec: Json, name: str, labels: Labels) -> bool:
    """`nodeSelector` and required node affinity of a pod spec."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any_term(required["nodeSelectorTerms"], name, labels)


def any_term(terms: Iterable[Json], name: str, labels: Labels) -> bool:
    """Terms are alternatives; one that says nothing matches nothing."""
    return any(_term(term, name, labels) for term in terms)


def _term(term: Json, name: str, labels: Labels) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    if any(len(field["values"]) != 1 for field in fields):
        return False
    return all(holds(each, labels) for each in expressions) and all(holds(each, {"metadata.name": name}) for each in fields)


def blocked(taints: Iterable[Json], tolerations: Iterable[Json]) -> bool:
    """Some taint that keeps new pods away is not tolerated."""
    known = list(tolerations)
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute") and not any(_tolerated(taint, toleration) for toleration in known)
        for taint in taints
    )


def _tolerated(taint: Json, toleration: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
