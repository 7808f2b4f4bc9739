"""From Kueue's own provisioning check to ours and back, as docs/moving-from-kueue.md tells it, with Kueue's controller on."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import KUEUE, LABEL, Cluster, eventually, holds, made, status_of
from kube import resources

Json = dict[str, Any]
IN_TREE = "kueue.x-k8s.io/provisioning-request"
OURS = "corral.dev/capacity"
CLASS, GANG = "check-capacity.autoscaling.x-k8s.io", "gang.corral.dev"


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    """A queue as Kueue's own check serves it, and the policy that is there for configs that name none."""
    strategy = {"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
    config = {"provisioningClassName": CLASS, "managedResources": ["nvidia.com/gpu"], "retryStrategy": strategy}
    cluster.apply(
        made(KUEUE, "ProvisioningRequestConfig", cluster.namespace, spec=config),
        made("corral.dev/v1alpha1", "CapacityPolicy", "default", spec={}),
    )
    cluster.queue(controller=IN_TREE, parameters=_parameters(cluster))
    yield cluster
    cluster.kubectl("delete", "cpolicy", "default", "--wait=false")


def _parameters(cluster: Cluster) -> Json:
    return {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace}


def check(cluster: Cluster, controller: str, name: str = "") -> Json:
    """Of two of these for two controllers, one line differs."""
    spec = {"controllerName": controller, "parameters": _parameters(cluster)}
    return made(KUEUE, "AdmissionCheck", name or cluster.namespace, spec=spec)


def swap(cluster: Cluster, controller: str) -> None:
    """Another check of the same name: Kueue's finalizer would keep the old one for as long as a queue names it."""
    name = cluster.namespace
    cluster.kubectl("delete", "admissioncheck", name, "--wait=false")
    cluster.kubectl("patch", "admissioncheck", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.apply(check(cluster, controller))


def requests(cluster: Cluster, class_: str, job: str) -> list[Json]:
    found = (each for each in cluster.requests() if each["metadata"]["name"].startswith(f"job-{job}-"))
    return [each for each in found if each["spec"]["provisioningClassName"] == class_]


def workload(cluster: Cluster, job: str) -> Json:
    """{} while there is none."""
    items = cluster.get(resources.WORKLOADS)["items"]
    return next((each for each in items if each["metadata"]["ownerReferences"][0]["name"] == job), {})


def is_true(cluster: Cluster, job: str, type_: str) -> bool:
    conditions = status_of(workload(cluster, job)).get("conditions") or ()
    return any((each["type"], each["status"]) == (type_, "True") for each in conditions)


def pods(cluster: Cluster, job: str) -> set[str]:
    """UIDs: whoever is suspended and starts again has others."""
    selector = f"batch.kubernetes.io/job-name={job}"
    found = cluster.kubectl("get", "pods", "-n", cluster.namespace, "-l", selector, "-o", "jsonpath={.items[*].metadata.uid}")
    return set(found.split())


def started(cluster: Cluster, class_: str) -> set[str]:
    """One job that runs and one that waits, both asked for by requests of this class."""
    cluster.job("runs")
    [first] = eventually(lambda: requests(cluster, class_, "runs"))
    cluster.answer(first, "Provisioned", message="there", booking="b" if class_ == GANG else "")
    eventually(lambda: len(pods(cluster, "runs")) == 4)
    cluster.job("waits")
    eventually(lambda: requests(cluster, class_, "waits"))
    return pods(cluster, "runs")


def runs_on(cluster: Cluster, running: set[str]) -> None:
    """What ran when the check changed hands runs on as if nothing had been."""
    holds(lambda: pods(cluster, "runs") == running and is_true(cluster, "runs", "Admitted"))
    assert not requests(cluster, GANG, "runs"), "nothing is asked for anew"


def taken_over(cluster: Cluster) -> None:
    """The one that waited is served by us, on the config's terms."""
    [asked] = eventually(lambda: requests(cluster, GANG, "waits"))
    assert asked["spec"]["parameters"] == {"policy": "default"}
    eventually(lambda: not requests(cluster, CLASS, "waits"))
    cluster.provision(asked)
    eventually(lambda: is_true(cluster, "waits", "Admitted"))
    eventually(lambda: LABEL in _selector(cluster, "waits"))


def _selector(cluster: Cluster, job: str) -> Json:
    """Of the job's pods."""
    template = cluster.get(resources.Kind("batch", "v1", "jobs", "Job"), job)["spec"]["template"]
    found: Json = template["spec"].get("nodeSelector") or {}
    return found


def test_one_line_changed_in_the_check(queue: Cluster) -> None:
    running = started(queue, CLASS)
    with pytest.raises(LookupError, match="field is immutable"):
        queue.apply(check(queue, OURS))
    swap(queue, OURS)
    eventually(lambda: queue.active().get("status") == "True")
    note = f'The admission check is active: class {GANG} with CapacityPolicy "default" serves it, not {CLASS}'
    assert queue.active()["message"] == note
    runs_on(queue, running)
    taken_over(queue)


def test_a_check_of_another_name_and_the_queue_that_names_it(queue: Cluster) -> None:
    """No finalizer is touched; the queue goes from the one check to the other at once."""
    running, name = started(queue, CLASS), f"{queue.namespace}-corral"
    queue.apply(check(queue, OURS, name))
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}
    queue.api.merge(resources.CLUSTER_QUEUES, "", queue.namespace, {"spec": checks})
    runs_on(queue, running)
    taken_over(queue)
    queue.kubectl("delete", "admissioncheck", name, "--wait=false")


def test_the_configs_strategy_and_resources_are_followed(queue: Cluster) -> None:
    swap(queue, OURS)
    cpu = [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1"}}}]
    queue.job("cpu", containers=cpu)
    eventually(lambda: is_true(queue, "cpu", "Admitted"))
    assert not queue.requests()
    queue.job("waits")
    [first] = eventually(lambda: requests(queue, GANG, "waits"))
    queue.answer(first, "Failed", message="no room")
    [second] = eventually(lambda: [each for each in requests(queue, GANG, "waits") if each["metadata"]["uid"] != _uid(first)])
    queue.answer(second, "Failed", message="no room")
    eventually(lambda: workload(queue, "waits")["spec"].get("active") is False)


def _uid(item: Json) -> str:
    found: str = item["metadata"]["uid"]
    return found


def test_and_back(queue: Cluster) -> None:
    swap(queue, OURS)
    eventually(lambda: queue.active().get("status") == "True")
    running = started(queue, GANG)
    swap(queue, IN_TREE)
    [asked] = eventually(lambda: requests(queue, CLASS, "waits"))
    eventually(lambda: not requests(queue, GANG, "waits"))
    holds(lambda: pods(queue, "runs") == running and is_true(queue, "runs", "Admitted"))
    queue.answer(asked, "Provisioned", message="there")
    eventually(lambda: is_true(queue, "waits", "Admitted"))
