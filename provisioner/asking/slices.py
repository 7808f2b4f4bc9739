"""The slices of an elastic job: which Workload stands for it now, and whether capacity of an older one is still in use. Pure.

A slice is finished as soon as the one that replaces it holds quota, while its pods run on (Kueue v0.17.0, pkg/workloadslicing).
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from kube.kueue import Workload
from kube.slices import job_of
from kube.times import instant

Key = tuple[str, str]
"""(namespace, name)."""


def after(workload: Workload, naming: Callable[[Key], Iterable[Workload]]) -> Sequence[Workload]:
    """The slices of the same job that came in its place, the oldest first. `naming` gives those that replace a Workload."""
    found: list[Workload] = []
    while newer := _next(found[-1] if found else workload, naming):
        if newer in (workload, *found):
            break
        found.append(newer)
    return found


def _next(workload: Workload, naming: Callable[[Key], Iterable[Workload]]) -> Workload | None:
    """Of several, one that is over never held quota for long: the one that isn't counts, else the newest."""
    if not workload.finished:
        return None
    meta = workload.metadata
    found = [each for each in naming((meta.namespace, meta.name)) if job_of(each) == job_of(workload)]
    return max(found, key=lambda each: (not each.finished, each.metadata.creation_timestamp or ""), default=None)


def lives_on(workload: Workload, newer: Sequence[Workload], booked: datetime) -> bool | None:
    """Whether pods on capacity that was booked for this slice at `booked` run on under the last of the `newer` ones: the job was
    let onto it, and not stopped since. None where that one has no quota: Kueue ends the old slice first (v0.17.0,
    pkg/scheduler/scheduler.go replaceWorkloadSlice), so it may come yet.
    """
    if not newer or not workload.admitted or newer[-1].finished:
        return False
    if any(_stopped(each, booked) for each in (workload, *newer)):
        return False
    return True if newer[-1].quota_reserved else None


def _stopped(workload: Workload, booked: datetime) -> bool:
    """Whether it was evicted after `booked`. Kueue keeps the condition, as False, when it reserves quota again."""
    evicted = workload.condition("Evicted")
    return bool(evicted and evicted.last_transition_time and instant(evicted.last_transition_time) > booked)
