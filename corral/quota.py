"""A workload without quota: what its queue has, what is short, and what keeps it from any. Pure."""

from collections.abc import Iterable, Iterator

from capacity.model import Reason
from capacity.quantity import amount, show
from corral.asked import since, standing
from corral.facts import Facts
from corral.traps import flavor_traps, topology_traps
from kube.kueue import ClusterQueue, Workload
from kube.podspec import pod_set, template
from kube.requests import PodSpecError
from kube.times import clock, instant

_UNFIT = "Inadmissible"
"""Kueue v0.17.0: the queues, not their quota, are in the way (apis/kueue/v1beta2 WorkloadInadmissible)."""


def waits_for_quota(facts: Facts) -> Iterator[str]:
    """A backoff, a queue that admits nobody, or too little quota."""
    workload, queue = facts.workload, facts.queue
    reserved, requeue = workload.condition("QuotaReserved"), workload.status.requeue_state
    if requeue and requeue.requeue_at:
        yield from _backs_off(facts, requeue.requeue_at)
        return
    age = since(reserved.last_transition_time if reserved else workload.metadata.creation_timestamp, facts.now)
    text = (reserved.message or reserved.reason) if reserved else "no word from Kueue yet"
    if reserved and reserved.reason == _UNFIT:
        yield f"WAITING, not for capacity {age}: {text}"
        yield from _inactive(queue)
        return
    yield f"WAITING {Reason.QUOTA_INSUFFICIENT} {age}: {text}"
    numbers = list(_numbers(workload, queue)) if queue else []
    yield from numbers
    found = [*topology_traps(workload, queue, facts.flavors), *flavor_traps(facts.pools, queue.flavors if queue else ())]
    yield from found
    if not found:
        yield f"  to do: {_to_do(numbers, queue)}"


def _backs_off(facts: Facts, at: str) -> Iterator[str]:
    evicted = facts.workload.condition("Evicted")
    text = next(_failures(facts), (evicted.message or evicted.reason) if evicted else "no word from Kueue")
    yield f"WAITING for its next attempt at {clock(instant(at), facts.now)}: {text}"
    yield "  to do: nothing; it holds no quota meanwhile. To try at once, set spec.active of the Workload to false, then to true"


def _failures(facts: Facts) -> Iterator[str]:
    """Why the attempt before failed: our check says it, of Kueue's own the request; the eviction itself has no words of it."""
    yield from (state.message for state in facts.states if "; next try at" in state.message)
    requests = [request for state in facts.states if (request := facts.request(state.name))]
    yield from (f"{found.reason}: {found.message}" for found in map(standing, requests) if found.over)


def _inactive(queue: ClusterQueue | None) -> Iterator[str]:
    for each in queue.status.conditions if queue else ():
        if each.type == "Active" and each.status != "True":
            assert queue is not None
            yield f"  ClusterQueue {queue.metadata.name} is not active: {each.reason}: {each.message}"
    yield "  to do: correct what is named: no workload of the queue gets quota until then"


def _to_do(numbers: list[str], queue: ClusterQueue | None) -> str:
    if any(line.endswith(NEVER) for line in numbers):
        return "raise the quota or ask for less: waiting can't help. Corral asks for nothing until Kueue has reserved quota"
    lender = f" (cohort {queue.spec.cohort_name} may lend some)" if queue and queue.spec.cohort_name else ""
    return f"wait until others give quota back{lender}, raise it, or ask for less; Corral asks for nothing until then"


# --- numbers --------------------------------------------------------------------------------------------------------------

SHORT = "   <- short"
NEVER = "   <- more than there is at all"


def _numbers(workload: Workload, queue: ClusterQueue) -> Iterator[str]:
    used = {(f.name, r.name): r.total for f in queue.status.flavors_reservation for r in f.resources}
    fixed = not queue.spec.cohort_name and all(each.min_count is None for each in workload.spec.pod_sets)
    for resource, wanted in sorted(_wanted(workload).items()):
        quotas = dict(_nominal(queue, resource))
        never = fixed and wanted > sum(quotas.values())
        for flavor, nominal in quotas.items():
            taken = amount(resource, used.get((flavor, resource), "0"))
            free = max(0, nominal - taken)
            yield (
                f"  {queue.metadata.name}/{flavor}: {resource} {show(resource, nominal)} = {show(resource, taken)} reserved"
                f" + {show(resource, free)} free; needs {show(resource, wanted)}"
                f"{NEVER if never else SHORT if wanted > free else ''}"
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
