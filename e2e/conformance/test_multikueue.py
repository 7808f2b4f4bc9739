"""Rows 3.6: our check on a worker's queue; the job is on a manager, a second control plane with Kueue and without Corral.

A third one is a worker, too, where two contend for the job.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Api
from e2e.cluster import KUEUE, Cluster, Json, eventually, holds, made
from e2e.conformance.places import assignment, kueues_check, node, with_topology
from e2e.conformance.scene import another, delete, say
from e2e.controlplane.cluster import ControlPlane
from e2e.stack import Stack
from kube import resources
from kube.resources import Kind

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
CONFIGS = Kind("kueue.x-k8s.io", "v1beta2", "multikueueconfigs", "MultiKueueConfig", False)
GPU = {"cpu": "1", "nvidia.com/gpu": "8"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("manager") / "plane") as started:
        yield started


@contextmanager
def beside(plane: ControlPlane, cluster: Cluster) -> Iterator[Cluster]:
    """A namespace of the same name on another control plane."""
    api = Api(plane.kubeconfig)
    found = Cluster(plane.kubectl, api, cluster.namespace)
    found.apply(made("v1", "Namespace", cluster.namespace))
    yield found
    found.clear()
    api.close()


@pytest.fixture
def manager(plane: ControlPlane, cluster: Cluster, kubeconfig: Path) -> Iterator[Cluster]:
    """A queue of the same name in a namespace of the same name, whose check hands all to the worker."""
    name = cluster.namespace
    quotas = [{"name": each, "nominalQuota": 100} for each in GPU]
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(GPU), "flavors": [{"name": name, "resources": quotas}]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
    }
    with beside(plane, cluster) as found:
        add_worker(found, name, kubeconfig)
        found.apply(
            made(KUEUE, "MultiKueueConfig", name, spec={"clusters": [name]}),
            made(KUEUE, "AdmissionCheck", name, spec={"controllerName": MULTIKUEUE, "parameters": parameters}),
            made(KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {"pool": name}}),
            made(KUEUE, "ClusterQueue", name, spec=queue),
            made(KUEUE, "LocalQueue", "queue", name, spec={"clusterQueue": name}),
        )
        eventually(lambda: found.active().get("status") == "True")
        yield found


def add_worker(manager: Cluster, name: str, kubeconfig: Path) -> None:
    source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
    manager.apply(
        made("v1", "Secret", name, "kueue-system", data={"kubeconfig": portable(kubeconfig)}),
        made(KUEUE, "MultiKueueCluster", name, spec={"clusterSource": source}),
    )


def portable(kubeconfig: Path) -> str:
    """For a Secret: Kueue takes no files for what a kubeconfig can hold itself."""
    config = json.loads(kubeconfig.read_text())
    target = config["clusters"][0]["cluster"]
    target["certificate-authority-data"] = base64.b64encode(Path(target.pop("certificate-authority")).read_bytes()).decode()
    return base64.b64encode(json.dumps(config).encode()).decode()


@pytest.fixture
def rival(cluster: Cluster, manager: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Another worker of the manager, with Corral and a queue of the same name."""
    with ControlPlane(tmp_path / "plane") as plane:
        Stack(plane, tmp_path / "installed", {}).install()
        with another(plane.kubeconfig, tmp_path), beside(plane, cluster) as found:
            found.queue()
            name = f"{cluster.namespace}-b"
            add_worker(manager, name, plane.kubeconfig)
            manager.apply(made(KUEUE, "MultiKueueConfig", cluster.namespace, spec={"clusters": [cluster.namespace, name]}))
            yield found


def submit(manager: Cluster, pods: int = 4) -> None:
    job: Json = made("batch/v1", "Job", "job", manager.namespace)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    containers = [{"name": "main", "image": "x", "resources": {"limits": GPU}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    manager.apply({**job, "spec": {"managedBy": MULTIKUEUE, "parallelism": pods, "completions": pods, "template": template}})


@pytest.mark.row("3.6-01")
def test_the_copy_on_the_worker_gets_its_capacity(cluster: Cluster, manager: Cluster) -> None:
    cluster.queue()
    submit(manager)
    request = cluster.request()
    assert not manager.is_true("Admitted")
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted") and manager.is_true("Admitted"))
    assert cluster.workload()["metadata"]["name"] == manager.workload()["metadata"]["name"]


@pytest.mark.row("3.6-02", "3.4-19")
def test_of_two_copies_the_one_that_is_admitted_stays(cluster: Cluster, manager: Cluster, rival: Cluster) -> None:
    """Each worker's check asks for itself. What is asked for on the other one goes with the copy there."""
    cluster.queue()
    submit(manager)
    request, lost = cluster.request(), rival.request()
    assert request["metadata"]["uid"] != lost["metadata"]["uid"]
    holds(lambda: bool(rival.workload()) and not manager.is_true("Admitted"), 1)
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted") and manager.is_true("Admitted"))
    eventually(lambda: not rival.workload() and not rival.requests())
    assert [each["metadata"]["uid"] for each in cluster.requests()] == [request["metadata"]["uid"]]


@pytest.mark.row("3.6-03")
def test_a_copy_is_placed_once_there_are_nodes(cluster: Cluster, manager: Cluster) -> None:
    """Kueue's own check on the worker, with our class. The request is Provisioned before there is a node."""
    kueues_check(cluster)
    with_topology(manager)
    submit(manager, pods=1)
    [request] = eventually(cluster.requests)
    cluster.provision(request)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    holds(lambda: not cluster.is_true("Admitted") and not manager.is_true("Admitted"), 1)
    with node(cluster) as there:
        eventually(lambda: cluster.is_true("Admitted") and manager.is_true("Admitted"))
        assert there in json.dumps(assignment(cluster)["topologyAssignment"])
        eventually(lambda: assignment(manager).get("delayedTopologyRequest") == "Ready")


@pytest.mark.row("3.4-18", "3.4-20")
def test_without_clusters_nothing_reaches_a_worker(cluster: Cluster, manager: Cluster) -> None:
    """The manager's config is gone, then is to be made without clusters, which no API server takes."""
    cluster.queue()
    delete(manager, CONFIGS, manager.namespace)
    eventually(lambda: manager.active()["status"] == "False")
    submit(manager)
    holds(lambda: not cluster.workload() and not cluster.requests(), 1)
    with pytest.raises(LookupError, match="clusters"):
        manager.apply(made(KUEUE, "MultiKueueConfig", manager.namespace, spec={"clusters": []}))
    manager.kubectl("delete", "job", "job", "-n", manager.namespace)
    eventually(lambda: not manager.workload())
    manager.apply(made(KUEUE, "MultiKueueConfig", manager.namespace, spec={"clusters": [manager.namespace]}))
    eventually(lambda: manager.active()["status"] == "True")
    submit(manager)
    cluster.provision(cluster.request())
    eventually(lambda: cluster.is_true("Admitted") and manager.is_true("Admitted"))


@pytest.mark.row("3.6-04")
def test_a_copy_that_the_manager_takes_back_needs_nothing(cluster: Cluster, manager: Cluster) -> None:
    cluster.queue()
    submit(manager)
    cluster.request()
    assert cluster.is_true("QuotaReserved")
    say(manager, manager.namespace, "Rejected")
    eventually(lambda: not cluster.workload() and not cluster.requests())
    eventually(lambda: not cluster.get(resources.POD_TEMPLATES)["items"])
