"""Rows 3.5: the check end to end, from quota to admission and back. What other suites show is marked there."""

from typing import Any

import pytest

from e2e.cluster import BOOKING, Cluster, Json, eventually, holds, status_of
from e2e.conformance.contest import is_true, moved, preempt, workloads
from e2e.conformance.scene import (
    QUICK,
    by_hand,
    pod_set,
    quota,
    requests_by,
    second_check,
    second_flavor,
    states,
    with_checks,
)
from kube import resources


def mark(pod_set: str, booking: str = BOOKING) -> Json:
    """What steers the pods of a pod set to its nodes."""
    toleration = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
    return {"nodeSelector": {f"{booking}.booking.corral.dev/{pod_set}": "true"}, "tolerations": [toleration]}


def hold(cluster: Cluster, policy: str) -> None:
    """Hold keeps what runs, and takes the reservation of all else."""
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"stopPolicy": policy}})


@pytest.mark.row("3.5-01", "3.5-02", "3.5-16", "3.10-15")
def test_a_request_is_there_as_long_as_quota_is_reserved(cluster: Cluster) -> None:
    cluster.queue(quota=0)
    by_hand(cluster, pod_set("one", 3), pod_set("two", 4), annotations={"provreq.kueue.x-k8s.io/runDuration": "2h"})
    eventually(lambda: cluster.condition("QuotaReserved").get("status") == "False" and cluster.entry())
    holds(lambda: not cluster.requests() and cluster.entry()["state"] == "Pending", 1)
    quota(cluster, 64)
    request = cluster.request()
    spec = request["spec"]
    assert (spec["provisioningClassName"], spec["parameters"]) == (
        "gang.corral.dev",
        {"policy": cluster.namespace, "runDuration": "2h"},
    )
    assert [each["count"] for each in spec["podSets"]] == [3, 4]
    for each in spec["podSets"]:
        template = cluster.get(resources.POD_TEMPLATES, each["podTemplateRef"]["name"])
        assert template["template"]["spec"]["nodeSelector"] == {"pool": cluster.namespace}
        assert template["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "8"}
    cluster.answer(request, "Accepted")
    hold(cluster, "Hold")
    eventually(lambda: cluster.condition("QuotaReserved")["status"] == "False" and not cluster.requests())
    eventually(lambda: not cluster.get(resources.POD_TEMPLATES)["items"])
    assert not cluster.condition("Evicted")
    hold(cluster, "None")
    again = cluster.request()
    assert again["metadata"]["name"] != request["metadata"]["name"]
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.5-03")
def test_ready_steers_each_pod_set(cluster: Cluster) -> None:
    cluster.queue()
    by_hand(cluster, pod_set("one"), pod_set("two"))
    request = cluster.request()
    cluster.answer(request, "Accepted")
    eventually(lambda: cluster.entry()["message"] == "Capacity is being planned")
    cluster.answer(request, "Provisioned", status="False", reason="GangIncomplete", message="in 5 minutes")
    eventually(lambda: cluster.entry()["message"] == "GangIncomplete: in 5 minutes")
    assert (cluster.entry()["state"], cluster.is_true("Admitted")) == ("Pending", False)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert cluster.entry()["podSetUpdates"] == [{"name": name, **mark(name)} for name in ("one", "two")]


@pytest.mark.row("3.5-04")
def test_without_retries_the_first_failure_rejects(cluster: Cluster) -> None:
    cluster.queue(retry={"limit": 0})
    cluster.job()
    cluster.answer(cluster.request(), "Failed", reason="GangIncomplete", message="no room")
    eventually(lambda: cluster.condition("Evicted").get("reason") == "DeactivatedDueToAdmissionCheck")
    assert cluster.workload()["spec"]["active"] is False
    cluster.told("AdmissionCheckRejected", "Gave up after 1 attempt: GangIncomplete: no room")
    eventually(lambda: cluster.entry()["state"] == "Pending" and not cluster.is_true("QuotaReserved"))


@pytest.mark.row("3.5-11", "3.5-15")
def test_three_attempts(cluster: Cluster) -> None:
    """While the workload is out of the queue, the entry says Pending and nothing else."""
    cluster.queue(retry={"limit": 2, "backoff": "4s", "maxBackoff": "4s"})  # long enough to look in
    cluster.job()
    for attempt in (1, 2):
        cluster.answer(cluster.request(attempt), "Failed", reason="GangIncomplete", message="no room")
        eventually(lambda: cluster.is_true("Evicted") and cluster.entry()["state"] == "Pending")
        holds(lambda: cluster.entry()["state"] == "Pending", 0.5)
    third = cluster.request(3)
    assert cluster.entry()["retryCount"] == 2
    cluster.provision(third)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.5-14")
def test_a_booking_that_expired_is_followed_by_another(cluster: Cluster) -> None:
    cluster.queue(retry=QUICK)
    cluster.job()
    first = cluster.request()
    cluster.answer(first, "Provisioned", message="all there")
    cluster.answer(first, "BookingExpired", reason="BookingExpired", message="nobody came")
    cluster.provision(cluster.request(2))
    cluster.told("AdmissionCheckUpdated", "Booking expired: BookingExpired: nobody came")
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.5-17", "3.5-21")
def test_preempted_to_a_flavor_without_a_check(cluster: Cluster) -> None:
    cluster.queue()
    other = second_flavor(cluster, first=32)
    with_checks(cluster, {"name": cluster.namespace, "onFlavors": [cluster.namespace]})
    first = cluster.admitted()
    preempt(cluster)
    moved(cluster, other)
    eventually(lambda: is_true(workloads(cluster)["job"], "Admitted"))
    assert not status_of(workloads(cluster)["job"]).get("admissionChecks")
    eventually(lambda: first["metadata"]["uid"] not in [each["metadata"]["uid"] for each in cluster.requests()])


@pytest.mark.row("3.5-18", "3.5-21")
def test_preempted_to_a_flavor_with_another_check(cluster: Cluster) -> None:
    cluster.queue()
    other, check = second_flavor(cluster, first=32), second_check(cluster)
    rules = [{"name": cluster.namespace, "onFlavors": [cluster.namespace]}, {"name": check, "onFlavors": [other]}]
    with_checks(cluster, *rules)
    cluster.admitted()
    assert set(states(cluster)) == {cluster.namespace}
    preempt(cluster)
    name = moved(cluster, other)["metadata"]["name"]
    request = eventually(lambda: requests_by(cluster, "workload").get(name))
    assert request["metadata"]["annotations"]["corral.dev/admission-check"] == check
    assert not is_true(workloads(cluster)["job"], "Admitted")
    cluster.provision(request)
    eventually(lambda: is_true(workloads(cluster)["job"], "Admitted"))
    entries = status_of(workloads(cluster)["job"])["admissionChecks"]
    assert [(each["name"], each["state"]) for each in entries] == [(check, "Ready")]


@pytest.mark.row("3.5-19", "3.10-05", "W5")
def test_capacity_on_one_flavor_is_none_on_another(cluster: Cluster) -> None:
    """One check for both flavors. Its request of the first one says Provisioned; the second one needs a request of its own."""
    cluster.queue()
    other = second_flavor(cluster, first=32)
    cover_memory(cluster)
    amounts = {"cpu": "1", "memory": "1.5Gi", "nvidia.com/gpu": "8"}
    cluster.job(containers=[{"name": "main", "image": "x", "resources": {"limits": amounts}}])
    first = cluster.request()
    cluster.provision(first)
    eventually(lambda: cluster.is_true("Admitted"))
    preempt(cluster)
    name = moved(cluster, other)["metadata"]["name"]
    second = eventually(lambda: requests_by(cluster, "workload").get(name))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    holds(lambda: not is_true(workloads(cluster)["job"], "Admitted"), 1)
    template = cluster.get(resources.POD_TEMPLATES, second["spec"]["podSets"][0]["podTemplateRef"]["name"])
    assert template["template"]["spec"]["nodeSelector"] == {"pool": other}
    cluster.provision(second)
    eventually(lambda: is_true(workloads(cluster)["job"], "Admitted"))


def cover_memory(cluster: Cluster) -> None:
    [group] = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["resourceGroups"]
    more: dict[str, Any] = {"name": "memory", "nominalQuota": "100Gi"}
    group["coveredResources"].append("memory")
    for flavor in group["flavors"]:
        flavor["resources"].append(more)
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": [group]}})
