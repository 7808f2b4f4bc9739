"""What the tests of several sections set up: several checks, Workloads made by hand, entries written as others would."""

import time
from typing import Any

from e2e.cluster import KUEUE, Cluster, Json, eventually, made, status_of
from kube import resources

FOREIGN = "example.com/other"


def conditions(cluster: Cluster, check: str) -> list[Json]:
    """Of an AdmissionCheck."""
    found: list[Json] = status_of(cluster.get(resources.ADMISSION_CHECKS, check)).get("conditions") or []
    return found


def foreign_check(cluster: Cluster, suffix: str = "other", *, active: bool = True) -> str:
    """The name of a new AdmissionCheck of a controller that is not there; the test plays it."""
    name = f"{cluster.namespace}-{suffix}"
    cluster.apply(made(KUEUE, "AdmissionCheck", name, spec={"controllerName": FOREIGN}))
    if active:
        activate(cluster, name)
    return name


def activate(cluster: Cluster, check: str, status: str = "True") -> None:
    """As the check's own controller does."""
    condition = {"type": "Active", "status": status, "reason": "Test", "message": "by the test", "lastTransitionTime": now()}
    cluster.api.merge(resources.ADMISSION_CHECKS, "", check, {"status": {"conditions": [condition]}}, subresource="status")


def with_checks(cluster: Cluster, *checks: Json | str) -> None:
    """Gives the queue these checks and no others."""
    rules = [{"name": each} if isinstance(each, str) else each for each in checks]
    spec = {"admissionChecksStrategy": {"admissionChecks": rules}}
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": spec})


def states(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """State and message of all entries of the only Workload, by check."""
    entries = status_of(cluster.workload()).get("admissionChecks") or ()
    return {each["name"]: (each["state"], each["message"]) for each in entries}


def say(cluster: Cluster, check: str, state: str, message: str = "by the test", **more: Any) -> None:
    """Writes one entry of the only Workload and leaves the others as they are, as another check's controller would."""
    workload = eventually(cluster.workload)
    entry = {"name": check, "state": state, "message": message, "lastTransitionTime": now(), **more}
    kept = [each for each in status_of(workload).get("admissionChecks") or () if each["name"] != check]
    patch = {
        "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
        "status": {"admissionChecks": [*kept, entry]},
    }
    cluster.api.merge(resources.WORKLOADS, cluster.namespace, workload["metadata"]["name"], patch, subresource="status")


def by_hand(cluster: Cluster, *pod_sets: Json, name: str = "by-hand", annotations: dict[str, str] | None = None) -> None:
    """A Workload that no job stands behind."""
    item = made(KUEUE, "Workload", name, cluster.namespace, spec={"queueName": "queue", "podSets": list(pod_sets)})
    item["metadata"]["annotations"] = annotations or {}
    cluster.apply(item)


def pod_set(name: str = "main", count: int = 2, gpus: int = 8, **spec: Any) -> Json:
    """One pod set of pods with one container; no devices when `gpus` is 0."""
    amounts = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    containers = [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    return {"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
