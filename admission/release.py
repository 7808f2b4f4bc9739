"""What admission does for Kueue on the workload itself: a backoff that holds no quota, and the way back after Rejected. Pure.

Kueue v0.17.0 keeps the quota until a Retry's backoff is over (pkg/controller/core/workload_controller.go: it waits for
`requeueState.requeueAt` before it looks at the checks), though its own design (KEP-3258) evicts at once. And it requeues what is
active again after a user had deactivated it, but not after a check had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from admission.decide import put_back
from admission.model import Change, Entry, State, bounded
from kube.kueue import AdmissionCheckState, Workload
from kube.times import instant

REJECTED = "DeactivatedDueToAdmissionCheck"
FAILING = (State.RETRY, State.REJECTED)


@dataclass(frozen=True, slots=True)
class Push:
    """A condition to be set to `value` once, for Kueue to act on. `manager` owns it, `event` is told of it.

    `changes` are those of our own checks, `reset` the checks of other controllers that go back to Pending, all in one write as
    when Kueue evicts: its scheduler passes over a workload with a check in Retry and doesn't look again when that alone changes
    (v0.17.0, pkg/cache/queue/cluster_queue.go PushOrUpdate), so a backoff that ended between two writes would never end.
    """

    condition: str
    reason: str
    message: str
    manager: str
    event: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    reset: tuple[AdmissionCheckState, ...] = ()
    value: bool = True


def push(workload: Workload, own: Sequence[AdmissionCheckState]) -> Push | None:
    """What Kueue needs to be told; None as a rule. `own` are the entries of our checks."""
    over = workload.finished or workload.metadata.deletion_timestamp is not None
    if not own or over or not workload.spec.active or workload.admitted:
        return None
    if workload.quota_reserved:
        return _early_eviction(workload, own)
    return _reactivation(workload) or _second_look(workload, own)


def _early_eviction(workload: Workload, own: Sequence[AdmissionCheckState]) -> Push | None:
    """Once Kueue has noted when to requeue. What else goes on with the workload is left to Kueue, which then evicts later."""
    retrying = [each for each in own if each.state == State.RETRY]
    names = {each.name for each in own}
    others = [each for each in workload.status.admission_checks if each.name not in names]
    elsewhere = workload.status.cluster_name or workload.status.nominated_cluster_names
    taken = workload.evicted or workload.is_true("DeactivationTarget") or elsewhere
    failing = any(each.state in FAILING for each in others) or any(each.state == State.REJECTED for each in own)
    if not retrying or taken or failing or not all(_noted(workload, each) for each in retrying):
        return None
    why = "; ".join(each.message for each in retrying)
    message = f"{bounded(why, 900)}; no quota is held until the next try"
    ready = tuple(each for each in others if each.state == State.READY)
    manager, event = "corral-admission-eviction", "EvictedForBackoff"
    return Push("Evicted", "AdmissionCheck", message, manager, event, _put_back(workload, own), ready)


def _put_back(workload: Workload, own: Sequence[AdmissionCheckState]) -> Mapping[str, Change]:
    requeue = workload.status.requeue_state
    due = (requeue.requeue_at or "") if requeue else ""
    changes = ((each.name, put_back(Entry(each.state, each.message, each.retry_count or 0), due)) for each in own)
    return {name: change for name, change in changes if change}


def _noted(workload: Workload, entry: AdmissionCheckState) -> bool:
    """Whether Kueue knows when this check wants its next try. An older note is no answer."""
    requeue = workload.status.requeue_state
    if requeue is None or requeue.requeue_at is None or entry.requeue_after_seconds is None:
        return False
    due = instant(entry.last_transition_time) + timedelta(seconds=entry.requeue_after_seconds)
    return instant(requeue.requeue_at) >= due


def _reactivation(workload: Workload) -> Push | None:
    """Active again after a check had deactivated it: only a user does that, for who rejects never sets `spec.active`."""
    requeued = workload.condition("Requeued")
    if requeued is None or requeued.status != "False" or requeued.reason != REJECTED:
        return None
    return Push("Requeued", "Reactivated", "The workload was reactivated", "corral-admission-reactivation", "Reactivated")


def _second_look(workload: Workload, own: Sequence[AdmissionCheckState]) -> Push | None:
    """A check of ours failed under a quota that then went without an eviction, as it does when the queue is put on hold
    (v0.17.0, workload_controller.go reconcileOnClusterQueueActiveState). If that was resumed while we were away, Kueue has passed
    over the workload. As after an eviction it is told that the workload waits for its backoff: it requeues it then, at once where
    none is noted. While the condition is False for whatever reason, it has a look of its own ahead. One that is about to be
    deactivated is for Kueue to end.
    """
    requeued = workload.condition("Requeued")
    ahead = (requeued and requeued.status == "False") or workload.is_true("DeactivationTarget")
    if ahead or not any(each.state in FAILING for each in own):
        return None
    changes, message = _put_back(workload, own), "The attempt failed, and its quota is gone: it is tried again"
    return Push("Requeued", "AdmissionCheck", message, "corral-admission-reset", "CheckReset", changes, value=False)
