"""Every metric that a runtime process exports, in one place: the names are a contract with dashboards and alerts.

Names get their unit and `_total` from the Prometheus exporter: `corral_watch_events` is scraped as `corral_watch_events_total`,
`corral_reconcile_time` as `corral_reconcile_time_seconds`. Labels never carry names of pods, workloads or nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from opentelemetry.metrics import CallbackOptions, Observation

from runtime.telemetry import meter

RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds."""
WAIT_BUCKETS = (1.0, *(2.5 * 2**n for n in range(15)))
"""Seconds, 1 to 40,960: Kueue's own buckets of its wait times, for everything a user waits for."""

_METER = meter()
RECONCILE_TIME = _METER.create_histogram(
    "corral_reconcile_time", "s", "Time that one reconcile took", explicit_bucket_boundaries_advisory=RECONCILE_BUCKETS
)
QUEUE_TIME = _METER.create_histogram(
    "corral_workqueue_queue_duration",
    "s",
    "Time that a key waited for a worker",
    explicit_bucket_boundaries_advisory=RECONCILE_BUCKETS,
)
API_REQUEST_DURATION = _METER.create_histogram(
    "corral_api_request_duration", "s", "Requests to the API server", explicit_bucket_boundaries_advisory=RECONCILE_BUCKETS
)

Series = Iterable[tuple[float, Mapping[str, str]]]
"""(value, labels) of each series of one instrument at the moment of a scrape."""
Read = Callable[[], Series]


_reads: dict[str, Read] = {}


def counter(name: str, description: str, read: Read) -> None:
    """A counter that is read when scraped. OpenTelemetry takes one callback a name, so a later `read` replaces the one before."""
    if _reads.setdefault(name, read) is read:
        _METER.create_observable_counter(name, [partial(_observe, name)], description=description)
    _reads[name] = read


def gauge(name: str, description: str, read: Read, unit: str = "") -> None:
    """A gauge that is read when scraped; a later `read` of the same name replaces the one before."""
    if _reads.setdefault(name, read) is read:
        _METER.create_observable_gauge(name, [partial(_observe, name)], unit, description)
    _reads[name] = read


def _observe(name: str, _: CallbackOptions) -> Iterable[Observation]:
    return [Observation(value, labels) for value, labels in _reads[name]()]
