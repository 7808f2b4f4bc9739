"""Rows 3.2 to 3.4: the AdmissionCheck itself. What Kueue then does with the queue shows in a Workload."""

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made
from e2e.conformance.scene import (
    activate,
    conditions,
    delete,
    foreign_check,
    queue_reason,
    say,
    states,
    two_checks,
    with_checks,
)
from kube import resources

POLICY = {"apiGroup": "corral.dev", "kind": "CapacityPolicy"}
CONFIG = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig"}


def check(cluster: Cluster, parameters: Json | None, controller: str = "corral.dev/capacity") -> None:
    spec = {"controllerName": controller} | ({"parameters": parameters} if parameters else {})
    cluster.apply(made(KUEUE, "AdmissionCheck", cluster.namespace, spec=spec))


def refused(cluster: Cluster, words: str) -> None:
    """The check says why it can't be used, and Kueue reserves nothing in its queue."""
    eventually(lambda: words in cluster.active().get("message", ""))
    assert (cluster.active()["status"], cluster.active()["reason"]) == ("False", "BadParametersRef")
    assert not cluster.is_true("QuotaReserved")


def goes_on(cluster: Cluster) -> None:
    """The check can be used: Kueue reserves quota, and admits once the capacity is there."""
    eventually(lambda: cluster.active().get("status") == "True")
    assert (cluster.active()["reason"], cluster.active()["message"]) == ("Active", "The admission check is active")
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        pytest.param(None, "set spec.parameters to a CapacityPolicy", id="none", marks=pytest.mark.row("3.2-02", "3.4-02")),
        pytest.param(
            {**POLICY, "apiGroup": "example.com", "name": "x"},
            'of group "example.com" is unknown here: refer to a CapacityPolicy of corral.dev',
            id="group",
            marks=pytest.mark.row("3.2-03", "3.3-08", "3.4-04", "3.4-10"),
        ),
        pytest.param(
            {**POLICY, "kind": "Policy", "name": "x"},
            'kind "Policy" of group "corral.dev" is unknown here: refer to a CapacityPolicy of corral.dev',
            id="kind",
            marks=pytest.mark.row("3.2-04", "3.3-09", "3.4-05"),
        ),
        pytest.param(
            {**CONFIG, "name": "nowhere"},
            'ProvisioningRequestConfig "nowhere" is not there: create it',
            id="missing",
            marks=pytest.mark.row("3.2-05", "3.4-06"),
        ),
    ],
)
@pytest.mark.row("3.2-06", "3.4-07", "3.4-11")
def test_parameters_that_lead_nowhere_are_named_and_mended(cluster: Cluster, bad: Json | None, words: str) -> None:
    cluster.queue()
    check(cluster, bad)
    refused(cluster, words)
    check(cluster, {**POLICY, "name": cluster.namespace})
    goes_on(cluster)


@pytest.mark.row("3.2-01", "3.3-07", "3.4-09")
def test_a_check_of_another_controller_is_left_alone(cluster: Cluster) -> None:
    """Neither its condition is written, nor the workload's entry for it."""
    cluster.queue()
    other = foreign_check(cluster, active=False)
    holds(lambda: not conditions(cluster, other), 1)
    activate(cluster, other)
    with_checks(cluster, cluster.namespace, other)
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.entry()["state"] == "Ready")
    holds(lambda: states(cluster)[other] == ("Pending", "") and not cluster.is_true("Admitted"), 1)
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["reason"] for each in conditions(cluster, other)] == ["Test"]


@pytest.mark.row("3.3-10", "3.4-03")
def test_parameters_without_a_name_are_refused(cluster: Cluster) -> None:
    """By the API server; the check that is there goes on."""
    cluster.queue()
    with pytest.raises(LookupError, match=r"spec\.parameters\.name"):
        check(cluster, {**CONFIG, "name": ""})
    goes_on(cluster)


@pytest.mark.row("3.4-01")
def test_a_check_that_comes_after_its_queue(cluster: Cluster) -> None:
    cluster.queue()
    late = f"{cluster.namespace}-late"
    with_checks(cluster, late)
    eventually(lambda: queue_reason(cluster) == "AdmissionCheckNotFound")
    cluster.apply(
        made(
            KUEUE,
            "AdmissionCheck",
            late,
            spec={"controllerName": "corral.dev/capacity", "parameters": POLICY | {"name": cluster.namespace}},
        )
    )
    eventually(lambda: queue_reason(cluster) == "Ready")
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.4-08")
def test_an_entry_whose_check_is_gone_is_nobodys(cluster: Cluster) -> None:
    """Kueue's finalizer keeps a check as long as a queue uses it, so Kueue is by then about to take the entry off."""
    second, found = two_checks(cluster)
    delete(cluster, resources.ADMISSION_CHECKS, second)
    with_checks(cluster, cluster.namespace)
    eventually(lambda: set(states(cluster)) == {cluster.namespace} and len(cluster.requests()) == 1)
    cluster.provision(found[cluster.namespace])
    eventually(lambda: cluster.is_true("Admitted"))
