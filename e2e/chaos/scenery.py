"""The objects of a run: the cloud's hardware, pool, policies and queues, and the gangs as a user writes them."""

from collections.abc import Iterator, Mapping
from typing import Any

from e2e.chaos.schedule import Gang, Queue
from e2e.kueue_check import made
from e2e.stack import NAMESPACE as SERVICES

Json = dict[str, Any]

SHAPE, RESERVATION, POOL, NAMESPACE = "gpu8", "cr-chaos", "chaos", "chaos"
GANG = "chaos.corral.dev/gang"
"""Label of all that belongs to a gang; its value is the gang's name."""
CHECK = "burn-in"
"""PodTemplate of the pool's health check, in the services' namespace."""
RACK = "topology.corral.dev/rack"
GPU = "nvidia.com/gpu"
_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
_SOURCES: Mapping[Queue, list[str]] = {
    "reserved": ["reserved"],
    "on-demand": ["on-demand"],
    "any": ["reserved", "on-demand"],
    "hopeless": ["reserved", "on-demand"],
}
_PATIENT = {
    "timeouts": {"queued": "20m", "provision": "5m", "booking": "4m"},
    "retry": {"limit": 50, "backoff": "2s", "maxBackoff": "5s"},
}
_BRIEF = {"timeouts": {"queued": "15s", "provision": "60s", "booking": "60s"}, "retry": {"limit": 1, "backoff": "2s"}}


def cloud(kubeconfigs: Mapping[str, str]) -> Json:
    """East has a reservation of four in two racks and on-demand machines beside it, west on-demand machines alone. `kubeconfigs`
    are of the clusters of other installations.
    """
    room = {"cpu": "96", "memory": "1000Gi", "ephemeral-storage": "400Gi", "pods": "110"}
    shape = {
        "name": SHAPE,
        "allocatable": room,
        "devices": {GPU: 8},
        "labels": {"nvidia.com/gpu.present": "true"},
        "taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}],
        "pricePerHour": "10",
    }
    east = {
        "name": "east",
        "racks": [{"name": rack, "slots": {SHAPE: 5}} for rack in "ab"],
        "onDemand": [{"shape": SHAPE, "count": 6}],
    }
    west = {"name": "west", "onDemand": [{"shape": SHAPE, "count": 14}]}
    held = {"id": RESERVATION, "shape": SHAPE, "zone": "east", "racks": {"a": 2, "b": 2}}
    delays = {"launch": "500ms", "join": "500ms", "devices": "500ms", "terminate": "500ms"}
    return {
        "kind": "SimulatedCloud",
        "shapes": [shape],
        "zones": [east, west],
        "reservations": [held],
        "delays": delays,
        "kubeconfigs": dict(kubeconfigs),
    }


def house(endpoint: str) -> Iterator[Json]:
    """Pool, policies, checks and queues. `endpoint` is the cloud's."""
    yield _object("v1", "Namespace", NAMESPACE)
    yield burn_in()
    scale_in = {"policy": "WhenIdle", "after": "3s"}
    sources = [
        {"name": "reserved", "capacityType": "reserved", "reservationIDs": [RESERVATION], "scaleIn": scale_in},
        {"name": "od", "capacityType": "on-demand", "scaleIn": scale_in},
    ]
    pool = {
        "mode": "Active",
        "provider": {"simulated": {"endpoint": endpoint}},
        "shapes": [SHAPE],
        "topologyKeys": ["topology.kubernetes.io/zone", RACK],
        "sources": sources,
        "readiness": {
            "timeout": "40s",
            "requiredDaemonSets": ["kube-system/nvidia-device-plugin"],
            "healthCheck": {"podTemplateRef": {"name": CHECK}, "timeout": "20s"},
        },
    }
    yield _object("corral.dev/v1alpha1", "CapacityPool", POOL, spec=pool)
    yield made("ResourceFlavor", "gpus", {"tolerations": [_TOLERATION]})
    for queue, order in _SOURCES.items():
        yield from _queue(queue, order)


