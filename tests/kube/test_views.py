"""Views: what is absent, null or empty reads the same, and what is written is whole."""

from typing import Any

import pytest

from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import decode
from kube.ours import CapacityPolicy

META = {"name": "a", "namespace": "b"}
SETS = [{"podTemplateRef": {"name": "t"}, "count": 1}]


@pytest.mark.parametrize(
    "parameters", [pytest.param({}, id="empty"), pytest.param(None, id="null"), pytest.param("absent", id="absent")]
)
def test_absent_null_and_empty_read_alike(parameters: Any) -> None:
    spec = {"provisioningClassName": "gang.corral.dev", "podSets": SETS}
    if parameters != "absent":
        spec["parameters"] = parameters
    request = decode(
        {"metadata": META, "spec": spec, "status": parameters if parameters != "absent" else {}}, ProvisioningRequest
    )
    assert (request.spec.parameters, request.status.conditions) == ({}, ())


def test_a_null_inside_a_raw_template_does_no_harm() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": []}}
    workload = decode({"metadata": META, "spec": {"podSets": [{"name": "main", "count": 2, "template": template}]}}, Workload)
    assert workload.spec.pod_sets[0].template["spec"] == {"containers": []}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param("True", (True, False), id="true"),
        pytest.param("False", (False, False), id="false"),
        pytest.param("Unknown", (False, False), id="unknown"),
    ],
)
def test_workload_conditions(status: str, expected: tuple[bool, bool]) -> None:
    workload = decode({"metadata": META, "status": {"conditions": [{"type": "QuotaReserved", "status": status}]}}, Workload)
    assert (workload.quota_reserved, workload.evicted) == expected


def test_a_whole_object_names_its_kind() -> None:
    written = decode({"metadata": {"name": "training"}}, CapacityPolicy).to_json()
    assert written == {"apiVersion": "corral.dev/v1alpha1", "kind": "CapacityPolicy", "metadata": {"name": "training"}}


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(ValueError, match=r"spec\.active"):
        decode({"metadata": META, "spec": {"active": "yes"}}, Workload)
