"""Rows 3.10: what no suite of Kueue's own check tests, as far as it is no weakness of it; those are in test_weaknesses.py."""

import pytest

from e2e.cluster import Cluster, eventually, holds
from e2e.conformance.scene import by_hand, foreign_check, pod_set, say, states, with_checks
from kube import resources


def with_other(cluster: Cluster) -> str:
    """A queue with our check and another one, which comes back."""
    cluster.queue()
    other = foreign_check(cluster)
    with_checks(cluster, cluster.namespace, other)
    return other


def set_active(cluster: Cluster, active: bool) -> None:
    name = cluster.workload()["metadata"]["name"]
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, name, {"spec": {"active": active}})


@pytest.mark.row("3.10-12")
def test_what_would_wedge_an_evicted_workload_is_taken_back(cluster: Cluster) -> None:
    cluster.queue()
    cluster.job()
    cluster.request()
    set_active(cluster, False)
    eventually(lambda: cluster.is_true("Evicted") and not cluster.is_true("QuotaReserved"))
    for state in ("Retry", "Rejected"):
        say(cluster, cluster.namespace, state)
        eventually(lambda: cluster.entry()["state"] == "Pending")
    set_active(cluster, True)
    eventually(lambda: cluster.is_true("QuotaReserved"))
    [request] = eventually(cluster.requests)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.10-13")
def test_an_older_copy_is_written_over(cluster: Cluster) -> None:
    other = with_other(cluster)
    cluster.job()
    cluster.provision(cluster.request())
    eventually(lambda: cluster.entry()["state"] == "Ready")
    wanted = cluster.entry()["podSetUpdates"]
    say(cluster, cluster.namespace, "Pending", "older")
    eventually(lambda: cluster.entry()["state"] == "Ready")
    assert cluster.entry()["podSetUpdates"] == wanted
    say(cluster, other, "Ready")
    eventually(lambda: cluster.is_true("Admitted"))
    say(cluster, cluster.namespace, "Pending", "older")
    eventually(lambda: cluster.entry()["state"] == "Ready")
    assert (cluster.is_true("Admitted"), cluster.entry()["podSetUpdates"]) == (True, wanted)


def stop(cluster: Cluster, policy: str) -> None:
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"stopPolicy": policy}})


@pytest.mark.row("3.10-15")
def test_ready_ends_with_the_reservation(cluster: Cluster) -> None:
    """The queue is held while another check is asked, and goes on: nothing is admitted on the capacity of before."""
    other = with_other(cluster)
    cluster.job()
    first = cluster.request()
    cluster.provision(first)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    stop(cluster, "Hold")
    eventually(lambda: not cluster.is_true("QuotaReserved"))
    stop(cluster, "None")
    second = eventually(lambda: next((r for r in cluster.requests() if r["metadata"]["uid"] != first["metadata"]["uid"]), None))
    say(cluster, other, "Ready")
    holds(lambda: states(cluster)[cluster.namespace][0] == "Pending" and not cluster.is_true("Admitted"), 1)
    assert not cluster.entry().get("podSetUpdates")
    cluster.provision(second)
    eventually(lambda: cluster.is_true("Admitted"))


@pytest.mark.row("3.10-18")
def test_as_many_pod_sets_as_there_can_be(cluster: Cluster) -> None:
    cluster.queue()
    most = [pod_set(f"set-{number}", count=1, gpus=1) for number in range(8)]
    with pytest.raises(LookupError, match=r"spec\.podSets"):
        by_hand(cluster, *most, pod_set("one-too-many"))
    by_hand(cluster, *most)
    request = cluster.request()
    assert len(request["spec"]["podSets"]) == 8
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert len(cluster.entry()["podSetUpdates"]) == 8
