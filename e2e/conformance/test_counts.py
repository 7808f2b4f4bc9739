"""Rows 3.1 of pod sets: which of them are asked for, with how many pods, and that none are merged."""

import pytest

from e2e.cluster import Cluster, Json, eventually
from e2e.conformance.scene import by_hand, managed, pod_set, quota
from kube import resources


def counts(request: Json) -> list[int]:
    return [each["count"] for each in request["spec"]["podSets"]]


@pytest.mark.row("3.1-14")
def test_pods_without_a_managed_resource_need_no_request(cluster: Cluster) -> None:
    managed(cluster, managedResources=["example.com/none"])
    cluster.job()
    eventually(lambda: cluster.is_true("Admitted"))
    assert (cluster.entry()["state"], cluster.entry()["message"]) == (
        "Ready",
        "No capacity is needed: no pods on the flavors of this check",
    )
    assert not cluster.requests()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("requests", id="request", marks=pytest.mark.row("3.1-15")),
        pytest.param("limits", id="limit", marks=pytest.mark.row("3.1-16")),
    ],
)
def test_only_pod_sets_with_a_managed_resource_are_asked_for(cluster: Cluster, kind: str) -> None:
    managed(cluster, managedResources=["nvidia.com/gpu"])
    needy = pod_set("needy", count=3)
    resource = needy["template"]["spec"]["containers"][0]["resources"]
    if kind == "limits":
        del resource["requests"]
    by_hand(cluster, pod_set("modest", gpus=0), needy)
    request = cluster.request()
    assert counts(request) == [3]
    template = cluster.get(resources.POD_TEMPLATES, request["spec"]["podSets"][0]["podTemplateRef"]["name"])
    assert template["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "8"
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["name"] for each in cluster.entry()["podSetUpdates"]] == ["needy"]


@pytest.mark.parametrize(
    "merging",
    [
        pytest.param("IdenticalPodTemplates", id="templates", marks=pytest.mark.row("3.1-29")),
        pytest.param("IdenticalWorkloadSchedulingRequirements", id="requirements", marks=pytest.mark.row("3.1-30")),
    ],
)
@pytest.mark.row("3.1-34", "3.1-36", "W19", "3.10-14", "3.5-16", "3.10-09")
def test_pod_sets_are_not_merged(cluster: Cluster, merging: str) -> None:
    """A policy of Kueue's config to merge is of no effect, and an empty pod set is in nobody's way."""
    managed(cluster, podSetMergePolicy=merging)
    by_hand(cluster, pod_set("one"), pod_set("none", count=0), pod_set("two", count=3))
    request = cluster.request()
    assert counts(request) == [2, 3]
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    steered = {each["name"]: list(each["nodeSelector"]) for each in cluster.entry()["podSetUpdates"]}
    assert steered == {name: [f"wl-0123456789.booking.corral.dev/{name}"] for name in ("one", "two")}


@pytest.mark.row("3.1-35", "3.1-37")
def test_pods_that_are_over_need_no_capacity(cluster: Cluster) -> None:
    """Kueue takes reclaimable pods off the counts that it admits."""
    cluster.queue(quota=0)
    by_hand(cluster, pod_set("done"), pod_set("half", count=3))
    reclaim(cluster, done=2, half=1)
    quota(cluster, 64)
    request = cluster.request()
    assert counts(request) == [2]
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert [each["name"] for each in cluster.entry()["podSetUpdates"]] == ["half"]


@pytest.mark.row("3.1-39")
def test_a_workload_whose_pods_are_all_over_needs_no_request(cluster: Cluster) -> None:
    cluster.queue(quota=0)
    by_hand(cluster, pod_set())
    reclaim(cluster, main=2)
    quota(cluster, 64)
    eventually(lambda: cluster.is_true("Admitted"))
    assert cluster.entry()["state"] == "Ready"
    assert not cluster.requests()


@pytest.mark.row("3.1-43", "3.5-20", "W19", "3.10-14")
def test_a_workload_without_pods_needs_no_request(cluster: Cluster) -> None:
    cluster.queue()
    by_hand(cluster, pod_set(count=0), pod_set("other", count=0))
    eventually(lambda: cluster.is_true("Admitted"))
    assert cluster.entry()["state"] == "Ready"
    assert not cluster.requests()


def reclaim(cluster: Cluster, **counts: int) -> None:
    name = eventually(cluster.workload)["metadata"]["name"]
    pods = [{"name": key, "count": count} for key, count in counts.items()]
    patch = {"status": {"reclaimablePods": pods}}
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, name, patch, subresource="status")
