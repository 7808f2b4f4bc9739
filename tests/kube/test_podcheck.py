"""What the API server would refuse about pod templates out of files."""

from typing import Any

import pytest

from kube.podcheck import check
from kube.podspec import template
from kube.requests import PodSpecError

CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "2"}}, "ports": [{"containerPort": 80}]}
SPREAD = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def spec(**more: Any) -> Any:
    return template({"spec": {"containers": [CONTAINER], **more}}).spec


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, **more}]}


def spread(**more: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{**SPREAD, **more}]}


def apart(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "rack", **term}]}}}


def selector(**expression: Any) -> dict[str, Any]:
    return apart(labelSelector={"matchExpressions": [{"key": "a", **expression}]})


def on_nodes(**expression: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", **expression}]}]}}}}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="plain"),
        pytest.param(spread(minDomains=2, labelSelector={"matchLabels": {"a": "b"}}), id="spread"),
        pytest.param(selector(operator="NotIn", values=["x"]), id="selector"),
        pytest.param(on_nodes(operator="Gt", values=["-4"]), id="node affinity"),
        pytest.param({"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]}, id="tolerations"),
    ],
)
def test_what_is_well(more: dict[str, Any]) -> None:
    check(spec(**more))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({"containers": []}, "spec.containers is empty: a pod needs one", id="no container"),
        pytest.param(container(ports=[{"hostPort": 80}]), "containers c: containerPort 0: write 1 to 65535", id="no port"),
        pytest.param(
            container(ports=[{"containerPort": 80, "hostPort": 65536}]), "containers c: hostPort 65536: write", id="port too high"
        ),
        pytest.param(
            container(ports=[{"containerPort": 80, "protocol": "tcp"}]),
            'protocol is "tcp": write TCP or UDP or SCTP',
            id="protocol",
        ),
        pytest.param(
            container(resources={"limits": {"x.com/gpu": "1500m"}}), "x.com/gpu: 1500m is no whole number", id="half a GPU"
        ),
        pytest.param(spread(topologyKey=""), r"topologySpreadConstraints\[0\].topologyKey is missing", id="spread over nothing"),
        pytest.param(spread(maxSkew=0), r"\[0\].maxSkew is 0: write 1 or more", id="skew"),
        pytest.param(spread(minDomains=-1), r"\[0\].minDomains is -1: write 1 or more", id="domains"),
        pytest.param(
            spread(whenUnsatisfiable="Never"), '"Never": write DoNotSchedule or ScheduleAnyway', id="what if it can't be spread"
        ),
        pytest.param(apart(topologyKey=""), "affinity: a required pod term: topologyKey is missing", id="apart by nothing"),
        pytest.param(selector(operator="in", values=["x"]), 'operator of a is "in": write In or NotIn or', id="operator"),
        pytest.param(selector(operator="Gt", values=["1"]), 'operator of a is "Gt"', id="an operator for nodes"),
        pytest.param(selector(operator="In"), "a In needs values: add some", id="no values"),
        pytest.param(selector(operator="Exists", values=["x"]), "a Exists takes no values", id="values"),
        pytest.param(on_nodes(operator="Lt", values=["x"]), "affinity.nodeAffinity: a Lt needs one value", id="no number"),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, "nodeSelectorTerms is empty", id="no term"
        ),
        pytest.param({"tolerations": [{"key": "a", "operator": "Any"}]}, r'tolerations\[0\].operator is "Any"', id="toleration"),
        pytest.param({"tolerations": [{"key": "a", "effect": "No"}]}, 'effect is "No": write NoSchedule or', id="effect"),
        pytest.param({"tolerations": [{"value": "a"}]}, "key is missing", id="toleration of nothing"),
    ],
)
def test_what_would_be_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(PodSpecError, match=words):
        check(spec(**more))
