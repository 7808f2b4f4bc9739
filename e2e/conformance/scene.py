"""What the tests of several sections set up: several checks, Workloads made by hand, entries written as others would."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.api import path
from e2e.cluster import KUEUE, Cluster, Json, eventually, made, status_of
from e2e.stack import Program, configured
from kube import resources
from kube.resources import Kind

FOREIGN = "example.com/other"
# Long enough for Kueue to give the quota back meanwhile, on a busy machine, too: tests look at what is between two attempts.
QUICK = {"limit": 1, "backoff": "3s", "maxBackoff": "3s"}


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
    spec = {"admissionChecksStrategy": {"admissionChecks": rules} if rules else None}
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": spec})


def states(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """State and message of all entries of the only Workload, by check."""
    entries = status_of(cluster.workload()).get("admissionChecks") or ()
    return {each["name"]: (each["state"], each["message"]) for each in entries}


def say(cluster: Cluster, check: str, state: str, message: str = "by the test", **more: Any) -> None:
    """Writes one entry of the only Workload and leaves the others as they are, as another check's controller would.

    Raises LookupError with the server's words for an entry that is refused.
    """
    entry = {"name": check, "state": state, "message": message, "lastTransitionTime": now(), **more}
    eventually(lambda: _said(cluster, entry))


def _said(cluster: Cluster, entry: Json) -> bool:
    """False when somebody else has written meanwhile."""
    workload = eventually(cluster.workload)
    entries = status_of(workload).get("admissionChecks") or ()
    before: Json = next((each for each in entries if each["name"] == entry["name"]), {})
    counted = {key: before[key] for key in ("retryCount",) if key in before}
    kept = [each for each in entries if each["name"] != entry["name"]]
    status = {"admissionChecks": [*kept, {**counted, **entry}]}
    patch = {"metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]}, "status": status}
    try:
        cluster.api.merge(resources.WORKLOADS, cluster.namespace, workload["metadata"]["name"], patch, subresource="status")
    except LookupError as error:
        if "the object has been modified" not in str(error):
            raise
        return False
    return True


def by_hand(
    cluster: Cluster, *pod_sets: Json, name: str = "by-hand", annotations: dict[str, str] | None = None, **more: Any
) -> None:
    """A Workload that no job stands behind; `more` are further fields of its spec."""
    item = made(KUEUE, "Workload", name, cluster.namespace, spec={"queueName": "queue", "podSets": list(pod_sets), **more})
    item["metadata"]["annotations"] = annotations or {}
    cluster.apply(item)


def pod_set(name: str = "main", count: int = 2, gpus: int = 8, **spec: Any) -> Json:
    """One pod set of pods with one container; no devices when `gpus` is 0."""
    amounts = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    containers = [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    return {"name": name, "count": count, "template": {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def config(cluster: Cluster, **spec: Any) -> None:
    """Kueue's own ProvisioningRequestConfig that leads to the queue's policy."""
    base = {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": cluster.namespace}}
    cluster.apply(made(KUEUE, "ProvisioningRequestConfig", cluster.namespace, spec=base | spec))


def delete(cluster: Cluster, kind: Kind, name: str) -> None:
    """One object; it may go on to exist as long as a finalizer holds it."""
    answer = cluster.api.call("DELETE", path(kind, cluster.namespace, name))
    assert answer.accepted, answer.body


def gone(cluster: Cluster, kind: Kind) -> bool:
    """Whether the object of the kind that bears the namespace's name is no longer there."""
    try:
        cluster.get(kind, cluster.namespace)
    except LookupError:
        return True
    return False


def quota(cluster: Cluster, gpus: int) -> None:
    """Changes the quota of the queue, which has one flavor, and gives Kueue reason to look again."""
    spec = cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"] = gpus
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": spec["resourceGroups"]}})


def second_check(cluster: Cluster, policy: str = "") -> str:
    """The name of another check of ours, active, with the same policy or the one that is named."""
    name = f"{cluster.namespace}-second"
    parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": policy or cluster.namespace}
    cluster.apply(made(KUEUE, "AdmissionCheck", name, spec={"controllerName": "corral.dev/capacity", "parameters": parameters}))
    eventually(lambda: any(each["status"] == "True" for each in conditions(cluster, name)))
    return name


