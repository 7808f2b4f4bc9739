"""From the stores to the view that the decision is made on, and to the attempt that it may ask for."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from admission import requests, slices
from admission.gang import AssignmentMissingError, FlavorMissingError, Member, WorkloadMistakeError, members
from admission.model import Entry, RetryRule, View
from admission.requests import Attempt
from admission.terms import CONTROLLER, DEFAULT_RETRY, Files, Terms, Unusable, parameters, retry_for, terms
from kube import podrules, podspec
from kube.autoscaling import ProvisioningRequest
from kube.kueue import (
    AdmissionCheck,
    AdmissionCheckState,
    ClusterQueue,
    ProvisioningRequestConfig,
    ResourceFlavor,
    Workload,
)
from kube.levels import JOBSET, LWS
from kube.makers import STATEFUL_SET, JobSet, LeaderWorkerSet, Maker, StatefulSet
from kube.ours import CapacityPolicy
from kube.queued_pods import Pods, PodsDifferError, PodsMissingError, QueuedPod
from kube.request_marks import CHECK, WORKLOAD_UID
from kube.requests import PodSpecError
from kube.resources import JOB_SETS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS
from kube.times import instant
from runtime.store import Store

BY_WORKLOAD = "workload uid"
BY_MAKER = "uid of a JobSet, LeaderWorkerSet, StatefulSet or Pod"


@dataclass(frozen=True, slots=True)
class Stores:
    """Everything that admission reads. `requests` must be indexed by `BY_WORKLOAD`, `workloads` by `BY_MAKER`."""

    workloads: Store[Workload]
    requests: Store[ProvisioningRequest]
    checks: Store[AdmissionCheck]
    policies: Store[CapacityPolicy]
    configs: Store[ProvisioningRequestConfig]
    queues: Store[ClusterQueue]
    flavors: Store[ResourceFlavor]
    job_sets: Store[JobSet] = field(default_factory=Store)
    leader_worker_sets: Store[LeaderWorkerSet] = field(default_factory=Store)
    stateful_sets: Store[StatefulSet] = field(default_factory=Store)
    pods: Store[QueuedPod] = field(default_factory=Store)


@dataclass(frozen=True, slots=True)
class Prospect:
    """The attempt that could be made, or what stands against it."""

    attempt: Attempt | None = None
    obstacle: str = ""
    mistake: str = ""


def workload_uid(request: ProvisioningRequest) -> Iterator[str]:
    """The index of requests by their workload."""
    if uid := request.metadata.labels.get(WORKLOAD_UID):
        yield uid


def maker_uid(workload: Workload) -> Iterator[str]:
    """The index of workloads by who makes their pods."""
    return (owner.uid for owner in workload.metadata.owner_references if owner.kind in (JOBSET, LWS, STATEFUL_SET, PODS.kind))


def own_entries(stores: Stores, workload: Workload) -> tuple[AdmissionCheckState, ...]:
    """The entries of checks that are this controller's, in the order of the workload's list."""
    return tuple(each for each in workload.status.admission_checks if is_own(stores.checks.get(("", each.name))))


def is_own(check: AdmissionCheck | None) -> bool:
    return check is not None and check.spec.controller_name == CONTROLLER


def terms_of(stores: Stores, check: AdmissionCheck, priority_class: str = "") -> Terms | Unusable:
    """What the check's parameters lead to at present, for workloads of the priority class if one is named."""
    files = Files(lambda name: stores.policies.get(("", name)), lambda name: stores.configs.get(("", name)))
    return terms(check.spec.parameters, files, priority_class)


def requests_of(stores: Stores, workload: Workload) -> dict[str, list[ProvisioningRequest]]:
    """The workload's requests by check."""
    found: dict[str, list[ProvisioningRequest]] = {}
    for each in stores.requests.by(BY_WORKLOAD, workload.metadata.uid):
        if each.metadata.namespace == workload.metadata.namespace:
            found.setdefault(each.metadata.annotations.get(CHECK, ""), []).append(each)
    return found


def view(
    workload: Workload,
    entry: AdmissionCheckState,
    prospect: Prospect,
    retry: RetryRule,
    present: list[ProvisioningRequest],
    runs: bool = False,
) -> View:
    """What the decision needs to know."""
    number, requeue = requests.number(workload, entry, present), workload.status.requeue_state
    return View(
        entry=Entry(entry.state, entry.message, number - 1),
        fingerprint=requests.fingerprint(workload, entry.name, number),
        retry=retry,
        reserved=workload.quota_reserved,
        admitted=workload.admitted,
        evicted=workload.evicted,
        finished=workload.finished or workload.metadata.deletion_timestamp is not None,
        active=workload.spec.active,
        requeue_at=(requeue.requeue_at or "") if requeue else "",
        pod_sets=tuple(each.name for each in prospect.attempt.members) if prospect.attempt else (),
        obstacle=prospect.obstacle,
        mistake=prospect.mistake,
        requests=tuple(map(requests.seen, present)),
        runs=runs,
        reserved_at=reserved_at(workload),
    )


