"""Elastic jobs: Kueue gives a job that grows a new Workload of its whole new size, a slice, which replaces the older one.

As in Kueue v0.17.0 (pkg/workloadslicing): the older slice is Finished as soon as the new one holds quota, and the job's pods run
on; pods that come on top wait, gated, until the new slice is admitted. A job that shrinks has its count lowered in place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from admission.decide import LOOK_AGAIN, current_of
from admission.gang import Member
from admission.model import Change, Decision, Request, State, View, bounded
from kube.kueue import Workload
from kube.slices import Find, before

ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACED = "WorkloadSliceReplaced"


def elastic(workload: Workload) -> bool:
    return workload.metadata.annotations.get(ELASTIC) == "true"


def running(workload: Workload, find: Find) -> Mapping[str, int]:
    """How many pods of each pod set the job may run already, on capacity of the slice that was admitted last; {} for none.

    A slice that was evicted since has stopped the job with all its pods. Where an older slice can't be looked up, nothing is
    taken to run: the whole size is asked for again, rather than too little.
    """
    if not _may_go_on(workload):
        return {}
    for older in before(workload, find):
        if not _replaced(older):
            return {}
        if older.admitted:
            return {} if older.evicted else {each.name: each.count for each in older.spec.pod_sets}
        if not _may_go_on(older):
            return {}
    return {}


def _may_go_on(workload: Workload) -> bool:
    return elastic(workload) and workload.condition("Evicted") is None


def added(workload: Workload, gang: Iterable[Member], runs: Mapping[str, int]) -> tuple[Member, ...]:
    """The gang without the pods that run already and those that the job, shrunk since, doesn't want any more."""
    wanted = {each.name: each.count for each in workload.spec.pod_sets}
    counted = ((each, min(each.count, wanted[each.name]) - runs.get(each.name, 0)) for each in gang)
    return tuple(replace(each, count=count) for each, count in counted if count > 0)


def spared(view: View, decision: Decision, now: datetime) -> Decision:
    """The decision, but without Retry and Rejected, which would stop the pods that run.

    Those to be added wait, and what another attempt may mend is tried again.
    """
    failed, current = decision.change, current_of(view)
    if failed is None or failed.state not in (State.RETRY, State.REJECTED):
        return decision
    message = bounded(f"The pods that run go on, those to be added wait: {failed.message}")
    pending = None if (view.entry.state, view.entry.message) == (State.PENDING, message) else Change(State.PENDING, message)
    left = (current.created + _pause(view, current) - now).total_seconds() if current else LOOK_AGAIN
    if current and failed.state == State.RETRY and left <= 0:
        return replace(decision, change=pending, delete=(current, *decision.delete))
    return replace(decision, change=pending, look_again=left if left > 0 else None)


def _pause(view: View, current: Request) -> timedelta:
    """From one attempt to the next: as long as the quota had been held in vain before, so that waits double; no less than the
    policy's first wait, no more than its longest. No count is needed, which would stay with the job when it is stopped.
    """
    held = (current.created - (view.reserved_at or current.created)).total_seconds()
    first = view.retry.wait(1)
    return timedelta(seconds=max(first, min(held, view.retry.longest)))


def _replaced(workload: Workload) -> bool:
    finished = workload.condition("Finished")
    return finished is not None and finished.status == "True" and finished.reason == REPLACED
