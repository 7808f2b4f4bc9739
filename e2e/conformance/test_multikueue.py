"""Rows 3.6: our check on a worker's queue; the job is on a manager, a second control plane with Kueue and without Corral."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Api
from e2e.cluster import KUEUE, Cluster, Json, eventually, made
from e2e.conformance.scene import say
from e2e.controlplane.cluster import ControlPlane
from kube import resources

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
GPU = {"cpu": "1", "nvidia.com/gpu": "8"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("manager") / "plane") as started:
        yield started


@pytest.fixture
def manager(plane: ControlPlane, cluster: Cluster, kubeconfig: Path) -> Iterator[Cluster]:
    """A queue of the same name in a namespace of the same name, whose check hands all to the worker."""
    api, name = Api(plane.kubeconfig), cluster.namespace
    found = Cluster(plane.kubectl, api, name)
    found.apply(made("v1", "Namespace", name))
    secret = made("v1", "Secret", name, "kueue-system", data={"kubeconfig": portable(kubeconfig)})
    quotas = [{"name": each, "nominalQuota": 100} for each in GPU]
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": list(GPU), "flavors": [{"name": name, "resources": quotas}]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
    }
    source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
    found.apply(
        secret,
        made(KUEUE, "MultiKueueCluster", name, spec={"clusterSource": source}),
        made(KUEUE, "MultiKueueConfig", name, spec={"clusters": [name]}),
        made(KUEUE, "AdmissionCheck", name, spec={"controllerName": MULTIKUEUE, "parameters": parameters}),
        made(KUEUE, "ResourceFlavor", name, spec={}),
        made(KUEUE, "ClusterQueue", name, spec=queue),
        made(KUEUE, "LocalQueue", "queue", name, spec={"clusterQueue": name}),
    )
    eventually(lambda: found.active().get("status") == "True", 60)
    yield found
    api.close()


def portable(kubeconfig: Path) -> str:
    """For a Secret: Kueue takes no files for what a kubeconfig can hold itself."""
    config = json.loads(kubeconfig.read_text())
    target = config["clusters"][0]["cluster"]
    target["certificate-authority-data"] = base64.b64encode(Path(target.pop("certificate-authority")).read_bytes()).decode()
    return base64.b64encode(json.dumps(config).encode()).decode()


def submit(manager: Cluster) -> None:
    job: Json = made("batch/v1", "Job", "job", manager.namespace)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
    containers = [{"name": "main", "image": "x", "resources": {"limits": GPU}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    manager.apply({**job, "spec": {"managedBy": MULTIKUEUE, "parallelism": 4, "completions": 4, "template": template}})


@pytest.mark.row("3.6-01")
def test_the_copy_on_the_worker_gets_its_capacity(cluster: Cluster, manager: Cluster) -> None:
    cluster.queue()
    submit(manager)
    request = cluster.request()
    assert not manager.is_true("Admitted")
    cluster.provision(request)
    eventually(lambda: cluster.is_true("Admitted") and manager.is_true("Admitted"))
    assert cluster.workload()["metadata"]["name"] == manager.workload()["metadata"]["name"]


@pytest.mark.row("3.6-04")
def test_a_copy_that_the_manager_takes_back_needs_nothing(cluster: Cluster, manager: Cluster) -> None:
    cluster.queue()
    submit(manager)
    cluster.request()
    assert cluster.is_true("QuotaReserved")
    say(manager, manager.namespace, "Rejected")
    eventually(lambda: not cluster.workload() and not cluster.requests())
    eventually(lambda: not cluster.get(resources.POD_TEMPLATES)["items"])
