"""Why a workload waits, told from the objects alone. Pure: what to say is decided here, what to read in why.py."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from capacity.model import Reason
from capacity.quantity import amount, show
from corral.traps import traps
from kube.autoscaling import ProvisioningRequest
from kube.core import StatusCondition
from kube.kueue import AdmissionCheckState, ClusterQueue, ResourceFlavor, Workload
from kube.meta import Condition
from kube.ours import Booking
from kube.podspec import pod_set, template
from kube.requests import PodSpecError
from kube.times import instant, length


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. `checks` are the names of the AdmissionChecks that Corral serves; `rejection` the words of the event that
    told of a Rejected check; `hidden` the kinds that the user may not read."""

    target: str
    now: datetime
    workload: Workload | None = None
    queue: ClusterQueue | None = None
    flavors: tuple[ResourceFlavor, ...] = ()
    request: ProvisioningRequest | None = None
    booking: Booking | None = None
    checks: frozenset[str] = frozenset()
    rejection: str = ""
    hidden: tuple[str, ...] = ()


def answer(facts: Facts) -> str:
    """A first line `STATE reason age: message`, then indented numbers."""
    return "\n".join(_lines(facts))


def _lines(facts: Facts) -> Iterator[str]:
    workload = facts.workload
    if workload is None:
        yield f"UNKNOWN {facts.target}: Kueue has no Workload for it: does it exist, with the label kueue.x-k8s.io/queue-name?"
        return
    if workload.finished:
        done = workload.condition("Finished")
        yield f"FINISHED {_age(done, facts.now)}: {_text(done)}"
    elif workload.admitted:
        yield f"RUNNING {_age(workload.condition('Admitted'), facts.now)}: admitted with all of its capacity"
    elif not workload.spec.active:
        yield from _rejected(workload, facts)
    elif not workload.quota_reserved:
        yield from _quota(workload, facts)
    else:
        yield from _capacity(workload, facts)
    yield from _held(facts.booking)
    if facts.hidden:
        yield f"  left out, for you have no right to read them: {', '.join(facts.hidden)} (ClusterRole corral-viewer has it)"


def _rejected(workload: Workload, facts: Facts) -> Iterator[str]:
    """By a check, or deactivated for another reason: by its user, say (Kueue v0.17.0 joins `Deactivated` with the cause)."""
    evicted = workload.condition("Evicted")
    name, namespace = workload.metadata.name, workload.metadata.namespace
    if evicted is None or evicted.reason.endswith("AdmissionCheck"):
        yield f"REJECTED {_age(evicted, facts.now)}: {facts.rejection or _text(evicted)}"
    else:
        yield f"DEACTIVATED {_age(evicted, facts.now)}: {_text(evicted)}"
    yield f"  try again: kubectl patch workloads.kueue.x-k8s.io {name} -n {namespace}"
    yield """    --type merge -p '{"spec":{"active":true}}'"""


# --- quota ----------------------------------------------------------------------------------------------------------------


def _quota(workload: Workload, facts: Facts) -> Iterator[str]:
    reserved = workload.condition("QuotaReserved")
    since = reserved.last_transition_time if reserved else workload.metadata.creation_timestamp
    requeue = workload.status.requeue_state
    if requeue and requeue.requeue_at:
        yield f"WAITING for its next attempt at {requeue.requeue_at}: {_text(workload.condition('Evicted'))}"
        return
    yield f"WAITING {Reason.QUOTA_INSUFFICIENT} {_since(since, facts.now)}: {_text(reserved)}"
    yield from _numbers(workload, facts.queue)
    yield from traps(workload, facts.queue, facts.flavors, facts.checks)


def _numbers(workload: Workload, queue: ClusterQueue | None) -> Iterator[str]:
    if queue is None:
        return
    used = {(f.name, r.name): r.total for f in queue.status.flavors_reservation for r in f.resources}
    for resource, wanted in sorted(_wanted(workload).items()):
        for flavor, nominal in _nominal(queue, resource):
            taken = amount(resource, used.get((flavor, resource), "0"))
            free = max(0, nominal - taken)
            mark = "" if wanted <= free else "   <- short"
            yield (
                f"  {queue.metadata.name}/{flavor}: {resource} {show(resource, nominal)} = {show(resource, taken)} reserved"
                f" + {show(resource, free)} free; needs {show(resource, wanted)}{mark}"
            )


def _wanted(workload: Workload) -> dict[str, int]:
    total: dict[str, int] = {}
    for item in workload.spec.pod_sets:
        try:
            requests = pod_set(item.name, item.count, template(item.template)).requests
        except PodSpecError:
            continue
        for name, number in requests.items():
            total[name] = total.get(name, 0) + number * item.count
    return total


def _nominal(queue: ClusterQueue, resource: str) -> Iterable[tuple[str, int]]:
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                if quota.name == resource:
                    yield flavor.name, amount(resource, quota.nominal_quota)


# --- capacity -------------------------------------------------------------------------------------------------------------


def _capacity(workload: Workload, facts: Facts) -> Iterator[str]:
    ours = [state for state in workload.status.admission_checks if state.name in facts.checks]
    others = [s for s in workload.status.admission_checks if s.name not in facts.checks and s.state != "Ready"]
    waiting = next((state for state in ours if state.state != "Ready"), None)
    if waiting is None:
        names = ", ".join(f"{s.name} is {s.state}: {s.message}" for s in others) or "Kueue has still to admit it"
        yield f"WAITING, not for capacity: {names}"
        return
    yield from _request(waiting, facts)


def _request(state: AdmissionCheckState, facts: Facts) -> Iterator[str]:
    request = facts.request
    provisioned = _condition(request, "Provisioned")
    failed = _condition(request, "Failed")
    if failed and failed.status == "True":
        yield f"{state.state.upper()} {failed.reason} {_since(failed.last_transition_time, facts.now)}: {failed.message}"
    elif provisioned and provisioned.status == "False":
        first, *rest = provisioned.message.splitlines() or [""]
        since = _since(provisioned.last_transition_time, facts.now)
        yield f"WAITING {provisioned.reason} {since}: {first}"
        yield from (f"  {line.strip()}" for line in rest)
    else:
        told = state.message or "the provisioner has not answered yet"
        yield f"WAITING {_since(state.last_transition_time, facts.now)}: {told}"


def _held(booking: Booking | None) -> Iterator[str]:
    if booking is None:
        return
    spec, status = booking.spec, booking.status
    alive = [i for i in status.instances if i.state not in ("Gone", "Transferred")]
    yield (
        f"  booking {booking.metadata.name}: {status.phase}; {len(spec.nodes)} nodes that were there, {len(alive)} of "
        f"{sum(p.count for p in spec.purchases)} machines bought; {spec.cost_per_hour} $/h"
    )
    for purchase in spec.purchases:
        where = purchase.reservation_id or purchase.capacity_type
        yield f"    {purchase.count} x {purchase.shape} in {purchase.zone} from {where} ({purchase.pool})"


def _condition(request: ProvisioningRequest | None, kind: str) -> Condition | None:
    return next((c for c in request.status.conditions if c.type == kind), None) if request else None


def _text(condition: StatusCondition | None) -> str:
    return (condition.message or condition.reason) if condition else "no word from Kueue yet"


def _age(condition: StatusCondition | None, now: datetime) -> str:
    return _since(condition.last_transition_time if condition else None, now)


def _since(text: str | None, now: datetime) -> str:
    return length(int((now - instant(text)).total_seconds())) if text else "just now"
