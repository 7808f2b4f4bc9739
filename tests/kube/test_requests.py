"""Pod requests as kube-scheduler 1.36.3 counts them. Expected values by hand from the formula in component-helpers/resource."""

from typing import Any

import pytest

from kube.core import PodSpec, PodStatus
from kube.meta import decode
from kube.requests import PodSpecError, pod_requests

GI = 2**30


def container(name: str = "main", requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **fields}


def cpu(amount: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    return container(name, {"cpu": amount}, **fields)


def counted(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    return dict(pod_requests(decode(spec, PodSpec), decode(status, PodStatus) if status else None))


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, {"pods": 1}, id="asks for nothing"),
        pytest.param({"containers": [cpu("1"), cpu("500m")]}, {"cpu": 1500, "pods": 1}, id="containers add up"),
        pytest.param({"containers": [cpu("0.9991")]}, {"cpu": 1000, "pods": 1}, id="a fraction of a milli-core rounds up"),
        pytest.param({"containers": [cpu("0")]}, {"pods": 1}, id="zero asks for nothing"),
        pytest.param(
            {"containers": [container(requests={"memory": "1500m"}), container(requests={"memory": "500m"})]},
            {"memory": 2, "pods": 1},
            id="memory is summed in thousandths and rounded once",
        ),
        pytest.param(
            {"containers": [container(requests={"memory": "1G"}), container(requests={"memory": "1Gi"})]},
            {"memory": 10**9 + GI, "pods": 1},
            id="1G and 1Gi differ",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "4", "nvidia.com/gpu": 8})]},
            {"cpu": 1000, "nvidia.com/gpu": 8, "pods": 1},
            id="limits stand in for missing requests only",
        ),
        pytest.param({"containers": [cpu("3")], "initContainers": [cpu("4")]}, {"cpu": 4000, "pods": 1}, id="init peak wins"),
        pytest.param({"containers": [cpu("3")], "initContainers": [cpu("2")]}, {"cpu": 3000, "pods": 1}, id="init below"),
        pytest.param(
            {"containers": [cpu("3")], "initContainers": [cpu("4", "a"), cpu("2", "s", **SIDECAR), cpu("8", "b")]},
            {"cpu": 10_000, "pods": 1},
            id="a sidecar runs beside later init containers (measured: fits on 10 cpu, not on 9.9)",
        ),
        pytest.param(
            {"containers": [cpu("3")], "initContainers": [cpu("2", "s", **SIDECAR), cpu("1", "t", **SIDECAR)]},
            {"cpu": 6000, "pods": 1},
            id="sidecars add to the containers",
        ),
        pytest.param({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250, "pods": 1}, id="overhead on top"),
        pytest.param(
            {"containers": [cpu("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}},
            {"cpu": 4250, "pods": 1},
            id="pod-level requests replace the sum, overhead still on top",
        ),
        pytest.param(
            {"containers": [cpu("1")], "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}},
            {"cpu": 1000, "memory": GI, "pods": 1},
            id="pod-level limits count where no container asks",
        ),
        pytest.param(
            {"containers": [container(requests={"hugepages-2Mi": "2Mi"})], "resources": {"limits": {"hugepages-2Mi": "4Mi"}}},
            {"hugepages-2Mi": 4 * 2**20, "pods": 1},
            id="huge pages default to the pod-level limit",
        ),
        pytest.param(
            {"containers": [container(requests={"nvidia.com/gpu": "1"})], "resources": {"requests": {"nvidia.com/gpu": "8"}}},
            {"nvidia.com/gpu": 1, "pods": 1},
            id="pod-level counts for cpu, memory and huge pages only",
        ),
    ],
)
def test_counts_a_new_pod(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert counted(spec) == expected


def resized(requests: str, allocated: str) -> dict[str, Any]:
    return {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": requests}}, "allocatedResources": {"cpu": allocated}},
        ],
    }


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
POD_LEVEL = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {"containerStatuses": [{"name": "main"}]}, 2000, id="a status without resources says nothing"),
        pytest.param({}, resized("4", "3"), 4000, id="what is in force counts while a pod shrinks"),
        pytest.param({}, resized("1", "1"), 2000, id="what is asked counts while a pod grows"),
        pytest.param({}, {**resized("1", "1"), **INFEASIBLE}, 1000, id="a resize that can't happen doesn't count"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, POD_LEVEL, 6000, id="pod-level amounts in force"),
    ],
)
def test_counts_a_pod_that_is_there(spec: dict[str, Any], status: dict[str, Any], expected: int) -> None:
    assert counted({"containers": [cpu("2")], **spec}, status)["cpu"] == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"containers": [cpu("two")]}, "container main: requests: cpu: ", id="no quantity"),
        pytest.param(
            {"containers": [container(limits={"memory": "-1"})]}, "container main: limits: memory: -1 is neg", id="negative"
        ),
        pytest.param({"overhead": {"cpu": "x"}}, "spec.overhead: cpu: ", id="overhead"),
    ],
)
def test_names_the_field_of_a_bad_amount(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(PodSpecError, match=words):
        counted(spec)
