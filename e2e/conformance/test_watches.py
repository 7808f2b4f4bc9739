"""Rows 3.3: what wakes workloads that wait for terms. Of all that admission watches only the kind under test changes.

A policy hands the class of these workloads to one that is not there: the checks can be used, and say the same before and after.
"""

import pytest

from e2e.cluster import KUEUE, Cluster, Json, eventually, made, status_of
from e2e.conformance.scene import by_hand, conditions, config, managed, pod_set, second_check, with_checks
from kube import resources

SOON = 10.0  # seconds: without an event a workload is looked at again 30 s after the last look


def policy(cluster: Cluster, suffix: str) -> str:
    """The name of another policy, which serves every class itself."""
    name = f"{cluster.namespace}-{suffix}"
    cluster.apply(made("corral.dev/v1alpha1", "CapacityPolicy", name))
    return name


def wait_for_terms(cluster: Cluster, *names: str) -> None:
    """Workloads of a class, until each is told that the policy meant for the class is not there."""
    mine, gone = cluster.namespace, f"{cluster.namespace}-gone"
    cluster.policy(byPriorityClass=[{"policy": gone, "names": [mine]}])
    cluster.apply(made(KUEUE, "WorkloadPriorityClass", mine, value=1000))
    of_class = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": mine}
    for name in names:
        by_hand(cluster, pod_set(), name=name, priorityClassRef=of_class, priority=1000)
    eventually(lambda: [f'"{gone}", which is not there' in said(cluster, name) for name in names] == [True] * len(names))


def said(cluster: Cluster, name: str) -> str:
    """The message of the queue's first check on a Workload."""
    entries: list[Json] = status_of(cluster.get(resources.WORKLOADS, name)).get("admissionChecks") or []
    return next((each["message"] for each in entries if each["name"] == cluster.namespace), "")


def asked(cluster: Cluster, check: str) -> list[Json]:
    return [each for each in cluster.requests() if each["metadata"]["annotations"]["corral.dev/admission-check"] == check]


@pytest.mark.row("3.3-11")
def test_a_change_of_the_config_reaches_workloads_that_wait(cluster: Cluster) -> None:
    managed(cluster)
    other = policy(cluster, "other")
    wait_for_terms(cluster, "one")
    before = conditions(cluster, cluster.namespace)
    config(cluster, parameters={"policy": other})
    [request] = eventually(cluster.requests, SOON)
    assert request["spec"]["parameters"] == {"policy": other}
    assert conditions(cluster, cluster.namespace) == before, "the check told nobody"
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.1-04")
def test_a_policy_that_comes_reaches_workloads_that_wait(cluster: Cluster) -> None:
    cluster.queue()
    wait_for_terms(cluster, "one")
    before = conditions(cluster, cluster.namespace)
    policy(cluster, "gone")
    [request] = eventually(cluster.requests, SOON)
    assert conditions(cluster, cluster.namespace) == before, "the check told nobody"
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.3-05", "3.3-06")
def test_a_change_of_the_check_reaches_all_workloads_that_wait_for_it(cluster: Cluster) -> None:
    """They have another check, too, whose requests are there all the time."""
    cluster.queue()
    other = policy(cluster, "other")
    second = second_check(cluster, other)
    with_checks(cluster, cluster.namespace, second)
    wait_for_terms(cluster, "one", "two")
    eventually(lambda: len(asked(cluster, second)) == 2)
    assert not asked(cluster, cluster.namespace)
    parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": other}
    cluster.api.merge(resources.ADMISSION_CHECKS, "", cluster.namespace, {"spec": {"parameters": parameters}})
    eventually(lambda: len(asked(cluster, cluster.namespace)) == 2, SOON)
    for each in cluster.requests():
        cluster.provision(each)
    eventually(lambda: all(_admitted(each) for each in cluster.get(resources.WORKLOADS)["items"]))


def _admitted(workload: Json) -> bool:
    return any((c["type"], c["status"]) == ("Admitted", "True") for c in status_of(workload).get("conditions") or ())
