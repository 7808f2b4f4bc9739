"""The objects that both controllers are given: queue, check, Jobs and Workloads."""

import asyncio
from dataclasses import dataclass
from typing import Any

from kube import resources
from runtime.client import Client, Resource

Json = dict[str, Any]

QUEUE = "kueue.x-k8s.io/queue-name"
MANAGER = "bench"
_QUOTA = 1_000_000


@dataclass(frozen=True, slots=True)
class Side:
    """One of the controllers that are compared; its namespaces begin with `key`.

    `controller` is the AdmissionCheck's, "" for none: Kueue without a check.
    """

    name: str
    key: str
    controller: str = ""
    parameters: tuple[str, str] = ("", "")  # apiGroup and kind of the check's parameters


OURS = Side("Corral", "ours", "corral.dev/capacity", ("corral.dev", "CapacityPolicy"))
IN_TREE = Side(
    "Kueue's own check", "in-tree", "kueue.x-k8s.io/provisioning-request", ("kueue.x-k8s.io", "ProvisioningRequestConfig")
)
NO_CHECK = Side("no check", "none")


async def set_up(client: Client, side: Side, name: str, *, held: bool = False) -> None:
    """Namespace, flavor, check and queues, all of one name; `held`: the queue admits nothing until `release`."""
    await client.create(Resource(*resources.NAMESPACES), {"metadata": {"name": name}})
    for kind, body in objects(side, name, held):
        await client.apply(Resource(*kind), body, manager=MANAGER)


async def release(client: Client, name: str) -> None:
    """Lets the queue admit."""
    await client.patch(Resource(*resources.CLUSTER_QUEUES), name, {"spec": {"stopPolicy": "None"}})


async def active(client: Client, name: str) -> None:
    """Until the controller of the check has found its parameters good: Kueue admits nothing into the queue before."""
    async with asyncio.timeout(60):
        check = Resource(*resources.ADMISSION_CHECKS)
        while not (await client.get(check, name)).get("status", {}).get("conditions"):  # noqa: ASYNC110 set by another process
            await asyncio.sleep(0.2)


def objects(side: Side, name: str, held: bool) -> list[tuple[resources.Kind, Json]]:
    quotas = [{"name": "cpu", "nominalQuota": _QUOTA}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": quotas}]}
    queue: Json = {"namespaceSelector": {}, "resourceGroups": [group], "stopPolicy": "Hold" if held else "None"}
    found: list[tuple[resources.Kind, Json]] = [(resources.RESOURCE_FLAVORS, _named(name, {"nodeLabels": {"pool": name}}))]
    if side.controller:
        queue["admissionChecksStrategy"] = {"admissionChecks": [{"name": name}]}
        found.append((resources.CAPACITY_POLICIES, _named(name, {})))
        found.append((resources.PROVISIONING_REQUEST_CONFIGS, _named(name, {"provisioningClassName": "bench.corral.dev"})))
        group_name, kind = side.parameters
        check = {"controllerName": side.controller, "parameters": {"apiGroup": group_name, "kind": kind, "name": name}}
        found.append((resources.ADMISSION_CHECKS, _named(name, check)))
    found.append((resources.CLUSTER_QUEUES, _named(name, queue)))
    local = {"metadata": {"name": "queue", "namespace": name}, "spec": {"clusterQueue": name}}
    return [*found, (resources.LOCAL_QUEUES, local)]


def _named(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def job(namespace: str, number: int) -> Json:
    """A Job of one pod, as a user submits it."""
    meta = {"name": f"job-{number:05}", "namespace": namespace, "labels": {QUEUE: "queue"}}
    return {"metadata": meta, "spec": {"parallelism": 1, "completions": 1, "suspend": True, "template": _template()}}


def workload(namespace: str, name: str, pod_sets: int, queue: str = "queue") -> Json:
    """A Workload without a job: the only way to have any number of pod sets without an operator's CRD."""
    sets = [{"name": f"set-{number}", "count": 1, "template": _template()} for number in range(pod_sets)]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queueName": queue, "podSets": sets}}


def pod_template(namespace: str, name: str) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "template": _template()}


def request(namespace: str, name: str, templates: list[str]) -> Json:
    """A ProvisioningRequest of a class that nobody serves but the instant provisioner."""
    pod_sets = [{"podTemplateRef": {"name": each}, "count": 1} for each in templates]
    spec = {"provisioningClassName": "bench.corral.dev", "podSets": pod_sets}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _template() -> Json:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}
