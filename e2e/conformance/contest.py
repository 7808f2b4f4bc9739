"""Two jobs that contend for quota: one is preempted by the other, and comes back."""

from e2e.cluster import KUEUE, Cluster, Json, eventually, made, status_of
from kube import resources


def workloads(cluster: Cluster) -> dict[str, Json]:
    """By the name of the job."""
    items = cluster.get(resources.WORKLOADS)["items"]
    return {each["metadata"]["ownerReferences"][0]["name"]: each for each in items}


def preempt(cluster: Cluster) -> None:
    """Starts a job of higher priority, "urgent", that takes 32 devices of the first flavor."""
    cluster.apply({**made(KUEUE, "WorkloadPriorityClass", cluster.namespace), "value": 1000})
    cluster.job("urgent", labels={"kueue.x-k8s.io/priority-class": cluster.namespace}, nodeSelector={"pool": cluster.namespace})


def condition(workload: Json, kind: str) -> Json:
    return next((each for each in status_of(workload).get("conditions") or () if each["type"] == kind), {})


def is_true(workload: Json, kind: str) -> bool:
    return bool(condition(workload, kind).get("status") == "True")


def moved(cluster: Cluster, flavor: str) -> Json:
    """The Workload of "job" once it has quota on the flavor."""

    def found() -> Json | None:
        workload = workloads(cluster)["job"]
        return workload if _flavors(workload) == {flavor} and not is_true(workload, "Evicted") else None

    return eventually(found)


def request_on(cluster: Cluster, flavor: str) -> Json | None:
    """The request whose first pod set is asked for on the flavor, once its templates are there."""
    found = (each for each in cluster.requests() if _pool(cluster, each) == flavor)
    return next(found, None)


def _pool(cluster: Cluster, request: Json) -> str:
    name = request["spec"]["podSets"][0]["podTemplateRef"]["name"]
    try:
        template = cluster.get(resources.POD_TEMPLATES, name)
    except LookupError:  # on its way out, with the request
        return ""
    return str(template["template"]["spec"].get("nodeSelector", {}).get("pool", ""))


def _flavors(workload: Json) -> set[str]:
    admission: Json = status_of(workload).get("admission") or {}
    return {flavor for each in admission.get("podSetAssignments") or () for flavor in each["flavors"].values()}
