"""Node selectors, required node affinity, taints and tolerations, as kube-scheduler 1.36 matches them."""

from dataclasses import dataclass


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
