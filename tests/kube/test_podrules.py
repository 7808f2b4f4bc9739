"""Inter-pod terms, spreads and host ports as admission leaves them; expected values by the rules of Kubernetes 1.36.3."""

from typing import Any

import pytest

from capacity.requirements import Expression, HostPort, LabelSelector, PodTerm, Spread
from kube.core import PodSpec
from kube.meta import decode
from kube.podrules import apart, host_ports, near, spreads

KNOWN = {"team": {"kind": "ml"}, "web": {"kind": "web"}, "lab": {"kind": "ml"}}
LABELS = {"app": "train", "rev": "7"}
APP = {"labelSelector": {"matchLabels": {"app": "train"}}}
APP_IN = Expression("app", "In", ("train",))


def spec(value: dict[str, Any]) -> PodSpec:
    return decode(value, PodSpec)


def terms(kind: str, *each: dict[str, Any]) -> PodSpec:
    return spec({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(each)}}})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"team"}, id="its own when nothing is said"),
        pytest.param({"namespaces": ["a", "b"]}, {"a", "b"}, id="those named, its own not among them"),
        pytest.param({"namespaceSelector": {}}, None, id="an empty selector takes all"),
        pytest.param({"namespaces": ["a"], "namespaceSelector": {}}, None, id="an empty selector beside names"),
        pytest.param({"namespaceSelector": {"matchLabels": {"kind": "ml"}}}, {"team", "lab"}, id="those selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"kind": "x"}}}, set(), id="none selected is none, not its own"),
        pytest.param({"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"kind": "web"}}}, {"a", "web"}, id="both"),
    ],
)
def test_namespaces_of_a_term(fields: dict[str, Any], expected: set[str] | None) -> None:
    [term] = near(terms("podAffinity", {"topologyKey": "rack", **APP, **fields}), "team", LABELS, KNOWN)
    assert term.namespaces == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, None, id="no selector selects nothing"),
        pytest.param({"labelSelector": {}}, (), id="an empty one selects all"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1", "2"]}]}},
            (Expression("a", "NotIn", ("1", "2")),),
            id="expressions",
        ),
        pytest.param({**APP, "matchLabelKeys": ["rev"]}, (APP_IN, Expression("rev", "In", ("7",))), id="matchLabelKeys"),
        pytest.param({**APP, "mismatchLabelKeys": ["rev"]}, (APP_IN, Expression("rev", "NotIn", ("7",))), id="mismatchLabelKeys"),
        pytest.param({**APP, "matchLabelKeys": ["none"]}, (APP_IN,), id="a key that the pod lacks adds nothing"),
        pytest.param({"matchLabelKeys": ["rev"]}, None, id="nothing is merged into no selector"),
        pytest.param(
            {
                "labelSelector": {"matchExpressions": [{"key": "rev", "operator": "In", "values": ["6"]}]},
                "matchLabelKeys": ["rev"],
            },
            (Expression("rev", "In", ("6",)),),
            id="what was merged when the pod was made stays",
        ),
    ],
)
def test_selector_of_a_term(fields: dict[str, Any], expected: tuple[Expression, ...] | None) -> None:
    [term] = apart(terms("podAntiAffinity", {"topologyKey": "rack", **fields}), "team", LABELS, KNOWN)
    assert term == PodTerm("rack", None if expected is None else LabelSelector(expected), frozenset({"team"}))


def test_preferred_terms_do_not_filter() -> None:
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}]}
    found = spec({"affinity": {"podAffinity": soft, "podAntiAffinity": soft}})
    assert (near(found, "", {}, {}), apart(found, "", {}, {})) == ((), ())


def test_affinity_and_anti_affinity_are_told_apart() -> None:
    found = terms("podAffinity", {"topologyKey": "rack", **APP})
    assert (len(near(found, "team", LABELS, KNOWN)), apart(found, "team", LABELS, KNOWN)) == (1, ())


HARD = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, Spread("zone", 2, None, 1, honors_affinity=True, honors_taints=False), id="defaults"),
        pytest.param(APP, Spread("zone", 2, LabelSelector((APP_IN,))), id="selector"),
        pytest.param({"labelSelector": {}}, Spread("zone", 2, LabelSelector()), id="empty selector"),
        pytest.param({"minDomains": 3}, Spread("zone", 2, None, 3), id="minDomains"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, Spread("zone", 2, None, honors_affinity=False), id="affinity ignored"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, Spread("zone", 2, None, honors_taints=True), id="taints honoured"),
        pytest.param(
            {"labelSelector": {}, "matchLabelKeys": ["rev", "none"]},
            Spread("zone", 2, LabelSelector((Expression("rev", "In", ("7",)),))),
            id="matchLabelKeys",
        ),
    ],
)
def test_a_hard_spread(fields: dict[str, Any], expected: Spread) -> None:
    assert spreads(spec({"topologySpreadConstraints": [{**HARD, **fields}]}), LABELS) == (expected,)


def test_a_soft_spread_does_not_filter() -> None:
    assert spreads(spec({"topologySpreadConstraints": [{**HARD, "whenUnsatisfiable": "ScheduleAnyway"}]}), LABELS) == ()


BOUND = {"name": "main", "ports": [{"hostPort": 80, "containerPort": 8080}]}
FREE = {"name": "main", "ports": [{"containerPort": 29500, "protocol": "UDP"}]}
ADDRESSED = {"name": "main", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"containers": [BOUND]}, [HostPort(80, "TCP", "0.0.0.0")], id="the defaults of protocol and address"),
        pytest.param({"containers": [ADDRESSED]}, [HostPort(80, "TCP", "10.0.0.1")], id="an address"),
        pytest.param({"containers": [FREE]}, [], id="a container port is free"),
        pytest.param(
            {"containers": [FREE], "hostNetwork": True}, [HostPort(29500, "UDP")], id="host network makes it a host port"
        ),
        pytest.param({"initContainers": [BOUND]}, [], id="an init container's port doesn't count"),
        pytest.param({"initContainers": [{**BOUND, "restartPolicy": "Always"}]}, [HostPort(80)], id="a sidecar's does"),
        pytest.param({"containers": [BOUND, BOUND]}, [HostPort(80)], id="one port once"),
    ],
)
def test_host_ports(value: dict[str, Any], expected: list[HostPort]) -> None:
    assert list(host_ports(spec(value))) == expected


def test_a_pod_that_asks_nothing_shares_the_empty_answer() -> None:
    plain = spec({"containers": [{"name": "main"}]})
    assert host_ports(plain) is apart(plain, "team", {}, KNOWN) == ()  # type: ignore[comparison-overlap]
