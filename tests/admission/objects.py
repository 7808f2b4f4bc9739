"""Small Kubernetes objects for the tests of admission."""

from typing import Any

from kube.autoscaling import ProvisioningRequest
from kube.kueue import AdmissionCheck, ClusterQueue, ProvisioningRequestConfig, ResourceFlavor, Workload
from kube.meta import decode
from kube.ours import CapacityPolicy

Json = dict[str, Any]
UID = "5f0c3c5e-58a4-4f0e-9a3b-0d6f2f7f9c11"
RESERVED_AT = "2026-09-01T11:59:00Z"


def pod_set(name: str = "main", count: int = 4, *, template: Json | None = None, topology: Json | None = None) -> Json:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "1"}}}
    made = {"name": name, "count": count, "template": template or {"spec": {"containers": [container]}}}
    return made | ({"topologyRequest": topology} if topology else {})


def assignment(name: str = "main", flavor: str = "h100", **more: Any) -> Json:
    return {"name": name, "flavors": {"cpu": flavor, "nvidia.com/gpu": flavor}, **more}


def entry(name: str = "capacity", state: str = "Pending", **more: Any) -> Json:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": RESERVED_AT, **more}


def condition(kind: str, status: str = "True", since: str = RESERVED_AT) -> Json:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": since}


def workload(
    *pod_sets: Json,
    assignments: list[Json] | None = None,
    checks: list[Json] | None = None,
    conditions: list[Json] | None = None,
    annotations: dict[str, str] | None = None,
    name: str = "job-llm-12345",
    uid: str = UID,
    **spec: Any,
) -> Workload:
    given = list(pod_sets) or [pod_set()]
    admitted = [assignment(each["name"]) for each in given] if assignments is None else assignments
    raw = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid,
            "resourceVersion": "7",
            "creationTimestamp": "2026-09-01T11:58:00Z",
            "annotations": annotations or {},
        },
        "spec": {"podSets": given, **spec},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": admitted},
            "admissionChecks": [entry()] if checks is None else checks,
            "conditions": [condition("QuotaReserved")] if conditions is None else conditions,
        },
    }
    return decode(raw, Workload)


def flavor(name: str = "h100", labels: dict[str, str] | None = None, tolerations: list[Json] | None = None) -> ResourceFlavor:
    return decode(
        {"metadata": {"name": name}, "spec": {"nodeLabels": labels or {}, "tolerations": tolerations or []}}, ResourceFlavor
    )


def check(
    name: str = "capacity", controller: str = "corral.dev/capacity", parameters: Json | None = None, **status: Any
) -> AdmissionCheck:
    reference = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": "training"} if parameters is None else parameters
    spec = {"controllerName": controller} | ({"parameters": reference} if reference else {})
    return decode(
        {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 3}, "spec": spec, "status": status}, AdmissionCheck
    )


def policy(name: str = "training", **retry: Any) -> CapacityPolicy:
    return decode({"metadata": {"name": name}, "spec": {"retry": retry}}, CapacityPolicy)


def config(name: str = "cfg", **spec: Any) -> ProvisioningRequestConfig:
    return decode({"metadata": {"name": name}, "spec": spec}, ProvisioningRequestConfig)


def queue(name: str = "cq", on_flavors: tuple[str, ...] = (), checks: tuple[str, ...] = ("capacity",)) -> ClusterQueue:
    rules = [{"name": each, "onFlavors": list(on_flavors)} for each in checks]
    return decode({"metadata": {"name": name}, "spec": {"admissionChecksStrategy": {"admissionChecks": rules}}}, ClusterQueue)


def stored(raw: Json, uid: str = "uid-request", **status: Any) -> ProvisioningRequest:
    """A written request as the API server would give it back."""
    meta = {**raw["metadata"], "uid": uid, "creationTimestamp": "2026-09-01T12:00:00Z", "resourceVersion": "9"}
    return decode({**raw, "metadata": meta, "status": status}, ProvisioningRequest)
