"""Rows 3.2 to 3.4: the AdmissionCheck itself. What Kueue then does with the queue shows in a Workload."""

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made
from e2e.conformance.scene import activate, conditions, foreign_check, say, states, with_checks

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
        pytest.param(None, "set spec.parameters to a CapacityPolicy", id="none", marks=pytest.mark.row("3.2-02")),
        pytest.param(
            {**POLICY, "apiGroup": "example.com", "name": "x"},
            'of group "example.com" is unknown here: refer to a CapacityPolicy of corral.dev',
            id="group",
            marks=pytest.mark.row("3.2-03"),
        ),
        pytest.param(
            {**POLICY, "kind": "Policy", "name": "x"},
            'kind "Policy" of group "corral.dev" is unknown here: refer to a CapacityPolicy of corral.dev',
            id="kind",
            marks=pytest.mark.row("3.2-04"),
        ),
        pytest.param(
            {**CONFIG, "name": "nowhere"},
            'ProvisioningRequestConfig "nowhere" is not there: create it',
            id="missing",
            marks=pytest.mark.row("3.2-05"),
        ),
    ],
)
@pytest.mark.row("3.2-06")
def test_parameters_that_lead_nowhere_are_named_and_mended(cluster: Cluster, bad: Json | None, words: str) -> None:
    cluster.queue()
    check(cluster, bad)
    refused(cluster, words)
    check(cluster, {**POLICY, "name": cluster.namespace})
    goes_on(cluster)


@pytest.mark.row("3.2-01")
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
