"""What JobSets, LeaderWorkerSets, StatefulSets and pods themselves say of their pods."""

from typing import Any

import pytest

from kube.makers import JobCounts, JobSet, LeaderWorkerSet, StatefulSet, left_out, notes
from kube.meta import decode
from kube.queued_pods import Pods, QueuedPod

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SELECTING = "alpha.jobset.sigs.k8s.io/node-selector"
LWS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
SIZE = "corral.dev/exclusive-size"
BY_JOBSET = {"corral.dev/made-by": "JobSet"}
BY_LWS = {"corral.dev/made-by": "LeaderWorkerSet"}


def job(name: str, said: dict[str, str] | None = None, **spec: int) -> dict[str, Any]:
    return {"name": name, "template": {"metadata": {"annotations": said or {}}, "spec": spec}}


@pytest.mark.parametrize(
    ("said", "jobs", "expected"),
    [
        pytest.param({}, [job("w", parallelism=4)], BY_JOBSET, id="nothing"),
        pytest.param(
            {EXCLUSIVE: "rack"}, [job("w", parallelism=4)], {**BY_JOBSET, EXCLUSIVE: "rack", SIZE: "4"}, id="the JobSet's"
        ),
        pytest.param({}, [job("w", {EXCLUSIVE: "rack"})], {**BY_JOBSET, EXCLUSIVE: "rack", SIZE: "1"}, id="the replicated job's"),
        pytest.param(
            {EXCLUSIVE: "zone"},
            [job("w", {EXCLUSIVE: "rack"})],
            {**BY_JOBSET, EXCLUSIVE: "rack", SIZE: "1"},
            id="the replicated job's goes first",
        ),
        pytest.param({}, [job("w"), job("other", {EXCLUSIVE: "rack"})], BY_JOBSET, id="another job's"),
        pytest.param({SELECTING: "true"}, [job("w")], {**BY_JOBSET, SELECTING: "true"}, id="node selector"),
    ],
)
def test_a_job_set(said: dict[str, str], jobs: list[Any], expected: dict[str, str]) -> None:
    view = decode({"metadata": {"annotations": said}, "spec": {"replicatedJobs": jobs}}, JobSet)
    assert notes(view, "w") == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, BY_LWS, id="nothing"),
        pytest.param({LWS: "rack"}, {**BY_LWS, LWS: "rack"}, id="exclusive"),
        pytest.param({EXCLUSIVE: "rack"}, BY_LWS, id="a JobSet's annotation means nothing here"),
    ],
)
def test_a_leader_worker_set(said: dict[str, str], expected: dict[str, str]) -> None:
    assert notes(decode({"metadata": {"annotations": said}}, LeaderWorkerSet), "w") == expected


def head(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": name}, "annotations": {"corral.dev/required-topology": name}}, "spec": {}}


LEADING = {"leaderWorkerTemplate": {"leaderTemplate": head("leads"), "workerTemplate": head("works")}}
ALIKE = {"leaderWorkerTemplate": {"workerTemplate": head("works")}}


@pytest.mark.parametrize(
    ("kind", "spec", "pod_set", "expected"),
    [
        pytest.param(LeaderWorkerSet, LEADING, "leader", "leads", id="leader"),
        pytest.param(LeaderWorkerSet, LEADING, "worker", "works", id="worker"),
        pytest.param(LeaderWorkerSet, ALIKE, "main", "works", id="no template for the leader: all are workers"),
        pytest.param(StatefulSet, {"template": head("serves")}, "main", "serves", id="StatefulSet"),
    ],
)
def test_what_kueue_leaves_out(kind: type[Any], spec: dict[str, Any], pod_set: str, expected: str) -> None:
    said = left_out(decode({"metadata": {}, "spec": spec}, kind), pod_set)
    assert (said.labels, said.annotations) == ({"app": expected}, {"corral.dev/required-topology": expected})


def test_pods_say_it_themselves() -> None:
    made = Pods((decode({"metadata": {"name": "a", **head("trains")["metadata"]}}, QueuedPod),))
    said = left_out(made, "main")
    assert (said.labels, said.annotations) == ({"app": "trains"}, {"corral.dev/required-topology": "trains"})
    assert notes(made, "main") == {}


def test_a_job_set_s_templates_are_in_the_workload_whole() -> None:
    said = left_out(decode({"metadata": {}, "spec": {"replicatedJobs": [job("w")]}}, JobSet), "w")
    assert (said.labels, said.annotations) == ({}, {})


@pytest.mark.parametrize(
    ("counts", "pods"),
    [
        pytest.param(JobCounts(), 1, id="one by default"),
        pytest.param(JobCounts(parallelism=4), 4, id="parallelism"),
        pytest.param(JobCounts(parallelism=4, completions=2), 2, id="no more than completions"),
        pytest.param(JobCounts(parallelism=2, completions=8), 2, id="completions in turns"),
        pytest.param(JobCounts(parallelism=0), 0, id="none"),
    ],
)
def test_pods_of_one_job(counts: JobCounts, pods: int) -> None:
    assert counts.pods == pods
