"""Every kind of workload that Kueue admits, through the check: with the real Kueue and the CRDs of the real operators."""

from dataclasses import replace
from typing import Any

import pytest

from e2e.cluster import BOOKING, Cluster, eventually, holds
from e2e.kinds.look import asked
from e2e.kinds.objects import LWS, RAY_JOB, SERVE, WHOLE, Case, leader_worker_set, pod, pods_of_leader_worker_set, replicated
from kube import resources

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("all_kinds"), pytest.mark.timeout(600)]  # on a busy machine the start takes minutes
TOLERATION = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}


def pod_sets(cluster: Cluster, request: Json) -> dict[str, int]:
    """Names and counts that the request asks for; each template must bear its pod set's name and the flavor's selector."""
    counts = asked(request)
    for name, each in zip(counts, request["spec"]["podSets"], strict=True):
        template = cluster.get(resources.POD_TEMPLATES, each["podTemplateRef"]["name"])
        assert template["metadata"]["labels"]["corral.dev/pod-set"] == name
        assert template["template"]["spec"]["nodeSelector"]["pool"] == cluster.namespace
    return counts


def steered(cluster: Cluster, spec: Json, pod_set: str) -> None:
    """The pods go to the nodes that are booked for their pod set, on the flavor's nodes."""
    selector = {"pool": cluster.namespace, f"{BOOKING}.booking.corral.dev/{pod_set}": "true"}
    assert spec["nodeSelector"].items() >= selector.items()
    assert TOLERATION in spec["tolerations"]
    assert {"key": "flavor", "operator": "Exists"} in spec["tolerations"]


ROWS = {
    "JobSet": pytest.mark.row("3.9-89", "3.9-98"),
    "MPIJob": pytest.mark.row("3.9-99"),
    "PyTorchJob": pytest.mark.row("3.9-100"),
    "JAXJob": pytest.mark.row("3.9-101"),
    "AppWrapper": pytest.mark.row("3.9-91", "3.9-103"),
}


@pytest.mark.parametrize("case", [pytest.param(each, id=(kind := each.kind.kind), marks=ROWS.get(kind, ())) for each in WHOLE])
def test_a_suspended_object_starts_on_its_booked_nodes(cluster: Cluster, case: Case) -> None:
    """What the object's annotations override is in the request."""
    cluster.queue()
    *before, item = case.made("gang", cluster.namespace)
    item["metadata"]["annotations"] = {"provreq.kueue.x-k8s.io/runDuration": "2h"}
    cluster.apply(*before, item)
    request = cluster.request()
    assert request["spec"]["parameters"] == {"policy": cluster.namespace, "runDuration": "2h"}
    assert pod_sets(cluster, request) == case.pod_sets
    assert not case.running(cluster.get(case.kind, "gang"))
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted") and case.running(cluster.get(case.kind, "gang")))
    specs = case.specs(cluster.get(case.kind, "gang"))
    assert set(specs) == set(case.pod_sets)
    for name, spec in specs.items():
        steered(cluster, spec, name)


def test_the_submitter_that_ray_makes_by_itself_is_steered_nowhere(cluster: Cluster) -> None:
    """Kueue counts its pod, but has no template of the user's to write to: it runs on a node that is not booked."""
    cluster.queue()
    [group] = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]["resourceGroups"]
    group["coveredResources"].append("memory")  # which this pod asks for
    group["flavors"][0]["resources"].append({"name": "memory", "nominalQuota": "1Gi"})
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": [group]}})
    spec = {key: value for key, value in RAY_JOB.spec.items() if key != "submitterPodTemplate"}
    cluster.apply(*replace(RAY_JOB, spec=spec).made("gang", cluster.namespace))
    request = cluster.request()
    assert pod_sets(cluster, request) == {"head": 1, "workers": 3, "submitter": 1}
    cluster.provision(request)
    eventually(lambda: RAY_JOB.running(cluster.get(RAY_JOB.kind, "gang")))
    assert "submitterPodTemplate" not in cluster.get(RAY_JOB.kind, "gang")["spec"]


def let_go(cluster: Cluster, count: int) -> dict[str, Json]:
    """The pods by name, once there are so many and no gate holds one."""

    def free() -> dict[str, Json] | None:
        found = {each["metadata"]["name"]: each for each in cluster.get(resources.PODS)["items"]}
        return found if len(found) == count and not any(each["spec"].get("schedulingGates") for each in found.values()) else None

    return eventually(free)


def within(cluster: Cluster, *objects: Json) -> None:
    """Creates them in the test's namespace."""
    cluster.apply(*({**each, "metadata": {**each["metadata"], "namespace": cluster.namespace}} for each in objects))


def test_a_plain_pod(cluster: Cluster) -> None:
    cluster.queue()
    within(cluster, pod("alone"))
    request = cluster.request()
    assert pod_sets(cluster, request) == {"main": 1}
    cluster.provision(request)
    steered(cluster, let_go(cluster, 1)["alone"]["spec"], "main")
    assert cluster.is_true("Admitted")


