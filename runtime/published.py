"""What controllers and reflectors count in plain integers, made readable at /metrics: nothing is recorded event by event, because
one OpenTelemetry record costs 20 µs and a watch may bring 20,000 events a second."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from runtime import metrics
from runtime.controller import FAILURES, Controller
from runtime.reflector import Reflector

AnyController = Controller[Any]
AnyReflector = Reflector[Any]

_CONTROLLER_COUNTERS: Sequence[tuple[str, str, Callable[[AnyController], int]]] = (
    ("corral_workqueue_adds", "Keys put into the queue", lambda each: each.queue.adds),
    ("corral_reconcile_errors", "Reconciles that failed", lambda each: sum(each.results[how] for how in FAILURES)),
    ("corral_workqueue_retries", "Keys put back after an error", lambda each: each.queue.retries),
)
_CONTROLLER_GAUGES: Sequence[tuple[str, str, Callable[[AnyController], int]]] = (
    ("corral_workqueue_depth", "Keys that wait for a worker", lambda each: len(each.queue)),
    ("corral_active_workers", "Reconciles under way", lambda each: each.active),
    ("corral_max_concurrent_reconciles", "Workers", lambda each: each.workers),
)
_REFLECTOR_COUNTERS: Sequence[tuple[str, str, Callable[[AnyReflector], int]]] = (
    ("corral_watch_events", "Events received", lambda each: each.events),
    ("corral_watch_relists", "Complete lists begun", lambda each: each.relists),
    ("corral_watch_reconnects", "Watches that ended", lambda each: each.reconnects),
    ("corral_watch_undecodable", "Objects skipped because they could not be read", lambda each: each.undecodable),
)
_REFLECTOR_GAUGES: Sequence[tuple[str, str, Callable[[AnyReflector], int]]] = (
    ("corral_watch_objects", "Objects cached", lambda each: len(each.store)),
)


def publish(controllers: Sequence[AnyController], reflectors: Sequence[AnyReflector]) -> None:
    """Creates the instruments; a later call replaces what they read."""
    metrics.counter("corral_reconcile", "Reconciles by controller and result", partial(_results, controllers))
    for name, about, of_controller in _CONTROLLER_COUNTERS:
        metrics.counter(name, about, partial(_by_controller, controllers, of_controller))
    for name, about, of_controller in _CONTROLLER_GAUGES:
        metrics.gauge(name, about, partial(_by_controller, controllers, of_controller))
    for name, about, of_reflector in _REFLECTOR_COUNTERS:
        metrics.counter(name, about, partial(_by_resource, reflectors, of_reflector))
    for name, about, of_reflector in _REFLECTOR_GAUGES:
        metrics.gauge(name, about, partial(_by_resource, reflectors, of_reflector))


def _results(controllers: Sequence[AnyController]) -> metrics.Series:
    return [
        (count, {"controller": each.name, "result": result}) for each in controllers for result, count in each.results.items()
    ]


def _by_controller(controllers: Sequence[AnyController], count: Callable[[AnyController], int]) -> metrics.Series:
    return [(count(each), {"controller": each.name}) for each in controllers]


def _by_resource(reflectors: Sequence[AnyReflector], count: Callable[[AnyReflector], int]) -> metrics.Series:
    return [(count(each), {"resource": each.resource.plural}) for each in reflectors]
