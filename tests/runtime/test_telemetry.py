"""The trace of a workload is one tree, whoever starts its spans; idle reconciles aren't exported."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from runtime import telemetry

UID = "0f1e2d3c-4b5a-4697-8877-665544332211"
TRACE, ROOT = 0x0F1E2D3C4B5A46978877665544332211, int.from_bytes(hashlib.sha256(UID.encode()).digest()[:8], "big")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(id_generator=telemetry._Ids(), shutdown_on_exit=False)
    provider.add_span_processor(telemetry.WorthExporting(SimpleSpanProcessor(exporter)))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def names(exporter: InMemorySpanExporter) -> list[str]:
    return [span.name for span in exporter.get_finished_spans()]


def test_the_ids_come_from_the_uid_alone() -> None:
    assert telemetry.root_ids(UID) == (TRACE, ROOT)


@pytest.mark.parametrize("uid", ["not-a-uuid", "", "00000000-0000-0000-0000-000000000000"])
def test_ids_are_never_zero(uid: str) -> None:
    assert all(telemetry.root_ids(uid))


def test_spans_of_two_processes_and_the_root_make_one_tree(spans: InMemorySpanExporter) -> None:
    started = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
    with telemetry.tracer().start_as_current_span("planned", context=telemetry.workload_context(UID)):
        pass
    carried = telemetry.context_from(telemetry.traceparent(UID))
    with telemetry.tracer().start_as_current_span("bought", context=carried):
        pass
    telemetry.finish_root(UID, "workload", started, started + timedelta(seconds=90), {"corral.nodes": 12})
    planned, bought, root = spans.get_finished_spans()
    assert {span.context.trace_id for span in (planned, bought, root) if span.context} == {TRACE}
    assert planned.parent
    assert bought.parent
    assert root.context
    assert planned.parent.span_id == bought.parent.span_id == root.context.span_id == ROOT
    assert (root.parent, root.name, dict(root.attributes or {})) == (None, "workload", {"corral.nodes": 12})
    assert (root.start_time or 0, (root.end_time or 0) - (root.start_time or 0)) == (1796040000250000000, 90_000_000_000)


def test_ids_are_random_again_after_a_root(spans: InMemorySpanExporter) -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    telemetry.finish_root(UID, "workload", now, now)
    with telemetry.tracer().start_as_current_span("other", context=Context()) as span:
        assert span.get_span_context().trace_id != TRACE


def test_the_traceparent_is_the_w3c_header(spans: InMemorySpanExporter) -> None:
    assert telemetry.traceparent(UID) == f"00-{TRACE:032x}-{ROOT:016x}-01"


def test_the_sampler_decides_once_a_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    assert telemetry.traceparent(UID).endswith("-00")


@pytest.mark.parametrize("text", ["", "nonsense", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\n"])
def test_an_annotation_that_is_no_traceparent_is_none(text: str) -> None:
    assert telemetry.context_from(text) is None


class TestReconcileSpan:
    def test_one_that_did_nothing_is_not_exported(self, spans: InMemorySpanExporter) -> None:
        with telemetry.reconcile_span("c", "k"):
            pass
        assert names(spans) == []

    def test_one_that_acted_is(self, spans: InMemorySpanExporter) -> None:
        with telemetry.reconcile_span("c", "k"), telemetry.tracer().start_as_current_span("step"):
            telemetry.acted()
        assert names(spans) == ["step", "reconcile c"]

    def test_one_that_failed_is(self, spans: InMemorySpanExporter) -> None:
        with pytest.raises(ValueError, match="no"), telemetry.reconcile_span("c", "k"):
            raise ValueError("no")
        assert names(spans) == ["reconcile c"]

    def test_it_links_to_the_workload(self, spans: InMemorySpanExporter) -> None:
        with telemetry.reconcile_span("c", "k"):
            telemetry.link(telemetry.traceparent(UID))
            telemetry.acted()
        (span,) = spans.get_finished_spans()
        assert [link.context.trace_id for link in span.links] == [TRACE]
        assert span.context
        assert span.context.trace_id != TRACE

    def test_outside_of_a_reconcile_nothing_happens(self) -> None:
        telemetry.acted()
        telemetry.link(telemetry.traceparent(UID))

    @pytest.mark.parametrize("parent", ["", "not one"])
    def test_what_is_no_traceparent_is_passed_over(self, spans: InMemorySpanExporter, parent: str) -> None:
        with telemetry.reconcile_span("c", "k"):
            telemetry.link(parent)
            telemetry.acted()
        (span,) = spans.get_finished_spans()
        assert not span.links
