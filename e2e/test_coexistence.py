"""Others that serve ProvisioningRequests in one cluster with ours: Kueue's own check, and Cluster Autoscaler's collection."""

import time
from collections.abc import Iterator

import pytest

from e2e.cluster import BOOKING, KUEUE, Cluster, Json, eventually, holds, made, status_of
from kube import resources

IN_TREE = "kueue.x-k8s.io/provisioning-request"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DAY = 24 * 3600


class Theirs:
    """A check of Kueue's own controller, in the namespace of a test, and a queue that asks for it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.name = cluster, f"{cluster.namespace}-theirs"

    def _check(self) -> None:
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": self.name}
        quick = {"backoffBaseSeconds": 1}  # by default Kueue keeps the quota for a minute after a failure
        self.cluster.apply(
            made(KUEUE, "ProvisioningRequestConfig", self.name, spec={"provisioningClassName": ATOMIC, "retryStrategy": quick}),
            made(KUEUE, "AdmissionCheck", self.name, spec={"controllerName": IN_TREE, "parameters": reference}),
        )

    def queue(self) -> None:
        """One beside ours, on the same flavor."""
        self._check()
        quotas = [{"name": "cpu", "nominalQuota": 100}, {"name": "nvidia.com/gpu", "nominalQuota": 64}]
        groups = [
            {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": self.cluster.namespace, "resources": quotas}]}
        ]
        strategy = {"admissionChecks": [{"name": self.name}]}
        spec: Json = {"namespaceSelector": {}, "resourceGroups": groups, "admissionChecksStrategy": strategy}
        self.cluster.apply(
            made(KUEUE, "ClusterQueue", self.name, spec=spec),
            made(KUEUE, "LocalQueue", "theirs", self.cluster.namespace, spec={"clusterQueue": self.name}),
        )

    def join(self) -> None:
        """Makes our queue ask for both checks."""
        self._check()
        names = [self.cluster.namespace, self.name]
        spec = {"admissionChecksStrategy": {"admissionChecks": [{"name": each} for each in names]}}
        self.cluster.api.merge(resources.CLUSTER_QUEUES, "", self.cluster.namespace, {"spec": spec})

    def clear(self) -> None:
        kinds = "clusterqueue,admissioncheck,provisioningrequestconfig"
        self.cluster.kubectl("delete", kinds, self.name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def theirs(cluster: Cluster) -> Iterator[Theirs]:
    found = Theirs(cluster)
    yield found
    found.clear()


class Autoscaler:
    """Cluster Autoscaler with provisioning requests on: what it writes to its own class, and deletes of any."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def says(self, request: Json, type_: str, reason: str, *, status: str = "True", age: float = 0) -> None:
        """Sets a condition whose last transition was `age` seconds ago."""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age))
        written = {"type": type_, "status": status, "reason": reason, "message": reason, "lastTransitionTime": since}
        name = request["metadata"]["name"]
        found = status_of(self.cluster.get(resources.PROVISIONING_REQUESTS, name))
        kept = [each for each in found.get("conditions") or () if each["type"] != type_]
        change: Json = {"conditions": [*kept, written]}
        if type_ == "Provisioned" and status == "True":
            change["provisioningClassDetails"] = {"Booking": BOOKING}
        self.merge(name, change)

    def merge(self, name: str, status: Json) -> None:
        api, namespace = self.cluster.api, self.cluster.namespace
        api.merge(resources.PROVISIONING_REQUESTS, namespace, name, {"status": status}, subresource="status")

    def collects(self) -> list[str]:
        """One loop of its garbage collection, which asks neither class nor state: deletes what has a condition Provisioned or
        Failed, true or false, whose last transition is seven days ago (Cluster Autoscaler 1.32 and later, DeleteOldProvReqs)."""
        limit = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 7 * DAY))
        old = [each for each in self.cluster.requests() if _since(each) < limit]
        for each in old:
            self.cluster.kubectl("delete", "provreq", each["metadata"]["name"], "-n", self.cluster.namespace, "--wait=false")
        return [each["metadata"]["uid"] for each in old]


def _since(request: Json) -> str:
    conditions = status_of(request).get("conditions") or ()
    times: list[str] = [each["lastTransitionTime"] for each in conditions if each["type"] in ("Provisioned", "Failed")]
    return min(times, default="9999")


@pytest.fixture
def autoscaler(cluster: Cluster) -> Autoscaler:
    return Autoscaler(cluster)


def request_of(cluster: Cluster, class_name: str) -> Json:
    """The only request of that class, once it is there."""

    def found() -> Json | None:
        of_class = [each for each in cluster.requests() if each["spec"]["provisioningClassName"] == class_name]
        return of_class[0] if len(of_class) == 1 else None

    return eventually(found)


def is_admitted(cluster: Cluster, job: str) -> bool:
    items = cluster.get(resources.WORKLOADS)["items"]
    [found] = [each for each in items if each["metadata"]["ownerReferences"][0]["name"] == job]
    return any(each["type"] == "Admitted" and each["status"] == "True" for each in status_of(found).get("conditions") or ())


def managers(item: Json) -> set[str]:
    return {each["manager"] for each in item["metadata"]["managedFields"]}