def test_a_group_of_pods_has_a_pod_set_for_each_role(cluster: Cluster) -> None:
    """Nothing is asked for before the last pod is there, for until then Kueue makes no Workload."""
    cluster.queue()
    members = [pod(f"worker-{number}", group="gang", size=3) for number in range(2)]
    within(cluster, *members)
    holds(lambda: not cluster.workload() and not cluster.requests(), 2)
    within(cluster, pod("driver", 0, group="gang", size=3))
    request = cluster.request()
    counts = pod_sets(cluster, request)
    assert sorted(counts.values()) == [1, 2]
    cluster.provision(request)
    pods = let_go(cluster, 3)
    role = {count: name for name, count in counts.items()}
    steered(cluster, pods["driver"]["spec"], role[1])
    for number in range(2):
        steered(cluster, pods[f"worker-{number}"]["spec"], role[2])


def said(cluster: Cluster, request: Json, index: int = 0) -> tuple[Json, Json]:
    """Labels and annotations of the request's pod template of this index."""
    name = request["spec"]["podSets"][index]["podTemplateRef"]["name"]
    meta = cluster.get(resources.POD_TEMPLATES, name)["template"]["metadata"]
    return meta.get("labels") or {}, meta.get("annotations") or {}


TOPOLOGY = {"corral.dev/preferred-topology": "topology.kubernetes.io/zone"}
REQUIRED = "corral.dev/required-topology"
RACK = {REQUIRED: "topology.example.com/rack"}


def test_what_the_pods_of_a_group_say_is_asked_for_by_role(cluster: Cluster) -> None:
    """Kueue's Workload has nothing but their specs."""
    cluster.queue()
    workers = [pod(f"worker-{number}", group="gang", size=3, labels=SERVE, notes=RACK) for number in range(2)]
    within(cluster, *workers, pod("driver", 0, group="gang", size=3))
    request = cluster.request()
    assert not any(each["template"].get("metadata") for each in cluster.workload()["spec"]["podSets"])
    found = {count: said(cluster, request, index) for index, count in enumerate(pod_sets(cluster, request).values())}
    (_, driver), (labels, notes) = found[1], found[2]
    assert labels.items() >= (SERVE | {"kueue.x-k8s.io/pod-group-name": "gang"}).items()
    assert (notes.get(REQUIRED), driver.get(REQUIRED)) == (RACK[REQUIRED], None)
    cluster.provision(request)
    let_go(cluster, 3)


def test_what_a_plain_pod_says_is_asked_for(cluster: Cluster) -> None:
    cluster.queue()
    within(cluster, pod("alone", labels=SERVE, notes=TOPOLOGY))
    labels, notes = said(cluster, cluster.request())
    assert (labels.items() >= SERVE.items(), notes) == (True, TOPOLOGY)


def test_pods_of_one_role_that_want_different_places_are_told_so(cluster: Cluster) -> None:
    """Kueue takes them for alike."""
    cluster.queue()
    within(cluster, pod("a", group="gang", size=2, notes=RACK), pod("b", group="gang", size=2))
    cluster.told("AdmissionCheckUpdated", f'annotation {REQUIRED} is "{RACK[REQUIRED]}" on pod "a" but not set on pod "b"')
    assert not cluster.requests()


def test_a_stateful_set_is_one_gang(cluster: Cluster) -> None:
    """What its template says of the pods is not in Kueue's Workload, but in what we ask for."""
    cluster.queue()
    within(cluster, replicated("StatefulSet", 3, TOPOLOGY))
    request = cluster.request()
    labels, notes = said(cluster, request)
    assert labels == SERVE
    assert notes.items() >= TOPOLOGY.items()
    [(pod_set, count)] = pod_sets(cluster, request).items()
    assert count == 3
    cluster.provision(request)
    for each in let_go(cluster, 3).values():
        steered(cluster, each["spec"], pod_set)


def test_each_pod_of_a_deployment_is_a_workload_of_its_own(cluster: Cluster) -> None:
    cluster.queue()
    within(cluster, replicated("Deployment", 2))
    requests = eventually(lambda: found if len(found := cluster.requests()) == 2 else None)
    for request in requests:
        assert pod_sets(cluster, request) == {"main": 1}
        cluster.provision(request)
    for each in let_go(cluster, 2).values():
        steered(cluster, each["spec"], "main")


def test_a_leader_worker_set_has_a_workload_for_each_group(cluster: Cluster) -> None:
    cluster.queue()
    within(cluster, leader_worker_set(3, TOPOLOGY))
    request = cluster.request()
    assert pod_sets(cluster, request) == {"leader": 1, "worker": 2}
    labels, notes = said(cluster, request, 1)
    assert labels == SERVE
    assert notes.items() >= TOPOLOGY.items()
    assert "corral.dev/preferred-topology" not in said(cluster, request)[1]
    within(cluster, *pods_of_leader_worker_set(cluster.get(LWS, "serve")))
    cluster.provision(request)
    pods = let_go(cluster, 3)
    steered(cluster, pods["serve-0"]["spec"], "leader")
    for name in ("serve-0-1", "serve-0-2"):
        steered(cluster, pods[name]["spec"], "worker")