def two_checks(cluster: Cluster) -> tuple[str, dict[str, Json]]:
    """A job in a queue with two checks of ours: the name of the second one, and the request of each by its check."""
    cluster.queue()
    second = second_check(cluster)
    with_checks(cluster, cluster.namespace, second)
    cluster.job()
    return second, eventually(lambda: requests_by(cluster, "admission-check") if len(cluster.requests()) == 2 else None)


def requests_by(cluster: Cluster, mark: str) -> dict[str, Json]:
    """The requests by an annotation of ours, such as `workload` or `admission-check`."""
    return {each["metadata"]["annotations"][f"corral.dev/{mark}"]: each for each in cluster.requests()}


@contextmanager
def forbidden(cluster: Cluster, kind: Kind, body: Json) -> Iterator[None]:
    """Nobody may make objects of the kind in the namespace; `body` is what one would be made of, to see whether it is so."""
    rule = {"apiGroups": [kind.group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [kind.plural]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"object.metadata.namespace != '{cluster.namespace}'", "message": "not today"}],
    }
    probe = made(kind.api_version, kind.kind, "probe", cluster.namespace, **body)

    def allowed() -> bool:
        return cluster.api.call("POST", path(kind, cluster.namespace), probe, dryRun="All").accepted

    name, policy, api = f"{cluster.namespace}-forbidden", "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.apply(made(api, policy, name, spec=spec), made(api, f"{policy}Binding", name, spec=binding))
    try:
        eventually(lambda: not allowed())
        yield
    finally:
        cluster.kubectl("delete", f"{policy},{policy}Binding", name, "--wait=false")
    eventually(allowed)


def second_flavor(cluster: Cluster, first: int = 64, second: int = 64) -> str:
    """The name of another flavor in the queue, tried when the quota of devices in the first one is short."""
    name = f"{cluster.namespace}-b"
    cluster.apply(made(KUEUE, "ResourceFlavor", name, spec={"nodeLabels": {"pool": name}}))
    flavors = [_quotas(cluster.namespace, first), _quotas(name, second)]
    groups = [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": flavors}]
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"resourceGroups": groups}})
    return name


def _quotas(flavor: str, gpus: int) -> Json:
    amounts = {"cpu": 100, "nvidia.com/gpu": gpus}
    return {"name": flavor, "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]}


def queue_reason(cluster: Cluster) -> str:
    """Why the queue is active or not, in Kueue's words."""
    found = status_of(cluster.get(resources.CLUSTER_QUEUES, cluster.namespace)).get("conditions") or ()
    return next((each["reason"] for each in found if each["type"] == "Active"), "")


def suspended(cluster: Cluster, job: str = "job") -> bool:
    return bool(cluster.get(resources.JOBS, job)["spec"]["suspend"])


def requeue_at(cluster: Cluster) -> str:
    """When Kueue will requeue the only Workload, "" when it has no plan to."""
    return str((status_of(cluster.workload()).get("requeueState") or {}).get("requeueAt") or "")


def managed(cluster: Cluster, **spec: Any) -> None:
    """A queue whose check refers to a ProvisioningRequestConfig with these fields; its policy opens `runDuration`."""
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": cluster.namespace}
    cluster.queue(parameters=reference, userOverrides=["runDuration"])
    config(cluster, **spec)
    eventually(lambda: cluster.active().get("status") == "True")


@contextmanager
def stopped(admission: Program) -> Iterator[None]:
    """While admission is not there."""
    assert admission.stop() == 0
    try:
        yield
    finally:
        admission.start()


def writes(admission: Program) -> int:
    """How often it has written to a Workload, by its own measure: what changes nothing the API server doesn't tell."""
    with urllib.request.urlopen(f"{admission.ready.removesuffix('/readyz')}/metrics", timeout=10) as reply:
        lines = str(reply.read().decode()).splitlines()
    marks = ('resource="workloads"', 'verb="apply"')
    found = (each for each in lines if each.startswith("corral_api_request_duration_seconds_count{"))
    return sum(int(float(each.rpartition(" ")[2])) for each in found if all(mark in each for mark in marks))


@contextmanager
def another(kubeconfig: Path, directory: Path) -> Iterator[Program]:
    """One more admission service. It leads at the same time as any other, for its Lease is another one."""
    settings = {
        "leaderElection": {"resourceNamespace": "default"},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
    }
    program = configured("admission", directory, settings, name="another")
    program.start()
    try:
        yield program
    finally:
        assert program.stop() == 0, program.tail()
