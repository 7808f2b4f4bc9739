"""Rows W: for each weakness of Kueue's own check the input that shows it, and what ours does with that."""

import time

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made
from e2e.conformance.contest import is_true, preempt, workloads
from e2e.conformance.scene import (
    QUICK,
    by_hand,
    config,
    delete,
    foreign_check,
    managed,
    pod_set,
    requests_by,
    requeue_at,
    say,
    states,
    stopped,
    suspended,
    two_checks,
    with_checks,
)
from e2e.stack import Program
from kube import resources

FOREIGN_CLASS = "check-capacity.autoscaling.x-k8s.io"


def uids(cluster: Cluster) -> list[str]:
    return [each["metadata"]["uid"] for each in cluster.requests()]


def runs(cluster: Cluster, request: Json) -> bool:
    """Whether the workload is admitted on this request."""
    return cluster.is_true("Admitted") and cluster.entry()["state"] == "Ready" and uids(cluster) == [request["metadata"]["uid"]]


@pytest.mark.row("W3", "3.10-02")
def test_the_annotation_is_what_is_asked_for(cluster: Cluster) -> None:
    policy = cluster.namespace
    managed(cluster, parameters={"policy": policy, "runDuration": "1h"})
    cluster.job(annotations={"provreq.kueue.x-k8s.io/runDuration": "2h"})
    request = cluster.request()
    assert request["spec"]["parameters"] == {"policy": policy, "runDuration": "2h"}
    holds(lambda: uids(cluster) == [request["metadata"]["uid"]], 2)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("W4", "3.10-03")
def test_each_check_goes_its_own_way(cluster: Cluster) -> None:
    first, (second, found) = cluster.namespace, two_checks(cluster)
    cluster.answer(found[first], "Provisioned", booking="wl-1111111111")
    eventually(lambda: states(cluster)[first][0] == "Ready")
    delete(cluster, resources.PROVISIONING_REQUESTS, found[first]["metadata"]["name"])
    cluster.answer(found[second], "Provisioned", booking="wl-2222222222")
    eventually(lambda: states(cluster)[second][0] == "Ready" and len(cluster.requests()) == 2)
    again = requests_by(cluster, "admission-check")[first]
    assert again["metadata"]["uid"] != found[first]["metadata"]["uid"]
    assert (states(cluster)[first][0], cluster.is_true("Admitted")) == ("Pending", False)
    cluster.answer(again, "Provisioned", booking="wl-3333333333")
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
    selector = cluster.get(resources.JOBS, "job")["spec"]["template"]["spec"]["nodeSelector"]
    assert {key.partition(".")[0] for key in selector if "booking" in key} == {"wl-2222222222", "wl-3333333333"}


@pytest.mark.row("W5", "W7", "W20")
def test_a_booking_that_expired_costs_no_second_eviction(cluster: Cluster) -> None:
    """Provisioned and admitted, expired as all do, preempted: the next reservation asks anew, as a first attempt."""
    cluster.queue(quota=32, retry=QUICK)
    first = cluster.admitted()
    cluster.answer(first, "BookingExpired", reason="BookingExpired", message="consumed")
    preempt(cluster)
    eventually(lambda: is_true(workloads(cluster).get("urgent", {}), "QuotaReserved"))
    eventually(lambda: first["metadata"]["uid"] not in uids(cluster))
    cluster.kubectl("delete", "job", "urgent", "-n", cluster.namespace)
    name = first["metadata"]["annotations"]["corral.dev/workload"]
    again = eventually(lambda: requests_by(cluster, "workload").get(name))
    assert again["metadata"]["annotations"]["corral.dev/attempt"] == "1"
    cluster.provision(again)
    eventually(lambda: is_true(workloads(cluster)["job"], "Admitted"))
    assert {each for each in cluster.events() if each.startswith("Evicted")} == {"EvictedDueToPreempted"}


def runs_on(cluster: Cluster, request: Json) -> None:
    """Also when there is reason to look at the workload again, as others write to it all the time."""
    name = cluster.workload()["metadata"]["name"]
    cluster.api.merge(
        resources.WORKLOADS, cluster.namespace, name, {"metadata": {"annotations": {"example.com/at": str(time.time())}}}
    )
    holds(lambda: runs(cluster, request), 1)


@pytest.mark.row("W8", "W9", "W10", "3.10-04", "3.10-10")
def test_what_runs_is_left_alone(cluster: Cluster) -> None:
    policy = cluster.namespace
    managed(cluster, parameters={"policy": policy, "runDuration": "1h"})
    request = cluster.admitted()
    config(cluster, parameters={"policy": policy}, provisioningClassName=FOREIGN_CLASS)
    runs_on(cluster, request)
    config(cluster, parameters={"policy": "nowhere"})
    eventually(lambda: 'CapacityPolicy "nowhere"' in cluster.active()["message"])
    runs_on(cluster, request)
    delete(cluster, resources.PROVISIONING_REQUEST_CONFIGS, cluster.namespace)
    eventually(lambda: "is not there" in cluster.active()["message"])
    runs_on(cluster, request)
    config(cluster)
    eventually(lambda: cluster.active()["status"] == "True")
    runs_on(cluster, request)
    cluster.answer(request, "Provisioned", status="False", reason="GangIncomplete", message="3 of 4 nodes")
    runs_on(cluster, request)
    cluster.answer(request, "Failed", reason="GangIncomplete", message="3 of 4 nodes")
    runs_on(cluster, request)


