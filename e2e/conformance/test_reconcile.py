"""Rows 3.1: from a workload to its requests and back to its check. Rows that test_admission.py shows are marked there."""

import pytest

from e2e.cluster import Cluster, Json, eventually, holds, made, status_of
from e2e.conformance.scene import (
    QUICK,
    by_hand,
    config,
    delete,
    forbidden,
    foreign_check,
    managed,
    pod_set,
    quota,
    requests_by,
    say,
    second_check,
    states,
    stopped,
    two_checks,
    with_checks,
    writes,
)
from e2e.stack import Program
from kube import resources
from kube.resources import Kind


@pytest.mark.row("3.1-01", "3.1-02", "3.1-03", "3.3-01", "3.3-04", "3.4-12", "3.4-13", "3.4-15", "3.4-16")
def test_workloads_without_a_check_of_ours_are_left_alone(cluster: Cluster) -> None:
    """Without quota, then waiting for somebody else's check, then admitted; and so is a request without our label."""
    cluster.queue(quota=0)
    with_checks(cluster)
    cluster.job()
    stranger = made("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "stranger", cluster.namespace)
    spec = {"provisioningClassName": "gang.corral.dev", "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}]}
    cluster.apply({**stranger, "spec": spec})
    eventually(lambda: cluster.condition("QuotaReserved").get("status") == "False")
    assert [each["metadata"]["name"] for each in cluster.requests()] == ["stranger"]

    other = foreign_check(cluster)
    with_checks(cluster, other)
    quota(cluster, 64)
    eventually(lambda: cluster.is_true("QuotaReserved") and other in states(cluster))
    holds(lambda: len(cluster.requests()) == 1 and states(cluster) == {other: ("Pending", "")}, 1)

    with_checks(cluster)
    eventually(lambda: cluster.is_true("Admitted"))
    holds(lambda: [each["metadata"]["name"] for each in cluster.requests()] == ["stranger"], 1)


@pytest.mark.row("3.1-04", "3.5-09")
def test_a_request_without_terms_waits_for_them(cluster: Cluster) -> None:
    """Kueue stops a queue whose check is inactive, so the policy goes while a request is open, and then the request."""
    cluster.queue()
    cluster.job()
    request = cluster.request()
    delete(cluster, resources.CAPACITY_POLICIES, cluster.namespace)
    eventually(lambda: cluster.active().get("status") == "False")
    delete(cluster, resources.PROVISIONING_REQUESTS, request["metadata"]["name"])
    words = f'AdmissionCheck "{cluster.namespace}" is not active: CapacityPolicy "{cluster.namespace}" is not there'
    eventually(lambda: cluster.entry()["message"].startswith(words))
    assert (cluster.entry()["state"], cluster.requests()) == ("Pending", [])
    cluster.policy()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-07", "3.4-14")
def test_the_request_of_a_check_that_was_taken_away_goes(cluster: Cluster) -> None:
    """Two checks of ours have a request each; the queue loses one of them, and the other one is enough."""
    _, found = two_checks(cluster)
    with_checks(cluster, cluster.namespace)
    eventually(lambda: set(states(cluster)) == {cluster.namespace} and len(cluster.requests()) == 1)
    cluster.provision(found[cluster.namespace])
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-08", "3.1-49", "3.1-53", "3.10-17")
def test_a_request_half_made_is_completed(cluster: Cluster, admission: Program) -> None:
    cluster.queue()
    by_hand(cluster, pod_set("first"), pod_set("second", count=3))
    request = cluster.request()
    one, two = (each["podTemplateRef"]["name"] for each in request["spec"]["podSets"])
    kept = cluster.get(resources.POD_TEMPLATES, one)["metadata"]["uid"]
    with stopped(admission):
        delete(cluster, resources.PROVISIONING_REQUESTS, request["metadata"]["name"])
        delete(cluster, resources.POD_TEMPLATES, two)
    again = cluster.request()
    assert (again["metadata"]["name"], again["spec"]) == (request["metadata"]["name"], request["spec"])
    assert again["metadata"]["ownerReferences"][0]["uid"] == kept == cluster.get(resources.POD_TEMPLATES, one)["metadata"]["uid"]
    assert cluster.get(resources.POD_TEMPLATES, two)["template"]["spec"]["containers"]
    with stopped(admission):
        cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["metadata"]["uid"] for each in cluster.requests()] == [again["metadata"]["uid"]]


@pytest.mark.row("3.1-09", "3.1-32", "3.1-33", "3.5-09")
def test_an_attempt_keeps_its_terms_and_the_next_has_the_new_ones(cluster: Cluster) -> None:
    """The old request can't go away, for somebody's finalizer holds it; the new one counts all the same."""
    cluster.queue(retry=QUICK)
    cluster.job()
    first = cluster.request()
    name = f"{cluster.namespace}-new"
    cluster.apply(made("corral.dev/v1alpha1", "CapacityPolicy", name, spec={"retry": QUICK}))
    parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": name}
    cluster.api.merge(resources.ADMISSION_CHECKS, "", cluster.namespace, {"spec": {"parameters": parameters}})
    holds(lambda: cluster.requests() == [first], 1)
    finalizers = {"metadata": {"finalizers": ["example.com/held"]}}
    held = first["metadata"]["name"]
    cluster.api.merge(resources.PROVISIONING_REQUESTS, cluster.namespace, held, finalizers)
    try:
        cluster.answer(first, "Failed", reason="GangIncomplete", message="3 of 4 nodes")
        second = cluster.request(attempt=2)
        assert second["spec"]["parameters"] == {"policy": name}
        assert len(cluster.get(resources.PROVISIONING_REQUESTS)["items"]) == 2
        cluster.provision(second)
        eventually(lambda: cluster.is_true("Admitted"))
    finally:
        cluster.api.merge(resources.PROVISIONING_REQUESTS, cluster.namespace, held, {"metadata": {"finalizers": None}})
        delete(cluster, resources.CAPACITY_POLICIES, name)


@pytest.mark.row("3.1-20", "3.5-06")
def test_capacity_revoked_before_admission_rejects(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job()
    cluster.answer(cluster.request(), "CapacityRevoked", reason="BlockEnded", message="the capacity block ended")
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    cluster.told("AdmissionCheckUpdated", "to Rejected with message: BlockEnded: the capacity block ended")


@pytest.mark.row("3.1-21", "3.5-07")
def test_capacity_revoked_from_a_finished_workload_changes_nothing(cluster: Cluster, admission: Program) -> None:
    cluster.queue()
    request = cluster.admitted()
    with stopped(admission):
        cluster.api.merge(resources.JOBS, cluster.namespace, "job", {"spec": {"activeDeadlineSeconds": 1}})
        eventually(lambda: cluster.is_true("Finished"))
        cluster.answer(request, "CapacityRevoked", reason="BlockEnded", message="the capacity block ended")
    eventually(lambda: not cluster.requests())
    assert cluster.entry()["state"] == "Ready"
    assert cluster.workload()["spec"]["active"] is True


@pytest.mark.row("3.1-23", "3.1-24")
def test_a_booking_that_expires_before_admission_is_a_failed_attempt(cluster: Cluster) -> None:
    cluster.queue(retry=QUICK)
    cluster.job()
    for attempt in (1, 2):
        request = cluster.request(attempt)
        cluster.answer(request, "BookingExpired", reason="BookingExpired", message="nobody came")
    eventually(lambda: cluster.workload()["spec"]["active"] is False)
    words = "to Rejected with message: Gave up after 2 attempts: Booking expired: BookingExpired: nobody came"
    cluster.told("AdmissionCheckUpdated", words)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(
            resources.POD_TEMPLATES,
            {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
            id="template",
            marks=pytest.mark.row("3.1-25"),
        ),
        pytest.param(
            resources.PROVISIONING_REQUESTS,
            {"spec": {"provisioningClassName": "x", "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}]}},
            id="request",
            marks=pytest.mark.row("3.1-26"),
        ),
    ],
)
def test_what_can_not_be_made_is_told_and_tried_again(cluster: Cluster, kind: Kind, body: Json) -> None:
    cluster.queue()
    with forbidden(cluster, kind, body):
        cluster.job()
        eventually(lambda: "not today" in cluster.entry().get("message", ""))
        assert cluster.entry()["state"] == "Pending"
        assert cluster.entry()["message"].startswith('Error creating ProvisioningRequest "')
        cluster.told("FailedCreate", "not today")
        assert not cluster.requests()
    cluster.policy(retry=QUICK)  # a change of the policy is reason to look again at once
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-28", "W18")
def test_provisioned_without_a_booking_admits_nothing(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job()
    request = cluster.request()
    cluster.answer(request, "Accepted")
    cluster.answer(request, "Provisioned", message="all there")
    eventually(lambda: "class details name no Booking" in cluster.entry()["message"])
    holds(lambda: cluster.entry()["state"] == "Pending" and not cluster.is_true("Admitted"), 1)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-50", "3.1-51", "3.1-54", "3.1-55", "3.1-56", "3.1-57", "3.1-58")
def test_the_message_follows_the_request(cluster: Cluster, admission: Program) -> None:
    cluster.queue(quota=0, retry=QUICK)
    cluster.job()
    eventually(lambda: cluster.condition("QuotaReserved").get("status") == "False" and cluster.entry())
    quiet = writes(admission)
    cluster.policy(retry=QUICK | {"backoff": "2s", "maxBackoff": "2s"})
    holds(lambda: writes(admission) == quiet and cluster.entry()["message"] == "", 1)
    quota(cluster, 64)
    first = cluster.request()
    said(cluster, f"ProvisioningRequest {first['metadata']['name']} waits to be accepted")
    cluster.answer(first, "Accepted")
    for message, words in (("one", "GangIncomplete: one"), ("two", "GangIncomplete: two"), ("", "GangIncomplete")):
        cluster.answer(first, "Provisioned", status="False", reason="GangIncomplete", message=message)
        said(cluster, words)
    same = writes(admission)
    cluster.answer(first, "Accepted", reason="Again")
    holds(lambda: writes(admission) == same, 1)
    cluster.answer(first, "Failed", reason="GangIncomplete", message="words")
    second = cluster.request(attempt=2)
    said(cluster, f"ProvisioningRequest {second['metadata']['name']} waits to be accepted")
    cluster.provision(second)
    said(cluster, "4 nodes in rack r1")
    eventually(lambda: cluster.is_true("Admitted"))
    assert writes(admission) > same


def said(cluster: Cluster, message: str) -> None:
    eventually(lambda: cluster.entry()["message"] == message)


@pytest.mark.row("3.3-02", "3.3-03")
def test_the_end_of_one_workload_is_not_anothers(cluster: Cluster) -> None:
    cluster.queue()
    by_hand(cluster, pod_set(), name="one")
    by_hand(cluster, pod_set(), name="two")
    found = eventually(lambda: requests_by(cluster, "workload") if len(cluster.requests()) == 2 else None)
    delete(cluster, resources.WORKLOADS, "one")
    eventually(lambda: requests_by(cluster, "workload") == {"two": found["two"]})
    cluster.provision(found["two"])
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.3-12", "3.4-17")
def test_a_change_reaches_the_checks_and_workloads_that_it_concerns(cluster: Cluster) -> None:
    """Two checks: one refers to a config, the other to a policy. Two workloads wait for both; only one check ever changes."""
    managed(cluster)
    second = second_check(cluster)
    other = foreign_check(cluster)
    with_checks(cluster, cluster.namespace, second, other)
    by_hand(cluster, pod_set(), name="one")
    by_hand(cluster, pod_set(), name="two")
    eventually(lambda: len(cluster.requests()) == 4)
    delete(cluster, resources.PROVISIONING_REQUEST_CONFIGS, cluster.namespace)
    eventually(lambda: cluster.active().get("status") == "False")
    assert status_of(cluster.get(resources.ADMISSION_CHECKS, second))["conditions"][0]["status"] == "True"
    for each in cluster.requests():
        if each["metadata"]["annotations"]["corral.dev/admission-check"] == cluster.namespace:
            delete(cluster, resources.PROVISIONING_REQUESTS, each["metadata"]["name"])
    eventually(lambda: all("is not active" in words for words in messages(cluster, cluster.namespace)))
    assert not any("is not active" in words for words in messages(cluster, second))
    config(cluster)
    eventually(lambda: len(cluster.requests()) == 4, seconds=10)  # by the change: without it they are looked at every 30 s
    for each in cluster.requests():
        cluster.provision(each)
    delete(cluster, resources.WORKLOADS, "two")
    eventually(lambda: len(cluster.get(resources.WORKLOADS)["items"]) == 1)
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))


def messages(cluster: Cluster, check: str) -> list[str]:
    entries = [e for w in cluster.get(resources.WORKLOADS)["items"] for e in status_of(w).get("admissionChecks") or ()]
    return [each["message"] for each in entries if each["name"] == check]
