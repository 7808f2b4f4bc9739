"""Rows 3.9 of queues: which checks a workload gets, and whether its queue can be used at all."""

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made, status_of
from e2e.conformance.contest import is_true, preempt, request_on, workloads
from e2e.conformance.scene import (
    activate,
    delete,
    foreign_check,
    gone,
    queue_reason,
    say,
    second_check,
    second_flavor,
    states,
    suspended,
    two_checks,
    with_checks,
)
from kube import resources

MULTIKUEUE, IN_TREE = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


def answered(cluster: Cluster, name: str = "job") -> None:
    """A job of the queue is admitted once its capacity is there."""
    cluster.job(name)
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


def on(check: str, flavors: list[str]) -> Json:
    return {"name": check, "onFlavors": flavors} if flavors else {"name": check}


@pytest.mark.row("3.9-02", "3.9-16")
def test_a_workload_without_checks_is_admitted_at_once(cluster: Cluster) -> None:
    cluster.queue()
    with_checks(cluster)
    cluster.job()
    eventually(lambda: cluster.is_true("Admitted"))
    assert not states(cluster)
    assert "requeueState" not in status_of(cluster.workload())
    assert not cluster.requests()


@pytest.mark.row("3.9-23", "3.9-24", "3.9-25", "3.9-26", "3.9-28", "3.9-51", "3.9-58")
def test_checks_by_flavor(cluster: Cluster) -> None:
    """The first flavor has no room: ours on the other one is asked, ours on the first is not, a check on none is always there."""
    cluster.queue()
    flavor = second_flavor(cluster, first=8, second=64)
    idle, other = second_check(cluster), foreign_check(cluster)
    with_checks(cluster, on(idle, [cluster.namespace]), on(cluster.namespace, [flavor]), other)
    cluster.job()
    request = cluster.request()
    assert set(states(cluster)) == {cluster.namespace, other}
    template = cluster.get(resources.POD_TEMPLATES, request["spec"]["podSets"][0]["podTemplateRef"]["name"])
    assert template["template"]["spec"]["nodeSelector"] == {"pool": flavor}

    more = foreign_check(cluster, "more")
    with_checks(cluster, on(idle, [cluster.namespace]), on(cluster.namespace, [flavor]), other, on(more, [flavor]))
    eventually(lambda: more in states(cluster))
    cluster.provision(request)
    for each in (other, more):
        say(cluster, each, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))
    assert idle not in states(cluster)


@pytest.mark.row("3.9-27")
def test_a_check_on_a_flavor_that_is_nowhere_is_asked_by_nobody(cluster: Cluster) -> None:
    cluster.queue()
    idle = second_check(cluster)
    with_checks(cluster, cluster.namespace, on(idle, ["nowhere"]))
    answered(cluster)
    assert set(states(cluster)) == {cluster.namespace}


@pytest.mark.row("3.9-29", "3.9-39")
def test_a_queue_of_the_api_before(cluster: Cluster) -> None:
    """v1beta1 has a plain list of checks; Kueue turns it into a strategy."""
    cluster.queue()
    with_checks(cluster)
    old = resources.CLUSTER_QUEUES._replace(version="v1beta1")
    cluster.api.merge(old, "", cluster.namespace, {"spec": {"admissionChecks": [cluster.namespace]}})
    rules = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["admissionChecksStrategy"]["admissionChecks"]
    assert [each["name"] for each in rules] == [cluster.namespace]
    eventually(lambda: queue_reason(cluster) == "Ready")
    answered(cluster)


@pytest.mark.parametrize(
    "by_flavor",
    [
        pytest.param(False, id="all", marks=pytest.mark.row("3.9-39", "3.9-41", "3.9-43", "3.9-56")),
        pytest.param(True, id="flavor", marks=pytest.mark.row("3.9-40", "3.9-42", "3.9-44")),
    ],
)
def test_a_queue_is_as_active_as_its_checks(cluster: Cluster, by_flavor: bool) -> None:
    cluster.queue()
    eventually(lambda: queue_reason(cluster) == "Ready")
    late = f"{cluster.namespace}-other"
    flavors = [cluster.namespace] if by_flavor else []
    with_checks(cluster, on(cluster.namespace, flavors), on(late, flavors))
    eventually(lambda: queue_reason(cluster) == "AdmissionCheckNotFound")
    foreign_check(cluster, active=False)
    eventually(lambda: queue_reason(cluster) == "AdmissionCheckInactive")
    activate(cluster, late)
    eventually(lambda: queue_reason(cluster) == "Ready")
    activate(cluster, late, "False")
    eventually(lambda: queue_reason(cluster) == "AdmissionCheckInactive")
    waits(cluster)
    activate(cluster, late)
    eventually(lambda: queue_reason(cluster) == "Ready")
    cluster.job()
    cluster.provision(cluster.request())
    say(cluster, late, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.parametrize(
    ("controllers", "reason"),
    [
        pytest.param([MULTIKUEUE, MULTIKUEUE], "MultipleMultiKueueAdmissionChecks", id="two", marks=pytest.mark.row("3.9-45")),
        pytest.param([MULTIKUEUE, IN_TREE], "MultiKueueWithProvisioningRequest", id="both", marks=pytest.mark.row("3.9-46")),
    ],
)
def test_a_queue_with_multikueue(cluster: Cluster, controllers: list[str], reason: str) -> None:
    """Their own controllers find them inactive, which Kueue tells first; the queue's message has both."""
    cluster.queue()
    names = [f"{cluster.namespace}-{number}" for number in range(len(controllers))]
    for name, controller in zip(names, controllers, strict=True):
        cluster.apply(made(KUEUE, "AdmissionCheck", name, spec={"controllerName": controller}))
    with_checks(cluster, cluster.namespace, *names)
    words = {
        "MultipleMultiKueueAdmissionChecks": "multiple MultiKueue",
        "MultiKueueWithProvisioningRequest": "both MultiKueue and",
    }
    eventually(lambda: words[reason] in active_of(cluster).get("message", ""))
    waits(cluster)
    with_checks(cluster, cluster.namespace)
    eventually(lambda: queue_reason(cluster) == "Ready")
    answered(cluster)


def waits(cluster: Cluster) -> None:
    """A job in a queue that can't be used waits without quota; it goes, for it may wait on when the queue can be used again."""
    cluster.job("waits")
    eventually(cluster.workload)
    holds(lambda: not cluster.is_true("QuotaReserved") and not cluster.requests(), 1)
    cluster.kubectl("delete", "job", "waits", "-n", cluster.namespace)
    eventually(lambda: not cluster.get(resources.WORKLOADS)["items"])


def active_of(cluster: Cluster) -> Json:
    found: list[Json] = status_of(cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)).get("conditions") or []
    return next((each for each in found if each["type"] == "Active"), {})


