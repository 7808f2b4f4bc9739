"""A corner of the cluster whose check is Kueue's own, with a flavor that has a topology: Kueue asks, Corral serves."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from e2e.scenario import RACK, Scenario, is_true

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
LEVELS = (ZONE, RACK, HOST)
KUEUE = "kueue.x-k8s.io/v1beta2"
ON_KUEUE = "kueue.x-k8s.io/podset-"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
BOOKED = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
MARK = {"key": "corral.dev/request", "valueFromProvisioningClassDetail": "RequestLabel"}
RETRY = {"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2}


def made(kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": KUEUE, "kind": kind, "metadata": meta, "spec": dict(spec)}


def flavor(corner: Scenario, **spec: Any) -> dict[str, Any]:
    base = {
        "nodeLabels": {"node.kubernetes.io/instance-type": corner.shape},
        "topologyName": corner.name,
        "tolerations": [GPU, BOOKED],
    }
    return made("ResourceFlavor", corner.name, base | spec)


def set_up(
    corner: Scenario,
    *,
    levels: tuple[str, ...] = LEVELS,
    flavors: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    queue: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """As a Scenario's own, but the check is Kueue's, and the flavor has a topology."""
    name = corner.name
    corner.apply_pool(sources=more.pop("sources", ("reserved", "on-demand")), **more.pop("pool", {}))
    corner.apply_policy(**more.pop("policy", {}))
    corner.apply(made("Topology", name, {"levels": [{"nodeLabel": key} for key in levels]}))
    corner.apply(flavor(corner, **(flavors or {})))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    base = {
        "provisioningClassName": "gang.corral.dev",
        "parameters": {"policy": name},
        "podSetUpdates": {"nodeSelector": [MARK]},
        "retryStrategy": RETRY,
    }
    whole = {key: value for key, value in {**base, **(config or {})}.items() if value is not None}
    corner.apply(made("ProvisioningRequestConfig", name, whole))
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    corner.apply(made("AdmissionCheck", name, controller))
    corner.apply(made("ClusterQueue", name, {**corner.queue(), **(queue or {})}))
    corner.apply(made("LocalQueue", "q", {"clusterQueue": name}, corner.namespace))
    corner.await_queue()


def job(
    corner: Scenario,
    name: str,
    count: int,
    *,
    gpus: int = 8,
    seconds: int = 600,
    only_gpus: bool = False,
    labels: Mapping[str, str] | None = None,
    **topology: str,
) -> None:
    """A Job whose pods ask Kueue for a topology: `required=RACK` is podset-required-topology, and so on.

    `only_gpus` where the quota is tight or there are two flavors: with several resources Kueue 0.17.0 forgets in its second
    pass which flavor all but one of them have, and counts their quota twice (kubernetes-sigs/kueue issue 9048).
    """
    notes = {f"{ON_KUEUE}{key.replace('_', '-')}": value for key, value in topology.items()}
    pod = corner.pod_spec(gpus)
    if only_gpus:
        pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    corner.job(name, count, seconds=seconds, labels=labels, notes=notes, tolerations=[GPU, BOOKED], **pod)


def admitted(corner: Scenario, name: str) -> bool:
    return is_true(corner.workload(name), "Admitted")


def assignment(corner: Scenario, name: str) -> dict[str, Any]:
    found: dict[str, Any] = corner.workload(name)["status"]["admission"]["podSetAssignments"][0]
    return found


def booked(corner: Scenario) -> dict[str, Any]:
    """The nodes of the corner's live bookings, by name."""
    names = {b["metadata"]["name"] for b in corner.bookings() if b["status"]["phase"] == "Provisioned"}
    nodes = corner.items("node", labelSelector=f"node.kubernetes.io/instance-type={corner.shape}")
    return {n["metadata"]["name"]: n for n in nodes if n["metadata"]["labels"].get("corral.dev/request") in names}


def racks(corner: Scenario, name: str) -> Counter[str]:
    """Pods by the rack of the node that they are bound to."""
    nodes = booked(corner)
    return Counter(nodes[node]["metadata"]["labels"][RACK] for node in corner.bound(name))


def given_back(corner: Scenario) -> bool:
    return not corner.alive() and all(b["status"]["phase"] in ("Released", "Failed") for b in corner.bookings())


def usage(corner: Scenario) -> str:
    used = corner.get("clusterqueue", corner.name)["status"]["flavorsUsage"][0]["resources"]
    return str(next(each["total"] for each in used if each["name"] == "nvidia.com/gpu"))


def quotas(corner: Scenario, gpus: Mapping[str, int], check_on: tuple[str, ...] = ()) -> dict[str, Any]:
    """Flavors in turn with their quotas of GPUs; the check holds for all of them or those named."""

    def resources(amount: int) -> list[dict[str, Any]]:
        amounts = {"cpu": "10000", "memory": "100Ti", "nvidia.com/gpu": str(amount)}
        return [{"name": name, "nominalQuota": quota} for name, quota in amounts.items()]

    flavors = [{"name": name, "resources": resources(amount)} for name, amount in gpus.items()]
    rule = {"name": corner.name} | ({"onFlavors": list(check_on)} if check_on else {})
    return {
        "resourceGroups": [{"coveredResources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": flavors}],
        "admissionChecksStrategy": {"admissionChecks": [rule]},
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }


def second_flavor(corner: Scenario, **labels: str) -> str:
    name = f"{corner.name}-b"
    spec = {"nodeLabels": labels, "topologyName": corner.name, "tolerations": [GPU, BOOKED]}
    corner.apply(made("Topology", corner.name, {"levels": [{"nodeLabel": key} for key in LEVELS]}))
    corner.apply(made("ResourceFlavor", name, spec))
    return name


def phase(corner: Scenario, booking: str) -> str:
    return next((b["status"]["phase"] for b in corner.bookings() if b["metadata"]["name"] == booking), "")


def request_of(corner: Scenario, name: str, attempt: int = 1) -> str:
    return f"{corner.workload(name)['metadata']['name']}-{corner.name}-{attempt}"


def pinned(corner: Scenario) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in corner.items("pod") if "nodeName" in pod["spec"]]
