"""Nobody spends without quota: what a forged, stale or greedy request is told."""

from collections.abc import Callable
from typing import Any

import pytest

from capacity.model import PodSet
from kube import core, kueue
from kube.meta import decode
from provisioner.asking.authority import Look, NoQuota, admit_bare, bare, on_terms, reserved, within, workload_of
from tests.provisioner.make import check, config, request, template, workload


def look(there: kueue.Workload | None = None, known: kueue.AdmissionCheck | None = None) -> Look:
    there = there or workload()
    key = (there.metadata.namespace, there.metadata.name)
    return Look(lambda asked: there if asked == key else None, lambda _: known or check(), {})


@pytest.mark.parametrize(
    ("asked", "templates", "text"),
    [
        pytest.param(request(), [template()], "", id="its-own"),
        pytest.param(request(metadata={"annotations": {}}), [template()], "there is no Workload team/,", id="names-none"),
        pytest.param(
            request(metadata={"annotations": {"corral.dev/workload": "other"}}),
            [template()],
            "there is no Workload team/other",
            id="names-another",
        ),
        pytest.param(request(metadata={"labels": {"corral.dev/workload-uid": "x"}}), [template()], "was made anew", id="stale"),
        pytest.param(request(metadata={"ownerReferences": []}), [template()], "not owned by one of its", id="not-owned"),
        pytest.param(request(), [template(owner="x")], "tpl is not owned by Workload job", id="a-template-of-another"),
        pytest.param(request(), [template(), template("more", owner="x")], "PodTemplate more is not", id="one-of-two"),
    ],
)
def test_the_workload_behind_a_request(asked: Any, templates: list[core.PodTemplate], text: str) -> None:
    found = workload_of(asked, templates, look())
    if text:
        assert isinstance(found, NoQuota)
        assert text in found.message
    else:
        assert isinstance(found, kueue.Workload)


@pytest.mark.parametrize(
    ("there", "name", "text"),
    [
        pytest.param(workload(), "capacity", "", id="reserved"),
        pytest.param(workload(conditions={}), "capacity", "holds no quota", id="not-reserved"),
        pytest.param(workload(conditions={"QuotaReserved": "False"}), "capacity", "holds no quota", id="reserved-no-more"),
        pytest.param(workload(conditions={"QuotaReserved": "True", "Evicted": "True"}), "capacity", "holds no", id="evicted"),
        pytest.param(workload(conditions={"QuotaReserved": "True", "Finished": "True"}), "capacity", "holds no", id="finished"),
        pytest.param(workload(active=False), "capacity", "holds no quota", id="deactivated"),
        pytest.param(workload(), "other", 'has no check "other"', id="not-its-check"),
    ],
)
def test_quota_must_be_reserved_for_our_check(there: kueue.Workload, name: str, text: str) -> None:
    found = reserved(there, name, look(there))
    assert (found.message if found else "").find(text) >= 0
    assert (found is None) is (text == "")


def test_a_check_of_another_controller_is_not_ours() -> None:
    assert reserved(workload(), "capacity", look(known=check(controller="kueue.x-k8s.io/provisioning-request"))) is not None


@pytest.mark.parametrize(
    ("known", "configs", "text"),
    [
        pytest.param(check(), {}, "", id="a-policy"),
        pytest.param(check(parameters="cheap"), {}, 'chooses "cheap": name that one', id="another-policy"),
        pytest.param(
            check(kind="ProvisioningRequestConfig", parameters="conf"), {"conf": config(policy="default")}, "", id="by-config"
        ),
        pytest.param(
            check(kind="ProvisioningRequestConfig", parameters="conf"),
            {"conf": config(policy="cheap")},
            '"cheap"',
            id="config-other",
        ),
        pytest.param(
            check(kind="ProvisioningRequestConfig", parameters="conf"), {"conf": config()}, "", id="config-says-nothing"
        ),
        pytest.param(check(kind="ProvisioningRequestConfig", parameters="conf"), {}, "chooses no", id="config-gone"),
        pytest.param(check(kind="ConfigMap"), {}, "chooses no CapacityPolicy", id="unknown-kind"),
        pytest.param(check(kind=""), {}, "chooses no CapacityPolicy", id="no-parameters"),
    ],
)
def test_the_check_chooses_the_policy(known: kueue.AdmissionCheck, configs: dict[str, Any], text: str) -> None:
    found = on_terms("capacity", "default", Look(lambda _: None, lambda _: known, {}, configs.get))
    assert (found.message if found else "").find(text) >= 0
    assert (found is None) is (text == "")


def pods(name: str = "main", count: int = 4, **requests: int) -> PodSet:
    return PodSet(name, count, {"cpu": 8000, "nvidia.com/gpu": 8, "pods": 1, **requests})


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param(pods(), "", id="all-of-it"),
        pytest.param(pods(count=1), "", id="part-of-it"),
        pytest.param(pods(cpu=1), "", id="smaller-pods"),
        pytest.param(pods(count=5), "asks for 5 pods, quota is reserved for 4", id="more-pods"),
        pytest.param(pods(cpu=8001), "asks for more cpu", id="bigger-pods"),
        pytest.param(pods(memory=1), "asks for more memory", id="another-resource"),
        pytest.param(pods("spare"), '"spare" is not one of Workload job', id="another-pod-set"),
    ],
)
def test_no_more_than_the_quota(asked: PodSet, text: str) -> None:
    found = within(workload(), [asked], look())
    assert (found.message if found else "").find(text) >= 0
    assert (found is None) is (text == "")


def test_the_admitted_count_holds_not_the_asked_one() -> None:
    raw = workload().to_json()
    raw["status"]["admission"] = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 2}]}
    assert within(decode(raw, kueue.Workload), [pods(count=3)], look()) is not None


@pytest.mark.parametrize(
    ("asked", "is_bare"),
    [pytest.param(request(bare=True), True, id="bare"), pytest.param(request(), False, id="of-a-workload")],
)
def test_bare_requests(asked: Any, is_bare: bool) -> None:
    assert bare(asked) is is_bare


def test_a_policy_admits_bare_requests_by_namespace() -> None:
    admit: Callable[..., NoQuota | None] = admit_bare
    assert admit(request(bare=True), "default", ["team"]) is None
    refused = admit(request(bare=True), "default", ["other"])
    assert refused is not None
    assert refused.lasting
    assert "add namespace team to bareRequests.namespaces of CapacityPolicy default" in refused.message
