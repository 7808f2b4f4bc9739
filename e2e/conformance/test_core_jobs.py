"""Rows 3.9 of jobs: what the checks' updates make of their pod templates, and what a job is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import BOOKING, LABEL, Cluster, Json, eventually, made, status_of
from e2e.conformance.scene import by_hand, foreign_check, pod_set, say, second_flavor, states, suspended, with_checks
from kube import resources

TOLERATION = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
QUEUED = {"kueue.x-k8s.io/queue-name": "queue"}


def with_others(cluster: Cluster, *suffixes: str) -> list[str]:
    """A queue with our check and further ones that the test plays; their names."""
    cluster.queue()
    others = [foreign_check(cluster, each) for each in suffixes]
    with_checks(cluster, cluster.namespace, *others)
    return others


def update(**fields: Any) -> list[Json]:
    return [{"name": "main", **fields}]


def pods_of_job(cluster: Cluster) -> Json:
    template: Json = cluster.get(resources.JOBS, "job")["spec"]["template"]
    return template


def told(cluster: Cluster, name: str) -> Iterator[str]:
    """What events UpdatedAdmissionCheck say of an object."""
    for each in cluster.get(resources.EVENTS)["items"]:
        if each["reason"] == "UpdatedAdmissionCheck" and each["regarding"]["name"] == name:
            yield each["note"]


@pytest.mark.row("3.9-82", "3.9-87", "3.9-97", "3.9-106", "3.9-107", "3.9-88")
def test_updates_of_all_checks_reach_the_job(cluster: Cluster) -> None:
    """Ours, and those of two others that agree on a label; a toleration that the job has is not doubled."""
    one, two = with_others(cluster, "one", "two")
    cluster.job(annotations={"provreq.kueue.x-k8s.io/runDuration": "2h"}, tolerations=[TOLERATION], nodeSelector={"own": "x"})
    request = cluster.request()
    assert request["spec"]["parameters"]["runDuration"] == "2h"
    cluster.provision(request)
    say(cluster, one, "Ready", podSetUpdates=update(labels={"a": "1"}, annotations={"b": "2"}, nodeSelector={"c": "3"}))
    say(cluster, two, "Ready", podSetUpdates=update(labels={"a": "1"}, tolerations=[TOLERATION]))
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
    template = pods_of_job(cluster)
    assert template["metadata"]["labels"]["a"] == "1"
    assert template["metadata"]["annotations"]["b"] == "2"
    assert template["spec"]["nodeSelector"] == {"own": "x", "c": "3", "pool": cluster.namespace, LABEL: "true"}
    keys = [each["key"] for each in template["spec"]["tolerations"]]
    assert sorted(keys) == ["corral.dev/booked", "flavor"]


@pytest.mark.parametrize(
    ("field", "row"),
    [
        pytest.param("labels", "label", id="label", marks=pytest.mark.row("3.9-83", "3.9-108")),
        pytest.param("annotations", "annotation", id="annotation", marks=pytest.mark.row("3.9-84", "3.9-109")),
        pytest.param("nodeSelector", "nodeSelector", id="selector", marks=pytest.mark.row("3.9-85", "3.9-110")),
    ],
)
def test_updates_that_contradict_each_other_end_the_workload(cluster: Cluster, field: str, row: str) -> None:
    """Of two other checks. Kueue finishes the workload, and we give its capacity back."""
    one, two = with_others(cluster, "one", "two")
    cluster.job()
    cluster.provision(cluster.request())
    say(cluster, one, "Ready", podSetUpdates=update(**{field: {"a": "1"}}))
    say(cluster, two, "Ready", podSetUpdates=update(**{field: {"a": "2"}}))
    eventually(lambda: cluster.is_true("Finished"))
    assert cluster.condition("Finished")["reason"] == "FailedToStart"
    assert "conflict" in cluster.condition("Finished")["message"], row
    eventually(lambda: not cluster.requests())


@pytest.mark.row("3.9-86")
def test_an_update_that_contradicts_the_template_ends_the_workload(cluster: Cluster) -> None:
    [other] = with_others(cluster, "one")
    cluster.job(nodeSelector={"own": "x"})
    cluster.provision(cluster.request())
    say(cluster, other, "Ready", podSetUpdates=update(nodeSelector={"own": "y"}))
    eventually(lambda: cluster.is_true("Finished"))
    assert cluster.condition("Finished")["reason"] == "FailedToStart"
    eventually(lambda: not cluster.requests())


@pytest.mark.row("3.9-105")
def test_without_updates_the_job_starts_as_it_is(cluster: Cluster) -> None:
    """A check that is on none of its flavors has nothing to say of it."""
    cluster.queue()
    flavor = second_flavor(cluster)
    with_checks(cluster, {"name": cluster.namespace, "onFlavors": [flavor]})
    cluster.job()
    eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
    assert states(cluster) == {}
    assert pods_of_job(cluster)["spec"]["nodeSelector"] == {"pool": cluster.namespace}


@pytest.mark.row("3.9-92", "3.9-93")
def test_what_checks_say_is_told_to_the_job(cluster: Cluster) -> None:
    [other] = with_others(cluster, "other")
    cluster.job()
    request = cluster.request()
    words = f"ProvisioningRequest {request['metadata']['name']} waits to be accepted"
    eventually(lambda: f"{cluster.namespace}: {words}" in told(cluster, "job"))
    say(cluster, other, "Pending", "on its way")
    eventually(lambda: f"{cluster.namespace}: {words}; {other}: on its way" in told(cluster, "job"))


@pytest.mark.row("3.9-90", "3.9-94", "3.9-102")
def test_a_single_pod(cluster: Cluster) -> None:
    """Copied annotation, message and updates, as for a job."""
    cluster.queue()
    cluster.apply(pod(cluster, "alone", {"provreq.kueue.x-k8s.io/runDuration": "2h"}))
    request = cluster.request()
    assert request["spec"]["parameters"]["runDuration"] == "2h"
    words = f"{cluster.namespace}: ProvisioningRequest {request['metadata']['name']} waits to be accepted"
    eventually(lambda: words in told(cluster, "alone"))
    cluster.provision(request)
    eventually(lambda: not cluster.get(resources.PODS, "alone")["spec"].get("schedulingGates"))
    spec = cluster.get(resources.PODS, "alone")["spec"]
    assert spec["nodeSelector"] == {"pool": cluster.namespace, LABEL: "true"}
    assert "corral.dev/booked" in [each["key"] for each in spec["tolerations"]]
    assert cluster.is_true("Admitted")


@pytest.mark.row("3.9-95")
def test_each_pod_of_a_group_is_told(cluster: Cluster) -> None:
    cluster.queue()
    group = {"kueue.x-k8s.io/pod-group-name": "group"}
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    cluster.apply(*(pod(cluster, name, total, group) for name in ("one", "two")))
    request = cluster.request()
    words = f"{cluster.namespace}: ProvisioningRequest {request['metadata']['name']} waits to be accepted"
    for name in ("one", "two"):
        eventually(lambda name=name: words in told(cluster, name))  # type: ignore[misc]
    cluster.answer(request, "Accepted")
    [updated] = request["spec"]["podSets"]
    cluster.answer(request, "Provisioned", message="there", booking=BOOKING)
    eventually(lambda: cluster.is_true("Admitted"))
    assert updated["count"] == 2


def pod(cluster: Cluster, name: str, annotations: dict[str, str], labels: dict[str, str] | None = None) -> Json:
    spec = pod_set()["template"]["spec"]
    item = made("v1", "Pod", name, cluster.namespace, spec=spec)
    item["metadata"] |= {"labels": QUEUED | (labels or {}), "annotations": annotations}
    return item


@pytest.mark.row("3.9-115", "3.9-116")
def test_the_template_has_the_marks_of_all_its_flavors(cluster: Cluster) -> None:
    """Processors from one flavor, devices from another; a flavor that serves two resources counts once."""
    cluster.queue()
    name = f"{cluster.namespace}-b"
    taint = {"key": "fast", "operator": "Exists"}
    cluster.apply(
        made("kueue.x-k8s.io/v1beta2", "ResourceFlavor", name, spec={"nodeLabels": {"fast": "1"}, "tolerations": [taint]})
    )
    groups = [group(cluster.namespace, "cpu", "memory"), group(name, "nvidia.com/gpu")]
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": groups}})
    needy = pod_set()
    for amounts in needy["template"]["spec"]["containers"][0]["resources"].values():
        amounts["memory"] = "1Gi"
    by_hand(cluster, needy)
    request = cluster.request()
    template = cluster.get(resources.POD_TEMPLATES, request["spec"]["podSets"][0]["podTemplateRef"]["name"])["template"]["spec"]
    assert template["nodeSelector"] == {"pool": cluster.namespace, "fast": "1"}
    assert [each["key"] for each in template["tolerations"]].count("flavor") == 1
    assert "fast" in [each["key"] for each in template["tolerations"]]
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted"))
    assert status_of(cluster.workload())["admission"]["podSetAssignments"][0]["flavors"]["memory"] == cluster.namespace


def group(flavor: str, *names: str) -> Json:
    quotas = [{"name": each, "nominalQuota": "100Gi" if each == "memory" else 64} for each in names]
    return {"coveredResources": list(names), "flavors": [{"name": flavor, "resources": quotas}]}