@pytest.mark.row("W11", "3.10-07")
def test_a_workload_made_anew_asks_anew(cluster: Cluster, admission: Program) -> None:
    """The old request is still there, and Provisioned, for somebody's finalizer holds it."""
    cluster.queue()
    by_hand(cluster, pod_set())
    old = cluster.request()
    name = old["metadata"]["name"]
    cluster.api.merge(
        resources.PROVISIONING_REQUESTS, cluster.namespace, name, {"metadata": {"finalizers": ["example.com/held"]}}
    )
    try:
        cluster.provision(old)
        eventually(lambda: cluster.is_true("Admitted"))
        with stopped(admission):
            delete(cluster, resources.WORKLOADS, "by-hand")
            eventually(lambda: not cluster.workload())
            by_hand(cluster, pod_set())
            eventually(lambda: cluster.is_true("QuotaReserved"))
        new = cluster.request()
        assert new["metadata"]["labels"]["corral.dev/workload-uid"] == cluster.workload()["metadata"]["uid"]
        assert len(cluster.get(resources.PROVISIONING_REQUESTS)["items"]) == 2
        holds(lambda: not cluster.is_true("Admitted"), 1)
        cluster.provision(new)
        eventually(lambda: cluster.is_true("Admitted"))
    finally:
        cluster.api.merge(resources.PROVISIONING_REQUESTS, cluster.namespace, name, {"metadata": {"finalizers": None}})


@pytest.mark.row("W12", "3.10-08")
def test_names_that_would_collide(cluster: Cluster) -> None:
    cluster.queue()
    other = f"a-{cluster.namespace}"
    cluster.apply(made(KUEUE, "AdmissionCheck", other, spec=cluster.get(resources.ADMISSION_CHECKS, cluster.namespace)["spec"]))
    with_checks(cluster, cluster.namespace, other)
    try:
        for name in ("w-a", "w"):
            by_hand(cluster, pod_set(), name=name)
        eventually(lambda: len(cluster.requests()) == 4)
        for request in cluster.requests():
            cluster.provision(request)
        eventually(lambda: all(is_true(each, "Admitted") for each in cluster.get(resources.WORKLOADS)["items"]))
    finally:
        with_checks(cluster, cluster.namespace)
        delete(cluster, resources.ADMISSION_CHECKS, other)


@pytest.mark.row("W14", "3.10-19")
def test_templates_that_were_there_first_are_written_over(cluster: Cluster, admission: Program) -> None:
    """One of them with smaller pods, one with larger ones."""
    cluster.queue()
    by_hand(cluster, pod_set("one"), pod_set("two"))
    request = cluster.request()
    names = [each["podTemplateRef"]["name"] for each in request["spec"]["podSets"]]
    wanted = [cluster.get(resources.POD_TEMPLATES, name) for name in names]
    with stopped(admission):
        delete(cluster, resources.PROVISIONING_REQUESTS, request["metadata"]["name"])
        for name, gpus in zip(names, (0, 16), strict=True):
            delete(cluster, resources.POD_TEMPLATES, name)
            cluster.apply(made("v1", "PodTemplate", name, cluster.namespace, template=pod_set(gpus=gpus)["template"]))
    again = cluster.request()
    assert again["metadata"]["name"] == request["metadata"]["name"]
    found = [cluster.get(resources.POD_TEMPLATES, name) for name in names]
    assert [each["template"] for each in found] == [each["template"] for each in wanted]
    assert [owners(each) for each in found] == [owners(each) for each in wanted]
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))


def owners(item: Json) -> list[Json]:
    found: list[Json] = item["metadata"]["ownerReferences"]
    return found


@pytest.mark.row("W16", "3.5-09")
def test_the_next_attempt_is_without_the_key(cluster: Cluster) -> None:
    policy = cluster.namespace
    strategy = {"backoffLimitCount": 1, "backoffBaseSeconds": 3}
    managed(cluster, parameters={"policy": policy, "runDuration": "1h"}, retryStrategy=strategy)
    cluster.job()
    first = cluster.request()
    assert first["spec"]["parameters"] == {"policy": policy, "runDuration": "1h"}
    config(cluster, parameters={"policy": policy}, retryStrategy=strategy)
    holds(lambda: uids(cluster) == [first["metadata"]["uid"]], 1)
    cluster.answer(first, "Failed", reason="GangIncomplete", message="no room")
    second = cluster.request(2)
    assert second["spec"]["parameters"] == {"policy": policy}
    cluster.provision(second)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("W23")
def test_rejected_outlasts_the_wait_of_another(cluster: Cluster) -> None:
    cluster.queue()
    other = foreign_check(cluster)
    with_checks(cluster, cluster.namespace, other)
    cluster.job()
    request = cluster.request()
    eventually(lambda: other in states(cluster))
    say(cluster, other, "Retry", requeueAfterSeconds=5)
    eventually(lambda: requeue_at(cluster))
    cluster.answer(request, "Failed", reason="InvalidArgument", message="no such policy")
    eventually(lambda: states(cluster)[cluster.namespace][0] == "Rejected")
    holds(lambda: cluster.is_true("QuotaReserved") and cluster.entry()["state"] == "Rejected", 1)
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    cluster.told("AdmissionCheckRejected", "InvalidArgument: no such policy")
