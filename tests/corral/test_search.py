"""Which Workloads stand for what somebody names, and what is said where none does."""

from typing import Any

import pytest

from runtime.errors import Forbidden
from tests.corral.cluster import Json, check, meta, owner, request, told, waits, workload

pytestmark = pytest.mark.looptime

JOBSET = owner("JobSet", "llm", "jobset.x-k8s.io/v1alpha2")
STATEFUL = owner("StatefulSet", "serve", "apps/v1")


def below(name: str, *owners: Json, **fields: Any) -> Json:
    return {"metadata": meta(name, ownerReferences=list(owners), **fields)}


CLUSTER = {
    "workloads": [
        workload("jobset-llm", JOBSET),
        workload("statefulset-serve", STATEFUL),
        workload("gang", owner("Pod", "gang-a", "v1", controller=None), owner("Pod", "gang-b", "v1", controller=None)),
    ],
    "admissionchecks": [check()],
    "provisioningrequests": [
        request(f"{name}-1", waits("GangIncomplete", f"of {name}"), of=name)
        for name in ("jobset-llm", "statefulset-serve", "gang")
    ],
    "jobs": [below("llm-workers-0", JOBSET)],
    "pods": [
        below("llm-workers-0-x", owner("Job", "llm-workers-0", "batch/v1")),
        below("serve-0", STATEFUL),
        below("gang-c", labels={"kueue.x-k8s.io/pod-group-name": "gang"}),
        below("alone"),
    ],
}


@pytest.mark.parametrize(
    ("target", "found"),
    [
        pytest.param("jobset/llm", "jobset-llm", id="a kind that Kueue admits"),
        pytest.param("JobSets.jobset.x-k8s.io/llm", "jobset-llm", id="as a kubectl user writes it"),
        pytest.param("job/llm-workers-0", "jobset-llm", id="a job of a job set"),
        pytest.param("pod/llm-workers-0-x", "jobset-llm", id="a pod of a job of a job set"),
        pytest.param("sts/serve", "statefulset-serve", id="a stateful set"),
        pytest.param("pod/serve-0", "statefulset-serve", id="its pod"),
        pytest.param("pod/gang-b", "gang", id="a pod of a group"),
        pytest.param("pod/gang-c", "gang", id="one that is not among the group's owners yet"),
        pytest.param("podgroup/gang", "gang", id="the group"),
        pytest.param("workload/gang", "gang", id="the workload"),
    ],
)
async def test_what_stands_for_it(target: str, found: str) -> None:
    first, *_ = await told(CLUSTER, target)
    assert first.endswith(f": of {found}")


async def test_a_pod_whose_owners_may_not_be_read() -> None:
    first, *_ = await told(CLUSTER, "pod/llm-workers-0-x", "jobs")
    assert first.startswith("UNKNOWN pod/llm-workers-0-x: ")


NAMES = "jobset/llm, statefulset/serve, workload/gang"


@pytest.mark.parametrize(
    ("target", "looked_for"),
    [
        pytest.param("job/llm", "no Workload in namespace team has an owner of kind job named llm: does it exist", id="kind"),
        pytest.param("job.batch/x", "no Workload in namespace team has an owner of kind job of group batch named x", id="group"),
        pytest.param("pod/alone", "no Workload in namespace team has an owner of kind pod named alone", id="a pod of nobody"),
        pytest.param("workload/x", "there is no Workload x in namespace team", id="workload"),
        pytest.param("podgroup/x", "there is no pod group x in namespace team", id="group of pods"),
    ],
)
async def test_what_was_looked_for_in_vain(target: str, looked_for: str) -> None:
    first, last = await told(CLUSTER, target)
    assert first.startswith(f"UNKNOWN {target}: {looked_for}")
    assert last == f"  Kueue's Workloads in namespace team are of: {NAMES}"


async def test_a_request_that_is_not_there() -> None:
    assert await told(CLUSTER, "provreq/x") == ["UNKNOWN provreq/x: there is no ProvisioningRequest x in namespace team"]


async def test_an_empty_namespace() -> None:
    assert (await told({}, "job/llm"))[-1] == "  Kueue's Workloads in namespace team are of: nothing"


@pytest.mark.parametrize("target", ["job/far", "provreq/far-1"])
async def test_what_is_in_another_namespace_is_said_where_that_may_be_read(target: str) -> None:
    away = workload("job-far", owner("Job", "far", "batch/v1"))
    asked = request("far-1", of="job-far")
    for each in (away, asked):
        each["metadata"]["namespace"] = "other"
    cluster = {"workloads": [*CLUSTER["workloads"], away], "provisioningrequests": [asked]}
    hint = "  it is in namespace other: add -n other"
    assert hint in await told(cluster, target)
    assert hint not in await told(cluster, target, "workloads/*", "provisioningrequests/*")


@pytest.mark.parametrize("target", ["pod/half-a", "podgroup/half"])
async def test_a_group_of_which_pods_are_missing(target: str) -> None:
    marks: Json = {"labels": {"kueue.x-k8s.io/pod-group-name": "half"}}
    marks["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
    lines = await told({"pods": [below("half-a", **marks), below("half-b", **marks), below("alone")]}, target)
    said = "2 pods of group half are there, 3 are to come in all: Kueue makes a Workload of them when the last one is there"
    assert f"  {said}" in lines


async def test_pods_of_a_deployment_are_workloads_one_by_one() -> None:
    assert "  Kueue makes a Workload for each pod of a Deployment: name one of its pods, pod/NAME" in await told(
        CLUSTER, "deploy/web"
    )


async def test_no_right_to_read_workloads_is_an_error() -> None:
    with pytest.raises(Forbidden):
        await told(CLUSTER, "job/llm", "workloads")
