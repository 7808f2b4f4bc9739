"""One namespace with a queue whose check is Corral's, where a test plays the provisioner: it writes the status of requests."""

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from e2e.api import Api, path
from kube import resources
from kube.resources import Kind

Kubectl = Callable[..., str]
Json = dict[str, Any]
T = TypeVar("T")

KUEUE = "kueue.x-k8s.io/v1beta2"
BOOKING = "wl-0123456789"
LABEL = f"{BOOKING}.booking.corral.dev/main"
OWN_KINDS = (  # cluster-scoped objects that bear the namespace's name
    resources.CLUSTER_QUEUES,
    resources.ADMISSION_CHECKS,
    resources.RESOURCE_FLAVORS,
    resources.CAPACITY_POLICIES,
    resources.PROVISIONING_REQUEST_CONFIGS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.TOPOLOGIES,
)


class Cluster:
    """One namespace with a queue whose check is ours; all cluster-scoped objects bear the namespace's name."""

    def __init__(self, kubectl: Kubectl, api: Api, namespace: str) -> None:
        self.kubectl, self.api, self.namespace = kubectl, api, namespace

    def clear(self) -> None:
        """Asks for the end of the cluster-scoped objects."""
        for kind in OWN_KINDS:
            self.api.call("DELETE", path(kind, name=self.namespace))

    # --- set up

    def apply(self, *objects: Json) -> None:
        """Server-side, one after the other. Raises LookupError with the server's words."""
        for each in objects:
            self.api.apply(each)

    def policy(self, **spec: Any) -> None:
        self.apply(made("corral.dev/v1alpha1", "CapacityPolicy", self.namespace, spec=spec))

    def queue(
        self, *, controller: str = "corral.dev/capacity", parameters: Json | None = None, quota: int = 64, **policy: Any
    ) -> None:
        name = self.namespace
        self.policy(**policy)
        reference = parameters or {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": name}
        quotas = [{"name": "cpu", "nominalQuota": 100}, {"name": "nvidia.com/gpu", "nominalQuota": quota}]
        groups = [{"coveredResources": [q["name"] for q in quotas], "flavors": [{"name": name, "resources": quotas}]}]
        spec = {
            "namespaceSelector": {},
            "resourceGroups": groups,
            "admissionChecksStrategy": {"admissionChecks": [{"name": name}]},
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        taint = {"key": "flavor", "operator": "Exists"}
        self.apply(
            made(KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {"pool": name}, "tolerations": [taint]}),
            made(KUEUE, "AdmissionCheck", name, spec={"controllerName": controller, "parameters": reference}),
            made(KUEUE, "ClusterQueue", name, spec=spec),
            made(KUEUE, "LocalQueue", "queue", self.namespace, spec={"clusterQueue": name}),
        )

    def job(
        self,
        name: str = "job",
        pods: int = 4,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **pod: Any,
    ) -> None:
        """`pod` are further fields of the pods' spec."""
        resources = {"cpu": "1", "nvidia.com/gpu": "8"}
        containers = [{"name": "main", "image": "x", "resources": {"limits": resources}}]
        template = {
            "metadata": {"annotations": {"e2e.corral.dev/run-seconds": "600"}},
            "spec": {"restartPolicy": "Never", "containers": containers, **pod},
        }
        item = made("batch/v1", "Job", name, self.namespace)
        marks = {"kueue.x-k8s.io/queue-name": "queue", **(labels or {})}
        item["metadata"] |= {"labels": marks, "annotations": annotations or {}}
        self.apply({**item, "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}})

    def node(self, name: str) -> None:
        amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
        labels = {"kubernetes.io/hostname": name, "pool": self.namespace, LABEL: "true"}
        item = made("v1", "Node", name)
        item["metadata"] |= {"annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": labels}
        taints = [{"key": "corral.dev/booked", "effect": "NoSchedule"}]
        item |= {"spec": {"taints": taints}, "status": {"allocatable": amounts, "capacity": amounts}}
        self.kubectl("create", "--filename=-", stdin=json.dumps(item))

    # --- look

    def get(self, kind: Kind, name: str = "") -> Json:
        """One object, or without a name the list of a kind. Raises LookupError when it is not there."""
        return self.api.get(kind, self.namespace, name)

    def workload(self) -> Json:
        """The only one; {} while there is none."""
        items = self.get(resources.WORKLOADS)["items"]
        assert len(items) < 2
        return items[0] if items else {}

    def entry(self) -> Json:
        return next((e for e in status_of(self.workload()).get("admissionChecks") or () if e["name"] == self.namespace), {})

    def requests(self) -> list[Json]:
        return [
            each for each in self.get(resources.PROVISIONING_REQUESTS)["items"] if "deletionTimestamp" not in each["metadata"]
        ]

    def request(self, attempt: int = 1) -> Json:
        """The only request, once it is there and of this attempt."""

        def found() -> Json | None:
            items = self.requests()
            marks = [each["metadata"]["annotations"]["corral.dev/attempt"] for each in items]
            return items[0] if marks == [str(attempt)] else None

        return eventually(found)

    def condition(self, type_: str) -> Json:
        return next((c for c in status_of(self.workload()).get("conditions") or () if c["type"] == type_), {})

    def is_true(self, type_: str) -> bool:
        return bool(self.condition(type_).get("status") == "True")

    def active(self) -> Json:
        """The condition Active of the check."""
        conditions = status_of(self.get(resources.ADMISSION_CHECKS, self.namespace)).get("conditions") or ()
        return next((c for c in conditions if c["type"] == "Active"), {})

    def events(self) -> dict[str, str]:
        """Note by reason of the events about Workloads."""
        items = self.get(resources.EVENTS)["items"]
        return {each["reason"]: each["note"] for each in items if each["regarding"]["kind"] == "Workload"}

    def told(self, reason: str, words: str) -> None:
        """Waits until an event about a Workload says so: events go out beside the work, and may come after what they tell of."""

        def found() -> bool:
            said = (each for each in self.get(resources.EVENTS)["items"] if each["regarding"]["kind"] == "Workload")
            return any(each["reason"] == reason and words in each["note"] for each in said)

        eventually(found)

    # --- play the provisioner

    def answer(
        self, request: Json, type_: str, *, status: str = "True", reason: str = "", message: str = "", booking: str = ""
    ) -> None:
        name = request["metadata"]["name"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {"type": type_, "status": status, "reason": reason or type_, "message": message, "lastTransitionTime": now}
        before = status_of(self.get(resources.PROVISIONING_REQUESTS, name)).get("conditions") or ()
        present = [each for each in before if each["type"] != type_]
        change: Json = {"conditions": [*present, condition]}
        if booking:
            change["provisioningClassDetails"] = {"Booking": booking, "NodesByPodSet": '{"main":4}', "CostPerHour": "0"}
        self.api.merge(resources.PROVISIONING_REQUESTS, self.namespace, name, {"status": change}, subresource="status")

    def provision(self, request: Json) -> None:
        self.answer(request, "Accepted")
        self.answer(request, "Provisioned", message="4 nodes in rack r1", booking=BOOKING)

    def admitted(self) -> Json:
        """A job of which everything is provisioned, admitted."""
        self.job()
        request = self.request()
        self.provision(request)
        eventually(lambda: self.is_true("Admitted"))
        return request


def made(api_version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Json:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **parts}


def status_of(found: Json) -> Json:
    return found.get("status") or {}


def eventually(check: Callable[[], T | None], seconds: float = 60.0) -> T:
    """What `check` gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "didn't come true in time"
        time.sleep(0.2)
    return found


def holds(check: Callable[[], bool], seconds: float = 3.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check()
        time.sleep(0.3)
