"""The trace of each workload's way through admission, and the metrics of the wait."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from admission.model import Change, State
from admission.requests import Attempt
from admission.view import Stores, own_entries, reserved_at
from kube.kueue import Workload
from kube.times import instant
from runtime import metrics, telemetry
from runtime.store import Key, key_of

_METER = telemetry.meter()
TRANSITIONS = _METER.create_counter("corral_admission_check_transitions", description="States that our check was set to")
GANG_WAIT = _METER.create_histogram(
    "corral_gang_wait_time",
    "s",
    "From quota reserved to the check Ready",
    explicit_bucket_boundaries_advisory=metrics.WAIT_BUCKETS,
)
REASONS = ("QuotaInsufficient", "CapacityProvisioning", "TopologyUnsatisfied", "ReservationMismatch", "GangIncomplete")


class Journeys:
    """Remembers the workloads under way, so that each one's root span is sent once, when it is admitted or over."""

    def __init__(self) -> None:
        self._open: dict[Key, tuple[str, datetime]] = {}  # -> uid and creation

    def follow(self, workload: Workload, now: datetime) -> None:
        """Looks at a workload that has a check of ours."""
        key, meta = key_of(workload), workload.metadata
        if not (workload.admitted or workload.finished):
            self._open[key] = (meta.uid, instant(meta.creation_timestamp) if meta.creation_timestamp else now)
        elif key in self._open:
            self._finish(key, "admitted" if workload.admitted else "finished", now)

    def lost(self, key: Key, now: datetime) -> None:
        """The workload is gone, or no longer ours."""
        if key in self._open:
            self._finish(key, "deleted", now)

    def _finish(self, key: Key, outcome: str, now: datetime) -> None:
        uid, started = self._open.pop(key)
        names = {"k8s.namespace.name": key[0], "kueue.workload.name": key[1], "kueue.workload.uid": uid}
        telemetry.finish_root(uid, "workload", started, now, {**names, "corral.outcome": outcome})


@contextmanager
def request_span(attempt: Attempt) -> Iterator[None]:
    """Around the writing of an attempt's objects."""
    attributes: dict[str, str | int] = {
        "corral.request": attempt.name,
        "corral.attempt": attempt.number,
        "corral.check": attempt.check,
    }
    context = telemetry.workload_context(attempt.workload.metadata.uid)
    with telemetry.tracer().start_as_current_span("request", context=context, attributes=attributes):
        yield


@contextmanager
def change_spans(workload: Workload, changes: Mapping[str, Change], now: datetime) -> Iterator[None]:
    """Around the writing of new states; what was written is counted."""
    ready = [name for name, change in changes.items() if change.state == State.READY]
    if ready:
        context = telemetry.workload_context(workload.metadata.uid)
        with telemetry.tracer().start_as_current_span("ready", context=context, attributes={"corral.checks": ready}):
            yield
    else:
        yield
    _count(workload, changes, now)


def _count(workload: Workload, changes: Mapping[str, Change], now: datetime) -> None:
    before = {each.name: each.state for each in workload.status.admission_checks}
    for name, change in changes.items():
        if before.get(name) == change.state:
            continue
        TRANSITIONS.add(1, {"state": str(change.state)})
        if change.state == State.READY and not workload.admitted and (since := reserved_at(workload)):
            GANG_WAIT.record((now - since).total_seconds())


def publish_waiting(stores: Stores) -> None:
    """Makes the number of workloads that wait, by reason, readable at /metrics."""
    metrics.gauge("corral_workloads_waiting", "Workloads that wait, by reason", lambda: waiting(stores))


def waiting(stores: Stores) -> list[tuple[float, dict[str, str]]]:
    """Every reason with its number of workloads; a reason that isn't told yet counts as `Planning`."""
    found = Counter(dict.fromkeys((*REASONS, "Planning"), 0))
    found.update(filter(None, (_reason(stores, each) for each in stores.workloads.values())))
    return [(number, {"reason": reason}) for reason, number in found.items()]


def _reason(stores: Stores, workload: Workload) -> str:
    """Why a workload with a check of ours waits for us or for quota, "" when it doesn't."""
    if workload.admitted or workload.finished or not workload.spec.active:
        return ""
    entries = own_entries(stores, workload)
    requeue = workload.status.requeue_state
    if entries and not workload.quota_reserved and not (requeue and requeue.requeue_at):
        return "QuotaInsufficient"
    pending = [each.message.split(": ") for each in entries if each.state != State.READY]
    if not pending:
        return ""
    return next((part for part in pending[0] if part in REASONS), "Planning")
