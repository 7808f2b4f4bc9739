"""Expected values from kube-scheduler 1.36.3 (component-helpers nodeaffinity, api/core/v1 ToleratesTaint)."""

import pytest

from capacity.requirements import (
    Expression,
    LabelSelector,
    NodeSelectorTerm,
    PodTerm,
    Taint,
    Toleration,
    affinity_matches,
    field_holds,
    holds,
    selector_misses,
    tolerates,
    untolerated,
)

LABELS = {"gpu": "h100", "count": "007", "empty": "", "huge": "9223372036854775808", "text": "x7", "minus": "-3"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        pytest.param("gpu", "In", ("a100", "h100"), True, id="in"),
        pytest.param("gpu", "In", ("a100",), False, id="not in the list"),
        pytest.param("absent", "In", ("",), False, id="absent is not the empty value"),
        pytest.param("empty", "In", ("",), True, id="the empty value"),
        pytest.param("gpu", "In", (), False, id="in nothing is refused by the API"),
        pytest.param("gpu", "NotIn", ("a100",), True, id="notin"),
        pytest.param("gpu", "NotIn", ("h100",), False, id="notin listed"),
        pytest.param("absent", "NotIn", ("h100",), True, id="notin holds where the key is absent"),
        pytest.param("gpu", "NotIn", (), False, id="notin nothing is refused by the API"),
        pytest.param("empty", "Exists", (), True, id="exists with empty value"),
        pytest.param("absent", "Exists", (), False, id="exists absent"),
        pytest.param("gpu", "Exists", ("h100",), False, id="exists takes no values"),
        pytest.param("absent", "DoesNotExist", (), True, id="does not exist"),
        pytest.param("gpu", "DoesNotExist", (), False, id="does exist"),
        pytest.param("count", "Gt", ("6",), True, id="gt reads 007 as 7"),
        pytest.param("count", "Gt", ("7",), False, id="gt is strict"),
        pytest.param("count", "Lt", ("+8",), True, id="lt with a sign"),
        pytest.param("minus", "Lt", ("-2",), True, id="lt negative"),
        pytest.param("absent", "Lt", ("8",), False, id="lt absent"),
        pytest.param("text", "Gt", ("1",), False, id="gt on no number"),
        pytest.param("huge", "Gt", ("1",), False, id="gt beyond int64"),
        pytest.param("count", "Gt", ("6", "5"), False, id="gt takes one value"),
        pytest.param("count", "Gt", ("six",), False, id="gt against no number"),
        pytest.param("count", "Gt", ("6_0",), False, id="no underscores"),
        pytest.param("gpu", "Like", ("h100",), False, id="unknown operator"),
    ],
)
def test_expression(key: str, operator: str, values: tuple[str, ...], expected: bool) -> None:
    assert holds(Expression(key, operator, values), LABELS) is expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param(Expression("metadata.name", "In", ("n1",)), True, id="in"),
        pytest.param(Expression("metadata.name", "In", ("n2",)), False, id="another"),
        pytest.param(Expression("metadata.name", "NotIn", ("n2",)), True, id="notin"),
        pytest.param(Expression("metadata.name", "In", ("n1", "n2")), False, id="exactly one value"),
        pytest.param(Expression("metadata.name", "Exists"), False, id="no other operator"),
        pytest.param(Expression("metadata.uid", "In", ("n1",)), False, id="no other field"),
    ],
)
def test_field(field: Expression, expected: bool) -> None:
    assert field_holds(field, "n1") is expected


H100 = NodeSelectorTerm((Expression("gpu", "In", ("h100",)),))
A100 = NodeSelectorTerm((Expression("gpu", "In", ("a100",)),))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param(None, True, id="no affinity"),
        pytest.param((), False, id="no term matches nothing"),
        pytest.param((NodeSelectorTerm(),), False, id="an empty term matches nothing"),
        pytest.param((A100, H100), True, id="terms are alternatives"),
        pytest.param((NodeSelectorTerm(H100.expressions + A100.expressions),), False, id="expressions all hold"),
        pytest.param(
            (NodeSelectorTerm(H100.expressions, (Expression("metadata.name", "In", ("n2",)),)),), False, id="fields too"
        ),
    ],
)
def test_affinity(terms: tuple[NodeSelectorTerm, ...] | None, expected: bool) -> None:
    assert affinity_matches(terms, LABELS, "n1") is expected


def test_selector_names_the_first_key_that_misses() -> None:
    assert selector_misses({"gpu": "h100", "zone": "a", "rack": "r"}, LABELS) == "rack"
    assert selector_misses({"gpu": "h100"}, LABELS) is None


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration("k", "Equal", "v", "NoSchedule"), True, id="equal"),
        pytest.param(Toleration("k", "", "v", ""), True, id="defaults: equal, every effect"),
        pytest.param(Toleration("k", "Equal", "w"), False, id="another value"),
        pytest.param(Toleration("k", "Exists"), True, id="exists"),
        pytest.param(Toleration("", "Exists"), True, id="everything"),
        pytest.param(Toleration("", "Exists", "", "NoExecute"), False, id="another effect"),
        pytest.param(Toleration("j", "Exists"), False, id="another key"),
        pytest.param(Toleration("k", "Gt", "1"), False, id="comparison is off"),
    ],
)
def test_toleration(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, Taint("k", "NoSchedule", "v")) is expected


def test_only_hard_effects_block() -> None:
    soft, hard, evict = Taint("a", "PreferNoSchedule"), Taint("b", "NoSchedule"), Taint("c", "NoExecute")
    assert untolerated((soft, hard), ()) == hard
    assert untolerated((evict,), (Toleration("b", "Exists"),)) == evict
    assert untolerated((soft,), ()) is None


@pytest.mark.parametrize(
    ("selector", "namespaces", "expected"),
    [
        pytest.param(LabelSelector((Expression("gpu", "In", ("h100",)),)), frozenset({"a"}), True, id="label and namespace"),
        pytest.param(LabelSelector((Expression("gpu", "In", ("h100",)),)), frozenset({"b"}), False, id="another namespace"),
        pytest.param(LabelSelector((Expression("gpu", "NotIn", ("h100",)),)), None, False, id="every namespace, another label"),
        pytest.param(LabelSelector((Expression("gpu", "Exists"), Expression("x", "Exists"))), None, False, id="all must hold"),
        pytest.param(LabelSelector(), None, True, id="an empty selector selects all"),
        pytest.param(LabelSelector(), frozenset(), False, id="of no namespace"),
        pytest.param(None, None, False, id="no selector selects none"),
    ],
)
def test_pod_term(selector: LabelSelector | None, namespaces: frozenset[str] | None, expected: bool) -> None:
    assert PodTerm("rack", selector, namespaces).selects("a", LABELS) is expected