def _queue(name: Queue, order: list[str]) -> Iterator[Json]:
    terms = _BRIEF if name == "hopeless" else _PATIENT
    yield _object("corral.dev/v1alpha1", "CapacityPolicy", name, spec={"pools": [POOL], "capacityOrder": order, **terms})
    check = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": name}
    yield made("AdmissionCheck", name, {"controllerName": "corral.dev/capacity", "parameters": check})
    amounts = {"cpu": "10000", "memory": "100Ti", GPU: "10000"}
    resources = [{"name": each, "nominalQuota": amount} for each, amount in amounts.items()]
    group = {"coveredResources": [*amounts], "flavors": [{"name": "gpus", "resources": resources}]}
    checks = {"admissionChecks": [{"name": name}]}
    yield made("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": checks})
    yield local_queue(name, NAMESPACE)


def local_queue(queue: Queue, namespace: str) -> Json:
    return made("LocalQueue", queue, {"clusterQueue": queue}, namespace)


def namespace_of(gang: Gang) -> str:
    """One whose namespace will be deleted has it for itself."""
    return f"{NAMESPACE}-{gang.name}" if gang.fate == "namespace" else NAMESPACE


def gang_objects(gang: Gang) -> Iterator[Json]:
    """A Job, or as many pods as a group has, with what they need of their own before them."""
    where = namespace_of(gang)
    if where != NAMESPACE:
        yield _object("v1", "Namespace", where)
        yield local_queue(gang.queue, where)
    queue = {"kueue.x-k8s.io/queue-name": gang.queue, GANG: gang.name}
    if gang.kind == "job":
        template = {"metadata": {"labels": {GANG: gang.name}, "annotations": _notes(gang)}, "spec": _pod()}
        limit = 20 if gang.fate == "machine" else 0
        spec = {"parallelism": gang.nodes, "completions": gang.nodes, "backoffLimit": limit, "template": template}
        yield _object("batch/v1", "Job", gang.name, where, queue, spec=spec)
        return
    labels = {**queue, "kueue.x-k8s.io/pod-group-name": gang.name}
    notes = {"kueue.x-k8s.io/pod-group-total-count": str(gang.nodes), "kueue.x-k8s.io/role-hash": "w", **_notes(gang)}
    for number in range(gang.nodes):
        yield _object("v1", "Pod", f"{gang.name}-{number}", where, labels, notes, spec=_pod())


def _notes(gang: Gang) -> dict[str, str]:
    """No rack has room for a gang that is impossible."""
    level = {"corral.dev/required-topology": RACK} if gang.fate == "impossible" else {}
    return {"e2e.corral.dev/run-seconds": str(gang.seconds), **level}


def _pod() -> Json:
    requests = {"cpu": "32", "memory": "100Gi", GPU: "8"}
    return {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "c", "resources": {"requests": requests, "limits": {GPU: "8"}}}],
    }


def greedy() -> Json:
    """A DaemonSet that leaves no room for a gang's pod."""
    pod = {
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "80"}}}],
    }
    labels = {"app": "greedy"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return _object(
        "apps/v1", "DaemonSet", "greedy", "kube-system", spec={"selector": {"matchLabels": labels}, "template": template}
    )


def burn_in(**notes: str) -> Json:
    """What each new node must pass: a pod of one second, by `notes` one that fails. It is as restricted as its namespace asks."""
    meta = {"annotations": {"e2e.corral.dev/run-seconds": "1", **notes}}
    container = {
        "name": "c",
        "image": "c",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    template = {"metadata": meta, "spec": {"containers": [container]}}
    return _object("v1", "PodTemplate", CHECK, SERVICES, template=template)


def _object(
    version: str,
    kind: str,
    name: str,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    **content: Any,
) -> Json:
    meta = {"name": name, "labels": dict(labels or {}), "annotations": dict(notes or {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta | ({"namespace": namespace} if namespace else {}), **content}
