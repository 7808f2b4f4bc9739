"""What workload manifests, and what goes with them in the files, tell of a gang."""

from typing import Any

import pytest

from capacity.model import Exclusive, PodSet, Running, Slices
from capacity.requirements import Expression, LabelSelector, NodeSelectorTerm
from corral.files import InputError
from corral.known import known
from corral.manifests import gangs
from corral.offline import snapshot
from kube import core, ours
from kube.meta import decode

POD: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def job(**spec: Any) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"name": "llm", "namespace": "team"}, "spec": {"template": {"spec": {**POD, **spec}}}}


def job_set(notes: dict[str, str], *jobs: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "JobSet", "metadata": {"name": "llm", "annotations": notes}, "spec": {"replicatedJobs": list(jobs)}}


def replicated(name: str, replicas: int, parallelism: int, notes: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"metadata": {"annotations": notes or {}}, "spec": {"parallelism": parallelism, "template": {"spec": POD}}}
    return {"name": name, "replicas": replicas, "template": template}


def pod_sets(item: dict[str, Any], *others: dict[str, Any]) -> tuple[PodSet, ...]:
    items = [item, *others]
    [gang] = gangs(items, known(items))
    return gang.pod_sets


def rivals() -> LabelSelector:
    return LabelSelector((Expression("jobset.sigs.k8s.io/job-key", "Exists"),))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            job_set({EXCLUSIVE: "rack"}, replicated("w", 3, 4)), {"w": (12, Exclusive("rack", rivals(), 4))}, id="the JobSet's"
        ),
        pytest.param(
            job_set({}, replicated("w", 3, 4, {EXCLUSIVE: "rack"}), replicated("driver", 1, 1)),
            {"w": (12, Exclusive("rack", rivals(), 4)), "driver": (1, None)},
            id="one replicated job's",
        ),
    ],
)
def test_exclusive_domains_of_a_job_set(item: dict[str, Any], expected: dict[str, Any]) -> None:
    found = pod_sets(item)
    assert {each.name: (each.count, each.exclusive) for each in found} == expected
    assert all(each.labels == {"jobset.sigs.k8s.io/job-key": "?"} for each in found)


def test_a_job_s_pods_bear_its_name() -> None:
    spread = {
        "topologyKey": "rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"job-name": "llm"}},
    }
    [found] = pod_sets(job(topologySpreadConstraints=[spread]))
    assert found.labels == {"job-name": "llm", "batch.kubernetes.io/job-name": "llm"}
    assert (found.namespace, found.undecidable, len(found.spreads)) == ("team", (), 1)


def test_kueues_topology_request_counts() -> None:
    request = {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}
    sets = [{"name": "main", "count": 4, "template": {"spec": POD}, "topologyRequest": request}]
    [found] = pod_sets({"kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": sets}})
    assert (found.required_topology, found.topology_group, found.slices) == ("block", "main", Slices("rack", 2))
    assert found.namespace == "default"


def test_a_topology_request_that_nobody_plans_for() -> None:
    request = {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}]}
    sets = [{"name": "main", "count": 4, "template": {"spec": POD}, "topologyRequest": request}]
    with pytest.raises(InputError, match='Workload w: pod set "main": slices within slices'):
        pod_sets({"kind": "Workload", "metadata": {"name": "w"}, "spec": {"podSets": sets}})


def test_pod_sets_need_names_of_their_own() -> None:
    with pytest.raises(InputError, match="JobSet llm: two pod sets are named w: rename one"):
        pod_sets(job_set({}, replicated("w", 1, 1), replicated("w", 1, 2)))


def test_what_the_files_tell_of_the_cluster_counts() -> None:
    east = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    there: list[dict[str, Any]] = [
        {"kind": "RuntimeClass", "metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "250m"}}},
        {"kind": "Namespace", "metadata": {"name": "other", "labels": {"a": "b"}}},
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [east]}}},
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "team", "annotations": bound},
            "spec": {"volumeName": "pv"},
        },
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "x.com/gpu"}},
    ]
    term = {"topologyKey": "rack", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    asked = job(
        runtimeClassName="vm",
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    [found] = pod_sets(asked, *there)
    assert found.requests["cpu"] == 1250
    assert found.volumes == ((NodeSelectorTerm((Expression("zone", "In", ("east",)),)),),)
    assert found.apart[0].namespaces == frozenset({"other"})
    assert found.undecidable == ()
    devices = [{"name": "c", "resources": {"limits": {"x.com/gpu": "1"}}}]
    [served] = pod_sets(job(containers=devices), *there)
    assert served.undecidable == ("resource x.com/gpu is served by a DeviceClass, whose devices the scheduler allocates",)


RACK_NOTE = "corral.dev/required-topology"


def member(name: str, notes: dict[str, str], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of group `g`."""
    meta = {"name": name, "labels": {"kueue.x-k8s.io/pod-group-name": "g", **(labels or {})}, "annotations": notes}
    return {"kind": "Pod", "metadata": meta, "spec": {**POD, **spec}}


def test_pods_of_a_group_by_role() -> None:
    """Each role by what all of its pods say; a label that only one has is not the role's."""
    leader = member("a", {"kueue.x-k8s.io/role-hash": "11111111"}, {"app": "train"})
    workers = [member(each, {"kueue.x-k8s.io/role-hash": "22222222", RACK_NOTE: "rack"}, {"n": each}) for each in ("b", "c")]
    one, two = pod_sets(leader, *workers)
    assert (one.name, one.count, one.required_topology) == ("11111111", 1, None)
    assert (two.name, two.count, two.required_topology) == ("22222222", 2, "rack")
    assert one.labels == {"app": "train", "kueue.x-k8s.io/pod-group-name": "g"}
    assert two.labels == {"kueue.x-k8s.io/pod-group-name": "g"}


@pytest.mark.parametrize("role", [pytest.param({"kueue.x-k8s.io/role-hash": "main"}, id="told"), pytest.param({}, id="by spec")])
def test_pods_of_one_role_that_differ_are_refused_as_the_check_does(role: dict[str, str]) -> None:
    with pytest.raises(InputError, match=f'{RACK_NOTE} is "rack" on pod "a" but "zone" on pod "b", and Kueue counts both as one'):
        pod_sets(member("a", {RACK_NOTE: "rack", **role}), member("b", {RACK_NOTE: "zone", **role}))


def test_a_label_by_which_the_pods_of_a_role_are_selected_must_be_the_same() -> None:
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart: dict[str, Any] = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    with pytest.raises(InputError, match='label app is "x" on pod "a" but not set on pod "b"'):
        pod_sets(member("a", {}, {"app": "x"}, **apart), member("b", {}, **apart))


def test_nodes_of_no_pool_stand_by() -> None:
    pool = decode(
        {"metadata": {"name": "p"}, "spec": {"provider": {"adopted": {}}, "nodeSelector": {"matchLabels": {"a": "b"}}}},
        ours.CapacityPool,
    )
    machines = [
        decode({"metadata": {"name": name, "labels": labels}}, core.Node) for name, labels in (("n", {"a": "b"}), ("m", {}))
    ]
    pod = decode({"metadata": {"name": "x", "namespace": "team"}, "spec": {"nodeName": "m"}}, core.Pod)
    found = snapshot([pool], machines, [pod], now=0)
    assert [each.name for each in found.nodes] == ["n"]
    assert [(each.name, each.pods) for each in found.bystanders] == [("m", (Running("team", {}),))]
