"""Settings of the admission service, beside those of every service."""

from pydantic import Field

from runtime.settings import Section, Settings
from runtime.telemetry import TRACEPARENT


class TracingSettings(Section):
    annotation: str = Field(default=TRACEPARENT, min_length=1, max_length=317)
    """Key of the request's annotation that carries the trace context to the provisioner."""


class AdmissionSettings(Settings):
    workers: int = Field(default=8, ge=1, le=64)
    """Workloads that are worked on at once."""
    tracing: TracingSettings = TracingSettings()
