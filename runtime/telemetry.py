"""Traces and metrics through OpenTelemetry. One trace a workload, connected across services and restarts without shared state.

The trace of a workload: trace id = the 128 bits of the Workload's UID, id of the root span = the first 8 bytes of sha256(UID). So
every service, before and after a restart, finds the same parent by the UID alone; `finish_root` exports the root at the end.

What is exported: a reconcile's own span only if it did something (a write to the API server, `acted()`, or an error), because
level-based controllers look far more often than they act. Spans of steps, started with `tracer()`, are always exported.

Nothing is recorded or exported unless OTEL_EXPORTER_OTLP_ENDPOINT (or its TRACES or METRICS variant) is set, and the trace flags
of a traceparent say so; /metrics works always.
The sampler is the standard one (OTEL_TRACES_SAMPLER); it decides once a workload, by the trace id.
"""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, generate_latest

from runtime.settings import Settings

ACTED = "corral.acted"
"""Attribute of a reconcile's span: whether it did something, hence whether it is exported."""
TRACEPARENT = "tracing.k8s.io/traceparent"
"""The annotation that carries the trace context (KEP-5915's key)."""

_PROPAGATOR = TraceContextTextMapPropagator()
_reconcile: ContextVar[trace.Span] = ContextVar("reconcile_span", default=trace.INVALID_SPAN)
_root_ids: ContextVar[tuple[int, int] | None] = ContextVar("root_ids", default=None)


@dataclass(frozen=True)
class Telemetry:
    """What `setup` made."""

    registry: CollectorRegistry
    traces: TracerProvider | None
    meters: MeterProvider

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def flush(self) -> None:
        """Sends what is still buffered. Blocks for up to the exporter's time limit: call it off the loop."""
        if self.traces:
            self.traces.force_flush()
        self.meters.force_flush()


_current: Telemetry | None = None


def setup(service: str, settings: Settings) -> Telemetry:  # noqa: ARG001 exporters are configured by the standard variables
    """Installs the process-wide providers; the second call and later ones return the first one's result."""
    global _current  # noqa: PLW0603 OpenTelemetry's providers are global and can be set once
    if _current is None:
        _current = _install(Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", service), **_pod()}))
    return _current


def _install(resource: Resource) -> Telemetry:
    registry = CollectorRegistry()
    readers: list[MetricReader] = [PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)]
    traces: TracerProvider | None = None
    if _endpoint("METRICS"):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if _endpoint("TRACES"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        traces = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        traces.add_span_processor(WorthExporting(BatchSpanProcessor(OTLPSpanExporter())))
        trace.set_tracer_provider(traces)
    meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(meters)
    return Telemetry(registry, traces, meters)


def _endpoint(signal: str) -> str:
    return os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""


def _pod() -> dict[str, str]:
    named = {"k8s.pod.name": "POD_NAME", "k8s.namespace.name": "POD_NAMESPACE", "k8s.node.name": "NODE_NAME"}
    return {key: os.environ[variable] for key, variable in named.items() if os.environ.get(variable)}


def tracer() -> trace.Tracer:
    return trace.get_tracer("corral")


def meter() -> metrics.Meter:
    return metrics.get_meter("corral")


# --- the trace of a workload ----------------------------------------------------------------------------------------------


def workload_context(uid: str) -> Context:
    """A context whose parent is the root span of the workload with this UID, for `tracer().start_as_current_span(context=…)`."""
    trace_id, span_id = root_ids(uid)
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if _sampled(trace_id) else trace.TraceFlags.DEFAULT)
    parent = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def root_ids(uid: str) -> tuple[int, int]:
    """(trace id, root span id) of a workload; neither is ever zero. What isn't a UUID is hashed."""
    digest = hashlib.sha256(uid.encode()).digest()
    try:
        trace_id = uuid.UUID(uid).int
    except ValueError:
        trace_id = int.from_bytes(digest[8:24], "big")
    return trace_id or 1, int.from_bytes(digest[:8], "big") or 1


def traceparent(uid: str) -> str:
    """The W3C header value that names the workload's root span as parent."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, workload_context(uid))
    return carrier["traceparent"]


def context_from(traceparent: str) -> Context | None:
    """The context that a traceparent stands for, or None when it isn't one (the annotation is open to users)."""
    context = _PROPAGATOR.extract({"traceparent": traceparent}, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None


def finish_root(
    uid: str, name: str, started: datetime, ended: datetime, attributes: Mapping[str, str | bool | int | float] | None = None
) -> None:
    """Exports the root span of a workload, from `started` to `ended`. Call it once, when the workload's way is over; a second
    call after a restart sends the same ids again, which backends take as the same span."""
    token = _root_ids.set(root_ids(uid))
    try:
        span = tracer().start_span(name, Context(), attributes=attributes, start_time=_nanoseconds(started))
    finally:
        _root_ids.reset(token)
    span.end(_nanoseconds(ended))


def _nanoseconds(instant: datetime) -> int:
    return int(instant.timestamp()) * 1_000_000_000 + instant.microsecond * 1000


def _sampled(trace_id: int) -> bool:
    sampler = getattr(trace.get_tracer_provider(), "sampler", None)
    return sampler is not None and sampler.should_sample(None, trace_id, "workload").decision.is_sampled()


class _Ids(RandomIdGenerator):
    """Random ids, except for the root span that `finish_root` is about to start."""

    def generate_trace_id(self) -> int:
        ids = _root_ids.get()
        return ids[0] if ids else super().generate_trace_id()

    def generate_span_id(self) -> int:
        ids = _root_ids.get()
        return ids[1] if ids else super().generate_span_id()


# --- the span of a reconcile ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reconcile_span(controller: str, key: object) -> Iterator[trace.Span]:
    """A new root span for one turn of a controller; an exception is recorded on it and passes."""
    with tracer().start_as_current_span(f"reconcile {controller}", Context(), attributes={"corral.key": str(key)}) as span:
        token = _reconcile.set(span)
        span.set_attribute(ACTED, False)
        try:
            yield span
        finally:
            _reconcile.reset(token)


def acted() -> None:
    """Marks the current reconcile as one that did something. The client does so for every write."""
    _reconcile.get().set_attribute(ACTED, True)


def link(parent: str) -> None:
    """Links the current reconcile's span to a workload's trace (a link, not a parent, as KEP-5915 has it), by its traceparent;
    one that can't be read is passed over."""
    context = context_from(parent)
    if context is not None:
        _reconcile.get().add_link(trace.get_current_span(context).get_span_context())


class WorthExporting(SpanProcessor):
    """Passes on every finished span except those of reconciles that did nothing."""

    def __init__(self, inner: SpanProcessor) -> None:
        self._inner = inner

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._inner.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        idle = (span.attributes or {}).get(ACTED) is False
        if not idle or span.status.status_code is trace.StatusCode.ERROR:
            self._inner.on_end(span)

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._inner.force_flush(timeout_millis)
