"""Selectors of labels and of nodes as the API spells them, and what they are to the planner."""

from collections.abc import Iterable

from msgspec import field

from capacity import requirements
from kube.meta import Record


class SelectorRequirement(Record, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(Record, frozen=True, kw_only=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(Record, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Record, frozen=True, kw_only=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class VolumeNodeAffinity(Record, frozen=True, kw_only=True):
    required: NodeSelector | None = None


def label_selector(view: LabelSelector) -> requirements.LabelSelector:
    """One that the planner matches with; `matchLabels` are In expressions with one value there."""
    equal = (requirements.Expression(key, "In", (value,)) for key, value in view.match_labels.items())
    return requirements.LabelSelector((*equal, *expressions(view.match_expressions)))


def terms(view: NodeSelector) -> tuple[requirements.NodeSelectorTerm, ...]:
    return tuple(
        requirements.NodeSelectorTerm(expressions(each.match_expressions), expressions(each.match_fields))
        for each in view.node_selector_terms
    )


def expressions(views: Iterable[SelectorRequirement]) -> tuple[requirements.Expression, ...]:
    return tuple(requirements.Expression(each.key, each.operator, each.values) for each in views)
