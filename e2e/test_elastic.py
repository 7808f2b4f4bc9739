"""Elastic jobs: what is asked for when one grows, and that its running pods never suffer from it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from e2e.cluster import LABEL, Cluster, eventually, holds, status_of
from e2e.kinds.look import asked
from e2e.kinds.objects import JOB, RAY_CLUSTER, template, workers_of_ray
from kube import resources

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("all_kinds"), pytest.mark.timeout(600)]  # on a busy machine the start takes minutes


@pytest.fixture
def running(cluster: Cluster) -> Iterator[Cluster]:
    """A job of four pods that run on their four booked nodes."""
    cluster.queue(quota=128, retry={"backoff": "3s"})
    for number in range(4):
        cluster.node(f"{cluster.namespace}-{number}")
    long = {**template(), "metadata": {"annotations": {"e2e.corral.dev/run-seconds": "600"}}}
    made = replace(JOB, spec={"parallelism": 4, "completions": 100, "template": long}).made("job", cluster.namespace)
    made[0]["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    cluster.apply(*made)
    cluster.provision(cluster.request())
    eventually(lambda: len(run(cluster)) == 4)
    yield cluster
    cluster.kubectl("delete", "node", "--selector", f"pool={cluster.namespace}", "--wait=false")


def run(cluster: Cluster) -> set[str]:
    """UIDs of the pods that run."""
    return {each["metadata"]["uid"] for each in cluster.get(resources.PODS)["items"] if each["status"].get("phase") == "Running"}


def resize(cluster: Cluster, pods: int) -> None:
    cluster.api.merge(JOB.kind, cluster.namespace, "job", {"spec": {"parallelism": pods}})


def latest(cluster: Cluster) -> Json:
    """The slice that stands for the job now: the Workload that is not finished; {} while there is none."""
    found = [each for each in cluster.get(resources.WORKLOADS)["items"] if "Finished" not in conditions(each)]
    return found[0] if len(found) == 1 else {}


def conditions(workload: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status_of(workload).get("conditions") or ()}


def check(cluster: Cluster) -> tuple[str, str]:
    """State and message of the latest slice's entry."""
    entries = status_of(latest(cluster)).get("admissionChecks") or [{"state": "", "message": ""}]
    return entries[0]["state"], entries[0]["message"]


def request_of(cluster: Cluster, count: int, besides: str = "") -> Json:
    """The only request, once it asks for so many pods and has another UID than `besides`."""

    def found() -> Json | None:
        items = cluster.requests()
        right = len(items) == 1 and asked(items[0]) == {"main": count} and items[0]["metadata"]["uid"] != besides
        return items[0] if right else None

    return eventually(found)


def test_growth_asks_for_the_difference_alone(running: Cluster) -> None:
    """Kueue's own controller asks for the whole new size (kueue#14316). The older slice's request ends; its pods run on."""
    before = run(running)
    resize(running, 6)
    request = request_of(running, 2)
    pods = running.get(resources.PODS)["items"]
    assert sum(bool(each["spec"].get("schedulingGates")) for each in pods) == 2
    for number in (4, 5):
        running.node(f"{running.namespace}-{number}")
    running.provision(request)
    eventually(lambda: len(run(running)) == 6)
    assert before < run(running)
    assert conditions(latest(running))["Admitted"] == "True"


def test_pods_that_are_added_select_the_first_bookings_nodes(running: Cluster) -> None:
    """Kueue never touches the template of a job that runs: whoever brings nodes for more must give them the key it selects."""
    resize(running, 6)
    request = request_of(running, 2)
    name = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
    assert running.get(resources.POD_TEMPLATES, name)["template"]["spec"]["nodeSelector"][LABEL] == "true"
    assert running.get(JOB.kind, "job")["spec"]["template"]["spec"]["nodeSelector"][LABEL] == "true"


def test_a_slice_that_is_superseded_while_it_waits(running: Cluster) -> None:
    resize(running, 6)
    first = request_of(running, 2)
    resize(running, 8)
    request_of(running, 4, besides=first["metadata"]["uid"])
    assert len(run(running)) == 4


def test_a_job_that_shrinks_while_it_waits_needs_nothing(running: Cluster) -> None:
    resize(running, 6)
    request_of(running, 2)
    resize(running, 4)
    eventually(lambda: not running.requests() and conditions(latest(running)).get("Admitted") == "True")
    assert check(running)[1].startswith("No capacity is needed")
    assert len(run(running)) == 4


@pytest.mark.parametrize("reason", ["GangIncomplete", "Undecidable"])
def test_growth_that_fails_stops_nothing(running: Cluster, reason: str) -> None:
    """Retry and Rejected would evict the only live slice, and so stop the job: neither is ever written."""
    before = run(running)
    resize(running, 6)
    first = request_of(running, 2)
    running.answer(first, "Failed", reason=reason, message="none to be had")
    eventually(lambda: check(running)[1].startswith("The pods that run go on, those to be added wait: "))
    if reason == "GangIncomplete":
        second = request_of(running, 2, besides=first["metadata"]["uid"])
        running.answer(second, "Failed", reason=reason, message="none to be had")
    holds(lambda: check(running)[0] == "Pending" and run(running) == before, 4)
    assert running.get(JOB.kind, "job")["spec"]["suspend"] is False


def test_a_grown_job_that_was_stopped_asks_for_all_its_pods(running: Cluster) -> None:
    resize(running, 6)
    running.provision(request_of(running, 2))
    eventually(lambda: conditions(latest(running)).get("Admitted") == "True")
    name = latest(running)["metadata"]["name"]
    for active in (False, True):
        running.api.merge(resources.WORKLOADS, running.namespace, name, {"spec": {"active": active}})
        wanted = "True" if active else "False"
        eventually(lambda wanted=wanted: conditions(latest(running)).get("QuotaReserved") == wanted)  # type: ignore[misc]
    request_of(running, 6)


def test_a_group_that_ray_makes_larger(cluster: Cluster) -> None:
    """As its autoscaler does. The head and the other group are as they were, and not asked for again."""
    cluster.queue(quota=128)
    [gang] = workers_of_ray({"left": 2, "right": 1}, enableInTreeAutoscaling=True).made("gang", cluster.namespace)
    gang["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    cluster.apply(gang)
    cluster.provision(cluster.request())
    eventually(lambda: not cluster.get(RAY_CLUSTER.kind, "gang")["spec"]["suspend"])
    found = cluster.get(RAY_CLUSTER.kind, "gang")["spec"]["workerGroupSpecs"]
    found[0]["replicas"] = 5
    cluster.api.merge(RAY_CLUSTER.kind, cluster.namespace, "gang", {"spec": {"workerGroupSpecs": found}})
    eventually(lambda: [asked(each) for each in cluster.requests()] == [{"left": 3}])