def test_each_controller_serves_its_own_queue(cluster: Cluster, theirs: Theirs, autoscaler: Autoscaler) -> None:
    cluster.queue()
    theirs.queue()
    cluster.job("mine")
    cluster.job("other", labels={"kueue.x-k8s.io/queue-name": "theirs"})
    ours, other = request_of(cluster, "gang.corral.dev"), request_of(cluster, ATOMIC)
    autoscaler.says(other, "Accepted", "Accepted")  # makes Kueue's controller look through all requests
    autoscaler.says(other, "Provisioned", "CapacityIsProvisioned")
    eventually(lambda: is_admitted(cluster, "other"))
    assert not is_admitted(cluster, "mine")
    cluster.provision(ours)
    eventually(lambda: is_admitted(cluster, "mine"))
    autoscaler.says(other, "BookingExpired", "CapacityReservationTimeExpired")
    holds(lambda: len(cluster.requests()) == 2, 2)
    left = {each["metadata"]["uid"]: each for each in cluster.requests()}
    assert left.keys() == {each["metadata"]["uid"] for each in (ours, other)}
    assert not any("corral" in manager for manager in managers(left[other["metadata"]["uid"]]))


def test_one_workload_through_both_checks(cluster: Cluster, theirs: Theirs, autoscaler: Autoscaler) -> None:
    cluster.queue()
    theirs.join()
    cluster.job()
    ours, other = request_of(cluster, "gang.corral.dev"), request_of(cluster, ATOMIC)
    autoscaler.says(other, "Provisioned", "CapacityIsFound")
    eventually(lambda: {"Ready", "Pending"} == states(cluster))
    assert not cluster.is_true("Admitted")
    cluster.provision(ours)
    eventually(lambda: cluster.is_true("Admitted"))
    job = cluster.get(resources.JOBS, "job")["spec"]["template"]
    assert f"{BOOKING}.booking.corral.dev/main" in job["spec"]["nodeSelector"]
    notes = job["metadata"]["annotations"]
    assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == other["metadata"]["name"]


def test_their_failure_gives_back_what_we_hold(cluster: Cluster, theirs: Theirs, autoscaler: Autoscaler) -> None:
    cluster.queue()
    theirs.join()
    cluster.job()
    ours, other = request_of(cluster, "gang.corral.dev"), request_of(cluster, ATOMIC)
    cluster.provision(ours)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    autoscaler.says(other, "Failed", "CapacityIsNotFound")
    eventually(lambda: ours["metadata"]["uid"] not in uids(cluster))
    assert not cluster.is_true("Admitted")


def test_a_request_that_waits_for_more_than_a_week_is_made_anew(cluster: Cluster, autoscaler: Autoscaler) -> None:
    cluster.queue()
    cluster.job()
    request = cluster.request()
    cluster.answer(request, "Accepted")
    autoscaler.says(request, "Provisioned", "TopologyUnsatisfied", status="False", age=8 * DAY)
    assert autoscaler.collects() == [request["metadata"]["uid"]]
    again = eventually(
        lambda: next((each for each in cluster.requests() if each["metadata"]["uid"] != request["metadata"]["uid"]), None)
    )
    assert again["metadata"]["annotations"]["corral.dev/attempt"] == "1"
    assert cluster.is_true("QuotaReserved")
    assert not cluster.condition("Evicted")
    cluster.provision(again)
    eventually(lambda: cluster.is_true("Admitted"))


def test_a_job_that_runs_for_more_than_a_week_goes_on(cluster: Cluster, autoscaler: Autoscaler) -> None:
    cluster.queue()
    request = cluster.admitted()
    autoscaler.says(request, "Provisioned", "Provisioned", age=8 * DAY)
    assert autoscaler.collects() == [request["metadata"]["uid"]]
    eventually(lambda: not uids(cluster))
    holds(lambda: cluster.is_true("Admitted") and cluster.entry()["state"] == "Ready" and not cluster.requests())
    assert not cluster.condition("Evicted")
    assert not cluster.get(resources.JOBS, "job")["spec"].get("suspend")


def test_what_is_collected_between_ready_and_admitted_is_asked_for_again(
    cluster: Cluster, theirs: Theirs, autoscaler: Autoscaler
) -> None:
    """Kueue's own check keeps Ready with its request gone, and admits onto nothing."""
    cluster.queue()
    theirs.join()
    cluster.job()
    ours = request_of(cluster, "gang.corral.dev")
    cluster.provision(ours)
    eventually(lambda: cluster.entry()["state"] == "Ready")
    autoscaler.says(ours, "Provisioned", "Provisioned", age=8 * DAY)
    assert autoscaler.collects() == [ours["metadata"]["uid"]]
    eventually(lambda: cluster.entry()["state"] == "Pending")
    again = request_of(cluster, "gang.corral.dev")
    assert again["metadata"]["uid"] != ours["metadata"]["uid"]
    assert not cluster.is_true("Admitted")


def states(cluster: Cluster) -> set[str]:
    return {each["state"] for each in status_of(cluster.workload())["admissionChecks"]}


def uids(cluster: Cluster) -> set[str]:
    return {each["metadata"]["uid"] for each in cluster.requests()}
