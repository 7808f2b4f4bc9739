"""What people write after `corral why`, and which owners of Workloads they mean by it."""

import pytest

from corral.targets import TargetError, target
from kube.meta import OwnerReference

JOB = OwnerReference(api_version="batch/v1", kind="Job", name="llm")
TORCH = OwnerReference(api_version="kubeflow.org/v1", kind="PyTorchJob", name="llm")
LWS = OwnerReference(api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet", name="llm")
POD = OwnerReference(api_version="v1", kind="Pod", name="llm")


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        pytest.param("job/llm", JOB, id="job"),
        pytest.param("Job/llm", JOB, id="as in a manifest"),
        pytest.param("jobs/llm", JOB, id="plural"),
        pytest.param("job.batch/llm", JOB, id="as kubectl prints it"),
        pytest.param("jobs.v1.batch/llm", JOB, id="with its version"),
        pytest.param("pytorchjob/llm", TORCH, id="kubeflow"),
        pytest.param("PyTorchJobs.kubeflow.org/llm", TORCH, id="kubeflow with its group"),
        pytest.param("lws/llm", LWS, id="short"),
        pytest.param("pod/llm", POD, id="core"),
        pytest.param("po/llm", POD, id="core, short"),
    ],
)
def test_every_way_to_write_a_kind(text: str, owner: OwnerReference) -> None:
    assert [each for each in (JOB, TORCH, LWS, POD) if target(text).owns(each)] == [owner]


@pytest.mark.parametrize("text", ["job/other", "job.batch.volcano.sh/llm", "jobset/llm", "pytorchjob.example.com/llm"])
def test_what_is_not_meant(text: str) -> None:
    assert not any(target(text).owns(each) for each in (JOB, TORCH, LWS, POD))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("provreq/x", "provisioningrequest"),
        ("provisioningrequests.autoscaling.x-k8s.io/x", "provisioningrequest"),
        ("wl/x", "workload"),
        ("workloads.kueue.x-k8s.io/x", "workload"),
        ("cpool/x", "capacitypool"),
        ("pool/x", "capacitypool"),
        ("nodes/x", "node"),
        ("reservation/projects/p/x", "reservation"),
    ],
)
def test_what_owns_no_workloads(text: str, kind: str) -> None:
    assert target(text).kind == kind


@pytest.mark.parametrize("text", ["llm", "job/", "/llm", ".batch/llm", "workload.example.com/x"])
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(TargetError, match="is no target: "):
        target(text)
