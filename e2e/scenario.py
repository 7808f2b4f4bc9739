"""A corner of the cluster for one test: its own instance type in the cloud, its own pools, policy, queue and namespace."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from e2e.api import Api, path
from e2e.controlplane.cluster import ControlPlaneError
from e2e.stack import Stack
from kube import resources

T = TypeVar("T")

RACK = "topology.corral.dev/rack"
SHAPES = tuple(f"gpu8-{number}" for number in range(1, 65))
PATIENCE = 60.0
_KINDS = {
    "admissioncheck": resources.ADMISSION_CHECKS,
    "booking": resources.BOOKINGS,
    "clusterqueue": resources.CLUSTER_QUEUES,
    "cpolicy": resources.CAPACITY_POLICIES,
    "cpool": resources.CAPACITY_POOLS,
    "node": resources.NODES,
    "pod": resources.PODS,
    "provreq": resources.PROVISIONING_REQUESTS,
    "workload": resources.WORKLOADS,
}
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def cloud() -> dict[str, Any]:
    """For each shape: two reserved racks of two machines in zone east, and on-demand stock of four in west and two in north."""
    room = {"cpu": "96", "memory": "1000Gi", "ephemeral-storage": "400Gi", "pods": "110"}
    labels = {"nvidia.com/gpu.present": "true"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    return {
        "kind": "SimulatedCloud",
        "shapes": [
            {
                "name": shape,
                "allocatable": room,
                "devices": {"nvidia.com/gpu": 8},
                "labels": labels,
                "taints": [taint],
                "pricePerHour": "10",
            }
            for shape in SHAPES
        ],
        "zones": [
            {"name": "east", "racks": [{"name": f"{s}-{side}", "slots": {s: 2}} for s in SHAPES for side in "ab"]},
            {"name": "west", "onDemand": [{"shape": shape, "count": 4} for shape in SHAPES]},
            {"name": "north", "onDemand": [{"shape": shape, "count": 2} for shape in SHAPES]},
        ],
        "reservations": [
            {"id": f"cr-{shape}", "shape": shape, "zone": "east", "racks": {f"{shape}-a": 2, f"{shape}-b": 2}} for shape in SHAPES
        ],
        "delays": {"launch": "500ms", "join": "500ms", "devices": "500ms", "terminate": "500ms"},
    }


class Scenario:
    """Names are unique to the test; `shape` is an instance type that no other test uses."""

    def __init__(self, stack: Stack, namespace: str, shape: str) -> None:
        self.stack, self.namespace, self.shape = stack, namespace, shape
        self.name = f"s-{namespace}"
        self.reservation = f"cr-{shape}"
        self.api = Api(stack.plane.kubeconfig)  # asked ten times a second: a kubectl each time would keep the machine busy

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.stack.plane.kubectl(*args, stdin=stdin)

    def queue(self) -> dict[str, Any]:
        quotas = {"cpu": "10000", "memory": "100Ti", "nvidia.com/gpu": "10000"}
        resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
        group = {"coveredResources": [*quotas], "flavors": [{"name": self.name, "resources": resources}]}
        strategy = {"admissionChecks": [{"name": self.name}]}
        return {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": strategy}

    # --- objects ----------------------------------------------------------------------------------------------------------

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Server-side apply. Raises LookupError with the API server's words."""
        self.api.apply(manifest)

    def set_up(
        self,
        *,
        pool: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        sources: tuple[str | Mapping[str, Any], ...] = ("reserved", "on-demand"),
    ) -> None:
        """Pool, policy, flavor, check and queues, and waits until the queue is active. `sources` are the pool's: by
        name, or as they are."""
        self.apply_pool(sources=sources, **(pool or {}))
        self.apply_policy(**(policy or {}))
        check = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": self.name}
        self.apply(_kueue("AdmissionCheck", self.name, {"controllerName": "corral.dev/capacity", "parameters": check}))
        self.apply(_kueue("ResourceFlavor", self.name, {"tolerations": [_TOLERATION]}))
        self.apply(_kueue("ClusterQueue", self.name, self.queue()))
        self.apply(
            {**_kueue("LocalQueue", "q", {"clusterQueue": self.name}), "metadata": {"name": "q", "namespace": self.namespace}}
        )
        self.await_queue()

    def await_queue(self) -> None:
        until(lambda: is_true(self.get("clusterqueue", self.name), "Active"), seconds=30, what="the queue is active")

    def apply_pool(self, *, sources: tuple[str | Mapping[str, Any], ...], **spec: Any) -> None:
        scale_in = {"policy": "WhenIdle", "after": "1s"}
        known = {
            "reserved": {
                "name": "reserved",
                "capacityType": "reserved",
                "reservationIDs": [self.reservation],
                "scaleIn": scale_in,
            },
            "on-demand": {"name": "od", "capacityType": "on-demand", "scaleIn": scale_in},
        }
        base = {
            "mode": "Active",
            "provider": {"simulated": {"endpoint": self.stack.cloud.endpoint}},
            "shapes": [self.shape],
            "topologyKeys": ["topology.kubernetes.io/zone", RACK],
            "sources": [known[source] if isinstance(source, str) else source for source in sources],
            "readiness": {"timeout": "20s", "requiredDaemonSets": ["kube-system/nvidia-device-plugin"]},
        }
        self.apply(_ours("CapacityPool", self.name, {**base, **spec}))

    def adopt(self, *names: str) -> None:
        """Machines that are there already, selected by the test's pool."""
        room = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": "8"}
        for name in names:
            labels = {"kubernetes.io/hostname": name, "corner": self.name, "node.kubernetes.io/instance-type": self.shape}
            notes = {"kwok.x-k8s.io/node": "fake"}
            meta = {"name": name, "labels": labels, "annotations": notes}
            self.apply({**_object("v1", "Node", meta, {}), "status": {"allocatable": room, "capacity": room}})

    def apply_policy(self, **spec: Any) -> None:
        base = {
            "pools": [self.name],
            "timeouts": {"queued": "30s", "provision": "60s", "booking": "30s"},
            "retry": {"limit": 1, "backoff": "1s"},
        }
        self.apply(_ours("CapacityPolicy", self.name, {**base, **spec}))

    def job(
        self,
        name: str,
        count: int,
        *,
        rack: bool = False,
        seconds: int = 600,
        labels: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
        **template: Any,
    ) -> None:
        """A Job of `count` pods of a whole machine each; `rack`: all in one; pods run for `seconds`, `notes` annotate them."""
        level = {"corral.dev/required-topology": RACK} if rack else {}
        annotations = {"e2e.corral.dev/run-seconds": str(seconds), **level, **(notes or {})}
        spec = {
            "parallelism": count,
            "completions": count,
            "template": {"metadata": {"annotations": annotations}, "spec": {**self.pod_spec(), **template}},
        }
        meta = {"name": name, "namespace": self.namespace, "labels": {"kueue.x-k8s.io/queue-name": "q", **(labels or {})}}
        made = _object("batch/v1", "Job", meta, {**spec, "backoffLimit": 0})
        answer = self.api.call("POST", path(resources.JOBS, self.namespace), made)
        assert answer.accepted, answer.body

    def pod_spec(self, gpus: int = 8) -> dict[str, Any]:
        """A pod that fills a machine of the test's shape, or as many of its eight GPUs as named."""
        requests = {"cpu": "32", "memory": "100Gi", "nvidia.com/gpu": str(gpus)}
        container = {"name": "c", "image": "c", "resources": {"requests": requests, "limits": {"nvidia.com/gpu": str(gpus)}}}
        return {"restartPolicy": "Never", "containers": [container]}

    def pod(self, name: str, *, node: str = "", **spec: Any) -> None:
        """A pod outside Kueue that asks for a whole machine of the shape. With `node` it is bound there, whatever taints say:
        a scheduler may have done so before there were any.
        """
        selector = {"node.kubernetes.io/instance-type": self.shape}
        base = {**self.pod_spec(), "nodeSelector": selector, "tolerations": [_TOLERATION]}
        held = {"schedulerName": "the-test"} if node else {}
        self.apply(_object("v1", "Pod", {"name": name, "namespace": self.namespace}, {**base, **held, **spec}))
        if node:
            self.bind(name, node)

    def bind(self, pod: str, node: str) -> None:
        """As a scheduler would that looks at nothing."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        answer = self.api.call("POST", path(resources.PODS, self.namespace, pod) + "/binding", body)
        assert answer.accepted, answer.body

    def clear(self) -> None:
        """Ends what the test left running, and sees to it that nothing new is bought for it."""
        for kind in (resources.JOBS, resources.PODS):
            self.api.call("DELETE", path(kind, self.namespace), propagationPolicy="Background")
        with contextlib.suppress(LookupError):  # some tests make no pool
            self.api.merge(resources.CAPACITY_POOLS, "", self.name, {"spec": {"mode": "Paused"}})
        self.api.close()

    # --- what is there ----------------------------------------------------------------------------------------------------

    def items(self, kind: str, **query: str) -> list[dict[str, Any]]:
        """All of a kind, in the test's namespace if the kind has any; `query` are parameters of the list."""
        answer = self.api.call("GET", path(_KINDS[kind], self.namespace), **query)
        found: list[dict[str, Any]] = answer.body["items"]
        return found

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object. Raises LookupError while it is not there."""
        return self.api.get(_KINDS[kind], self.namespace, name)

    def events(self, kind: str, name: str) -> list[dict[str, Any]]:
        """Of an object, whose kind is in its full name ("CapacityPool"), whatever namespace they are in."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        found: list[dict[str, Any]] = self.api.call("GET", "/api/v1/events", fieldSelector=selector).body["items"]
        return found

    def workload(self, job: str) -> dict[str, Any]:
        """The Workload of a Job. Raises LookupError while Kueue has made none."""
        for item in self.items("workload"):
            if any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", [])):
                return item
        raise LookupError(f"no Workload for job {job}")

    def requests(self) -> list[dict[str, Any]]:
        return sorted(self.items("provreq"), key=lambda item: item["metadata"]["creationTimestamp"])

    def bookings(self) -> list[dict[str, Any]]:
        return [b for b in self.items("booking") if b["spec"]["request"]["namespace"] == self.namespace]

    def pods(self, job: str) -> list[dict[str, Any]]:
        return [p for p in self.items("pod") if p["metadata"].get("labels", {}).get("batch.kubernetes.io/job-name") == job]

    def bound(self, job: str) -> list[str]:
        """The nodes of the job's pods that are bound."""
        return [pod["spec"]["nodeName"] for pod in self.pods(job) if "nodeName" in pod["spec"]]

    def machines(self) -> list[dict[str, Any]]:
        """All machines of the test's shape that there ever were."""
        return [machine for machine in self.stack.cloud.machines().values() if machine["shape"] == self.shape]

    def alive(self) -> list[dict[str, Any]]:
        return [machine for machine in self.machines() if machine["state"] in ("pending", "running")]

    def node(self, name: str) -> dict[str, Any]:
        return self.get("node", name)

    def outside(self, racks: Mapping[str, int]) -> None:
        """Sets how many machines of the reservation others use, by rack side ("a", "b"), and waits until the pool has seen it."""
        used = {f"{self.shape}-{side}": count for side, count in racks.items()}
        self.stack.cloud.put("/control/reservations", {"id": self.reservation, "outside": used})
        until(lambda: self._outside_seen() == sum(racks.values()), what="the pool sees who uses the reservation")

    def _outside_seen(self) -> int:
        found: int = self.get("cpool", self.name)["status"]["reservations"][0]["outside"]
        return found


def until(check: Callable[[], T], *, seconds: float = PATIENCE, what: str = "") -> T:
    """The first true answer of `check`, asked ten times a second. Raises AssertionError with the last answer or error."""
    end = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < end:
        try:
            if answer := check():
                return answer
            last = answer
        except (LookupError, ControlPlaneError) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:.0f} s: {what or check}; last: {last!r}")


def condition(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A condition of the object; {} when it has none of that type."""
    conditions: Iterator[dict[str, Any]] = iter(item.get("status", {}).get("conditions", []))
    return next((each for each in conditions if each["type"] == kind), {})


def is_true(item: Mapping[str, Any], kind: str) -> bool:
    return condition(item, kind).get("status") == "True"


def _object(version: str, kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": dict(metadata), "spec": dict(spec)}


def _kueue(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return _object("kueue.x-k8s.io/v1beta2", kind, {"name": name}, spec)


def _ours(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return _object("corral.dev/v1alpha1", kind, {"name": name}, spec)