def reserved_at(workload: Workload) -> datetime | None:
    """Since when it holds quota; None while it has none."""
    found = workload.condition("QuotaReserved")
    since = found.last_transition_time if found and found.status == "True" else None
    return instant(since) if since else None


def running(stores: Stores, workload: Workload) -> Mapping[str, int]:
    """Pods by pod set of an elastic job that run while this Workload waits for more of them."""
    return slices.running(workload, stores.workloads.get)


def retry_of(conditions: Terms | Unusable, workload: Workload) -> RetryRule:
    """A check whose policy was taken away while an attempt was under way retries by the default."""
    return retry_for(conditions, workload.metadata.annotations) if isinstance(conditions, Terms) else DEFAULT_RETRY


def prospect(
    stores: Stores, workload: Workload, entry: AdmissionCheckState, conditions: Terms | Unusable, annotations: dict[str, str]
) -> Prospect:
    """The attempt to be made now for this check; its `annotations` are those that carry the trace."""
    if isinstance(conditions, Unusable):
        return Prospect(obstacle=f'AdmissionCheck "{entry.name}" is not active: {conditions.why}')
    try:
        gang = _gang(stores, workload, entry.name, conditions)
        wanted = parameters(conditions, workload.metadata.annotations)
    except (AssignmentMissingError, FlavorMissingError, _QueueMissingError, _MakerMissingError, PodsMissingError) as error:
        return Prospect(obstacle=str(error))
    except (WorkloadMistakeError, PodsDifferError) as error:
        return Prospect(mistake=str(error))
    number = requests.number(workload, entry, ())
    fingerprint = requests.fingerprint(workload, entry.name, number)
    return Prospect(Attempt(workload, entry.name, number, fingerprint, wanted, gang, annotations))


class _QueueMissingError(LookupError):
    """The admission names a ClusterQueue that isn't there (yet)."""


class _MakerMissingError(LookupError):
    """The workload is of a JobSet, LeaderWorkerSet or StatefulSet that isn't there (yet)."""


def _maker(stores: Stores, workload: Workload) -> Maker | None:
    """Who makes the pods, if it is one that says more of them than their templates.

    Raises _MakerMissingError while the store doesn't show it: without its word a gang could be taken for one that shares its
    domains.
    """
    known: dict[tuple[str, str], Store[JobSet] | Store[LeaderWorkerSet] | Store[StatefulSet]] = {
        (JOB_SETS.group, JOBSET): stores.job_sets,
        (LEADER_WORKER_SETS.group, LWS): stores.leader_worker_sets,
        (STATEFUL_SETS.group, STATEFUL_SET): stores.stateful_sets,  # other groups have a kind of that name, too
    }
    for owner in workload.metadata.owner_references:
        store = known.get((owner.api_version.partition("/")[0], owner.kind))
        if store is not None:
            found = store.get((workload.metadata.namespace, owner.name))
            if found is None or found.metadata.uid != owner.uid:
                raise _MakerMissingError(f'{owner.kind} "{owner.name}" of the workload is not there (yet)')
            return found
    return _pods(stores, workload)


def _pods(stores: Stores, workload: Workload) -> Pods | None:
    """Those of its own; it keeps references to pods that are gone."""
    namespace, owners = workload.metadata.namespace, workload.metadata.owner_references
    uids = {owner.name: owner.uid for owner in owners if (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind)}
    if not uids:
        return None
    found = (stores.pods.get((namespace, name)) for name in uids)
    seen = tuple(each for each in found if each and each.metadata.uid == uids[each.metadata.name])
    return Pods(seen, frozenset(_selecting(workload)))


def _selecting(workload: Workload) -> Iterator[str]:
    """Keys of labels by which its pods select pods. A template that can't be read is refused where it is planned for."""
    for each in workload.spec.pod_sets:
        with suppress(PodSpecError):
            yield from podrules.selecting(podspec.template(each.template).spec)


def _gang(stores: Stores, workload: Workload, check: str, conditions: Terms) -> tuple[Member, ...]:
    name = workload.status.admission.cluster_queue if workload.status.admission else ""
    queue = stores.queues.get(("", name))
    if queue is None:
        raise _QueueMissingError(f'ClusterQueue "{name}" is not there')
    on_flavors = next((rule.on_flavors for rule in queue.checks if rule.name == check), ())
    flavors = {flavor.metadata.name: flavor for flavor in stores.flavors.values()}
    gang = members(workload, on_flavors, conditions.managed, flavors, _maker(stores, workload))
    return slices.added(workload, gang, running(stores, workload)) if slices.elastic(workload) else gang
