"""Which pods of a workload are asked for, and what each is told: whole, in part, none, several alike, for several checks."""

from typing import Any

import pytest

from e2e.cluster import BOOKING, KUEUE, Cluster, eventually, holds, made, status_of
from e2e.conformance import scene
from e2e.kinds.look import asked
from e2e.kinds.objects import JOB, JOB_SET, RAY_CLUSTER, replicated_jobs, workers_of_ray
from kube import resources

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("all_kinds"), pytest.mark.timeout(600)]  # on a busy machine the start takes minutes


def mark(pod_set: str, booking: str = BOOKING) -> str:
    return f"{booking}.booking.corral.dev/{pod_set}"


def test_partial_admission_asks_for_the_pods_that_were_admitted(cluster: Cluster) -> None:
    cluster.queue(quota=24)
    cluster.job(pods=4, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    request = cluster.request()
    assert asked(request) == {"main": 3}
    cluster.provision(request)
    eventually(lambda: cluster.get(JOB.kind, "job")["spec"]["suspend"] is False)
    assert cluster.get(JOB.kind, "job")["spec"]["parallelism"] == 3


def test_pods_that_have_succeeded_are_not_asked_for_again(cluster: Cluster) -> None:
    """Two of four are over when the job is stopped: its next start needs capacity for the other two."""
    cluster.queue()
    cluster.admitted()
    names = eventually(lambda: found if len(found := _pods(cluster)) == 4 else None)
    for name in names[:2]:
        cluster.api.merge(resources.PODS, cluster.namespace, name, {"status": {"phase": "Succeeded"}}, subresource="status")
    eventually(lambda: status_of(cluster.workload()).get("reclaimablePods") == [{"name": "main", "count": 2}])
    _activate(cluster, False)
    eventually(lambda: not cluster.is_true("QuotaReserved") and not cluster.requests())
    _activate(cluster, True)
    again = cluster.request()
    assert asked(again) == {"main": 2}
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))


def _pods(cluster: Cluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.get(resources.PODS)["items"]]


def _activate(cluster: Cluster, active: bool) -> None:
    name = cluster.workload()["metadata"]["name"]
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, name, {"spec": {"active": active}})


@pytest.mark.row("W19", "3.10-14")
def test_a_worker_group_of_none_is_not_asked_for(cluster: Cluster) -> None:
    cluster.queue()
    cluster.apply(*workers_of_ray({"idle": 0, "workers": 2}).made("gang", cluster.namespace))
    request = cluster.request()
    assert asked(request) == {"head": 1, "workers": 2}
    cluster.provision(request)
    eventually(lambda: not cluster.get(RAY_CLUSTER.kind, "gang")["spec"]["suspend"])
    groups = cluster.get(RAY_CLUSTER.kind, "gang")["spec"]["workerGroupSpecs"]
    selectors = [each["template"]["spec"]["nodeSelector"] for each in groups]
    assert [mark("workers") in each for each in selectors] == [False, True]
    assert not any(key.startswith(BOOKING) for key in selectors[0])


@pytest.mark.row("W19", "3.10-14")
def test_nothing_is_asked_for_where_only_groups_of_none_need_it(cluster: Cluster) -> None:
    """The head has no GPUs, and the config asks for capacity only for pods that have."""
    cluster.queue(parameters={"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace})
    scene.config(cluster, managedResources=["nvidia.com/gpu"])
    cluster.apply(*workers_of_ray({"workers": 0}).made("gang", cluster.namespace))
    eventually(lambda: cluster.is_true("Admitted"))
    assert cluster.entry()["message"].startswith("No capacity is needed")
    assert not cluster.requests()


@pytest.mark.row("W15", "3.10-09")
def test_pod_sets_alike_keep_their_own_words(cluster: Cluster) -> None:
    """Kueue's own controller merges them by its config's policy, and steers the first alone (kueue#14408)."""
    cluster.queue(parameters={"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace})
    scene.config(cluster, podSetMergePolicy="IdenticalPodTemplates")
    cluster.apply(*replicated_jobs({"left": 2, "right": 2}).made("gang", cluster.namespace))
    request = cluster.request()
    assert asked(request) == {"left": 2, "right": 2}
    cluster.provision(request)
    eventually(lambda: not cluster.get(JOB_SET.kind, "gang")["spec"]["suspend"])
    jobs = cluster.get(JOB_SET.kind, "gang")["spec"]["replicatedJobs"]
    for job in jobs:
        selector = job["template"]["spec"]["template"]["spec"]["nodeSelector"]
        assert [key for key in selector if key.startswith(BOOKING)] == [mark(job["name"])]


def test_each_check_asks_for_the_pods_on_its_flavors(cluster: Cluster) -> None:
    """Two checks of ours, each for one of two flavors, and a third that another controller answers, for all."""
    cluster.queue()
    other, foreign = f"{cluster.namespace}-b", scene.foreign_check(cluster)
    _second_flavor(cluster, other)
    cluster.apply(made(KUEUE, "AdmissionCheck", other, spec=cluster.get(resources.ADMISSION_CHECKS, cluster.namespace)["spec"]))
    flavors = {each: {"name": each, "onFlavors": [each]} for each in (cluster.namespace, other)}
    scene.with_checks(cluster, *flavors.values(), foreign)
    jobs = replicated_jobs({"left": 2, "right": 3}, {"left": {"pool": cluster.namespace}, "right": {"pool": other}})
    cluster.apply(*jobs.made("gang", cluster.namespace))
    requests = eventually(lambda: found if len(found := cluster.requests()) == 2 else None)
    by_check = {each["metadata"]["annotations"]["corral.dev/admission-check"]: each for each in requests}
    assert {check: asked(each) for check, each in by_check.items()} == {cluster.namespace: {"left": 2}, other: {"right": 3}}
    bookings = {cluster.namespace: "wl-1111111111", other: "wl-2222222222"}
    for check, request in by_check.items():
        holds(lambda: not cluster.is_true("Admitted"), 1)
        cluster.answer(request, "Provisioned", booking=bookings[check])
    eventually(lambda: [scene.states(cluster)[each][0] for each in bookings] == ["Ready", "Ready"])
    holds(lambda: not cluster.is_true("Admitted"), 1)
    scene.say(cluster, foreign, "Ready", podSetUpdates=[{"name": "left", "labels": {"theirs": "yes"}}])
    eventually(lambda: not cluster.get(JOB_SET.kind, "gang")["spec"]["suspend"])
    left, right = (job["template"]["spec"]["template"] for job in cluster.get(JOB_SET.kind, "gang")["spec"]["replicatedJobs"])
    assert left["metadata"]["labels"]["theirs"] == "yes"
    assert left["spec"]["nodeSelector"] == {"pool": cluster.namespace, mark("left", "wl-1111111111"): "true"}
    assert right["spec"]["nodeSelector"] == {"pool": other, mark("right", "wl-2222222222"): "true"}


def _second_flavor(cluster: Cluster, name: str) -> None:
    """Beside the queue's own, with the same quota; cleared with the namespace's other objects only by the end of the run."""
    cluster.apply(made(KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {"pool": name}}))
    [group] = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["resourceGroups"]
    group["flavors"].append({**group["flavors"][0], "name": name})
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": [group]}})
