"""What is known of a Workload when it is told why it waits, and how it is read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from corral.reading import Reader
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.kueue import (
    AdmissionCheck,
    AdmissionCheckState,
    ClusterQueue,
    LocalQueue,
    ProvisioningRequestConfig,
    ResourceFlavor,
    Workload,
)
from kube.ours import Booking, CapacityPolicy, CapacityPool
from kube.resources import Kind
from provisioner.asking.producers import KUEUE_CONTROLLER, check_of, workload_uid
from provisioner.state import CLASS, CONTROLLER

EVENTS = Kind("", "v1", "events", "Event")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. `requests` are the Workload's of our class, `bookings` the newest of each request, by its UID; `checks` the
    names of the AdmissionChecks that lead to Corral; `rejection` the words of the event that told of a Rejected check; `hidden`
    the kinds that the user may not read.
    """

    now: datetime
    workload: Workload
    queue: ClusterQueue | None = None
    flavors: tuple[ResourceFlavor, ...] = ()
    pools: tuple[CapacityPool, ...] = ()
    policies: tuple[CapacityPolicy, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    bookings: Mapping[str, Booking] = field(default_factory=dict)
    checks: frozenset[str] = frozenset()
    rejection: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def states(self) -> tuple[AdmissionCheckState, ...]:
        """Of the checks that lead to Corral."""
        return tuple(state for state in self.workload.status.admission_checks if state.name in self.checks)

    def request(self, check: str) -> ProvisioningRequest | None:
        """The newest one for a check."""
        mine = (each for each in self.requests if check_of(each, self.workload) == check)
        return max(mine, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name), default=None)

    def booking(self, request: ProvisioningRequest | None) -> Booking | None:
        return self.bookings.get(request.metadata.uid) if request else None


async def gathered(reader: Reader, workloads: Sequence[Workload], now: datetime) -> list[Facts]:
    """Of Workloads that are all in one namespace."""
    namespace = workloads[0].metadata.namespace if workloads else ""
    requests = await reader.all(resources.PROVISIONING_REQUESTS, ProvisioningRequest, namespace)
    bookings = await newest_bookings(reader)
    pools = await reader.all(resources.CAPACITY_POOLS, CapacityPool)
    policies = await reader.all(resources.CAPACITY_POLICIES, CapacityPolicy)
    checks = await _checks(reader)
    stuck = any(not each.quota_reserved for each in workloads)
    flavors = await reader.all(resources.RESOURCE_FLAVORS, ResourceFlavor) if stuck else ()
    found: list[Facts] = []
    for workload in workloads:
        mine = _requests(workload, requests)
        queue, rejection = await _queue(reader, workload), await _rejection(reader, workload)
        served = _served(workload, mine, checks)
        found.append(Facts(now, workload, queue, flavors, pools, policies, mine, bookings, served, rejection))
    return [replace(each, hidden=tuple(sorted(reader.hidden))) for each in found]


async def newest_bookings(reader: Reader) -> Mapping[str, Booking]:
    """The booking of the latest attempt of each request, by the request's UID."""
    found = await reader.all(resources.BOOKINGS, Booking)
    return {each.spec.request.uid: each for each in sorted(found, key=lambda each: each.spec.attempt)}


def _requests(workload: Workload, there: Iterable[ProvisioningRequest]) -> tuple[ProvisioningRequest, ...]:
    """Those that say that they speak for it, whoever made them."""
    return tuple(
        each for each in there if workload_uid(each) == workload.metadata.uid and each.spec.provisioning_class_name == CLASS
    )


async def _checks(reader: Reader) -> frozenset[str] | None:
    """Those that Corral serves: its own, and Kueue's whose config names our class. None where the user may not read them."""
    found = await reader.all(resources.ADMISSION_CHECKS, AdmissionCheck)
    if resources.ADMISSION_CHECKS.plural in reader.hidden:
        return None
    kueues = [each for each in found if each.spec.controller_name == KUEUE_CONTROLLER]
    configs = await reader.all(resources.PROVISIONING_REQUEST_CONFIGS, ProvisioningRequestConfig) if kueues else ()
    classes = {each.metadata.name: each.spec.provisioning_class_name for each in configs}
    through = [each for each in kueues if each.spec.parameters and classes.get(each.spec.parameters.name) == CLASS]
    ours = [each for each in found if each.spec.controller_name == CONTROLLER]
    return frozenset(each.metadata.name for each in (*ours, *through))


def _served(workload: Workload, mine: Iterable[ProvisioningRequest], checks: Collection[str] | None) -> frozenset[str]:
    """All of the workload's checks where it can't be known whose they are. What asks us is served, whatever else is known."""
    there = frozenset(state.name for state in workload.status.admission_checks)
    return there if checks is None else (there & frozenset(checks)) | {check_of(each, workload) for each in mine}


async def _rejection(reader: Reader, workload: Workload) -> str:
    """The last event that tells of a check that was Rejected: Kueue clears the check itself when it deactivates the workload."""
    if workload.spec.active:
        return ""
    selector = f"involvedObject.uid={workload.metadata.uid},reason=AdmissionCheckUpdated"
    events = await reader.list(EVENTS, workload.metadata.namespace, field_selector=selector)
    told = [event for event in events if "to Rejected" in event.get("message", "")]
    last = max(told, key=lambda event: event["metadata"]["creationTimestamp"], default=None)
    return str(last["message"]) if last else ""


async def _queue(reader: Reader, workload: Workload) -> ClusterQueue | None:
    """Only who waits for quota asks what its queue has."""
    if workload.quota_reserved:
        return None
    local = await reader.get(resources.LOCAL_QUEUES, LocalQueue, workload.spec.queue_name, workload.metadata.namespace)
    return await reader.get(resources.CLUSTER_QUEUES, ClusterQueue, local.spec.cluster_queue) if local else None