@pytest.mark.parametrize(
    "by_flavor",
    [
        pytest.param(False, id="all", marks=pytest.mark.row("3.9-47", "3.9-49")),
        pytest.param(True, id="flavor", marks=pytest.mark.row("3.9-48", "3.9-50")),
    ],
)
@pytest.mark.row("3.9-55")
def test_a_queue_at_its_end_stays_there(cluster: Cluster, by_flavor: bool) -> None:
    """As long as a workload runs in it, which keeps its capacity, and no other begins. Then queue and check go."""
    cluster.queue()
    flavors = [cluster.namespace] if by_flavor else []
    with_checks(cluster, on(cluster.namespace, flavors))
    request = cluster.admitted()
    runs = cluster.workload()["metadata"]["name"]
    delete(cluster, resources.CLUSTER_QUEUES, cluster.namespace)
    delete(cluster, resources.ADMISSION_CHECKS, cluster.namespace)
    cluster.job("late", pods=1)
    holds(lambda: reserved(cluster) == {runs}, 1)
    with_checks(cluster, on(cluster.namespace, flavors), on("nowhere", flavors))
    holds(lambda: reserved(cluster) == {runs}, 1)
    assert [each["metadata"]["uid"] for each in cluster.requests()] == [request["metadata"]["uid"]]
    cluster.kubectl("delete", "job", "job", "-n", cluster.namespace, "--wait=false")
    eventually(lambda: gone(cluster, resources.CLUSTER_QUEUES) and gone(cluster, resources.ADMISSION_CHECKS))
    eventually(lambda: not cluster.requests())


def reserved(cluster: Cluster) -> set[str]:
    """Names of the Workloads that have quota."""
    held = {"type": "QuotaReserved", "status": "True"}.items()
    items = cluster.get(resources.WORKLOADS)["items"]
    return {each["metadata"]["name"] for each in items if any(held <= c.items() for c in status_of(each).get("conditions") or ())}


@pytest.mark.row("3.9-54")
def test_a_check_that_no_queue_uses_can_go(cluster: Cluster) -> None:
    second, found = two_checks(cluster)
    delete(cluster, resources.ADMISSION_CHECKS, second)
    holds(lambda: second in names_of_checks(cluster), 1)
    with_checks(cluster, cluster.namespace)
    eventually(lambda: second not in names_of_checks(cluster) and len(cluster.requests()) == 1)
    cluster.provision(found[cluster.namespace])
    eventually(lambda: cluster.is_true("Admitted"))


def names_of_checks(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.get(resources.ADMISSION_CHECKS)["items"]}


@pytest.mark.row("3.9-104", "3.9-114")
def test_a_preempted_job_comes_back_on_another_flavor(cluster: Cluster) -> None:
    """Its first flavor is taken by a job of higher priority; on the other one it has another request, for other nodes."""
    cluster.queue()
    flavor = second_flavor(cluster, first=32, second=0)
    first = cluster.admitted()
    preempt(cluster)
    eventually(lambda: is_true(workloads(cluster).get("urgent", {}), "QuotaReserved"))
    assert second_flavor(cluster, first=32, second=32) == flavor
    again = eventually(lambda: request_on(cluster, flavor))
    assert again["metadata"]["annotations"]["corral.dev/workload"] == first["metadata"]["annotations"]["corral.dev/workload"]
    assert not is_true(workloads(cluster)["job"], "Admitted")
    cluster.provision(again)
    eventually(lambda: is_true(workloads(cluster)["job"], "Admitted") and not suspended(cluster))
    assert cluster.get(resources.JOBS, "job")["spec"]["template"]["spec"]["nodeSelector"]["pool"] == flavor
