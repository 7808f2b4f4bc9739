"""Rows 3.1 of reservations that Kueue's scheduler never makes: the test writes them in its place, as far as the API takes them.

So do Kueue's own integration tests (v0.17.0 test/util SetQuotaReservation).
"""

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made, status_of
from e2e.conformance.scene import by_hand, delete, gone, now, pod_set, second_flavor, suspended
from kube import resources


def assigned(cluster: Cluster, name: str, count: int | None = 2) -> Json:
    usage = {"cpu": str(count or 0), "nvidia.com/gpu": str(8 * (count or 0))}
    flavors = dict.fromkeys(usage, cluster.namespace)
    return {"name": name, "flavors": flavors, "resourceUsage": usage} | ({} if count is None else {"count": count})


def reserve(cluster: Cluster, *assignments: Json) -> None:
    """For the only Workload, which waits in a queue without quota. Raises LookupError with the server's words."""
    eventually(lambda: cluster.condition("QuotaReserved").get("status") == "False" and cluster.entry())
    workload = cluster.workload()
    condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "", "lastTransitionTime": now()}
    others = [each for each in status_of(workload)["conditions"] if each["type"] != "QuotaReserved"]
    admission = {"clusterQueue": cluster.namespace, "podSetAssignments": list(assignments)}
    patch = {"status": {"admission": admission, "conditions": [*others, condition]}}
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, workload["metadata"]["name"], patch, subresource="status")


def asked(request: Json) -> list[int]:
    return [each["count"] for each in request["spec"]["podSets"]]


@pytest.mark.row("3.1-31", "3.1-40", "3.1-41", "3.1-42")
def test_no_reservation_leaves_out_a_pod_set(cluster: Cluster) -> None:
    """Nor one without pods: Kueue's CRD takes as many assignments as there are pod sets. So our side is tested without Kueue."""
    cluster.queue(quota=0)
    by_hand(cluster, pod_set("first"), pod_set("none", count=0))
    with pytest.raises(LookupError, match="podSetAssignments must have the same number of podSets as the spec"):
        reserve(cluster, assigned(cluster, "first"))
    assert not cluster.requests()


@pytest.mark.row("3.1-38", "3.9-118")
def test_without_a_count_in_the_assignment_the_pod_sets_counts(cluster: Cluster) -> None:
    cluster.queue(quota=0)
    by_hand(cluster, pod_set("first", count=3), pod_set("second"))
    reserve(cluster, assigned(cluster, "first", None), assigned(cluster, "second", 1))
    request = cluster.request()
    assert asked(request) == [3, 1]
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.9-117")
def test_a_flavor_that_is_gone_is_waited_for(cluster: Cluster) -> None:
    """Kueue lets a flavor go that no queue names any more, though a workload has quota on it."""
    cluster.queue()
    second_flavor(cluster)
    cluster.job()
    request = cluster.request()
    only_the_second(cluster)
    spec = cluster.get(resources.RESOURCE_FLAVORS, cluster.namespace)["spec"]
    delete(cluster, resources.RESOURCE_FLAVORS, cluster.namespace)
    eventually(lambda: gone(cluster, resources.RESOURCE_FLAVORS))
    delete(cluster, resources.PROVISIONING_REQUESTS, request["metadata"]["name"])
    words = f'ResourceFlavor "{cluster.namespace}" of pod set "main" is not there: create it'
    eventually(lambda: cluster.entry()["message"] == words)
    holds(lambda: cluster.is_true("QuotaReserved") and not cluster.requests(), 1)
    cluster.apply(made(KUEUE, "ResourceFlavor", cluster.namespace, spec=spec))
    again = cluster.request()
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))


def only_the_second(cluster: Cluster) -> None:
    [group] = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["resourceGroups"]
    kept = {**group, "flavors": group["flavors"][1:]}
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": [kept]}})
