"""One workload, one trace: the spans of both services hang together under the workload's own root."""

from e2e.scenario import Scenario, is_true, until
from e2e.spans import SpanReceiver


def test_the_spans_of_a_workload_are_one_connected_trace(corner: Scenario, spans: SpanReceiver) -> None:
    corner.set_up()
    corner.job("traced", 2, seconds=2)
    until(lambda: is_true(corner.workload("traced"), "Finished"), what="the job ran")
    trace = corner.workload("traced")["metadata"]["uid"].replace("-", "")
    until(lambda: not corner.alive(), what="capacity given back")
    until(lambda: any(not span.parent for span in spans.of_trace(trace)), seconds=30, what="the root span")
    until(lambda: any(span.name == "released" for span in spans.of_trace(trace)), seconds=30, what="the last span")
    found = spans.of_trace(trace)
    assert {span.service for span in found} == {"corral-admission", "corral-provisioner"}
    assert {"plan", "buy", "joined", "verified", "released"} <= {span.name for span in found}
    assert len([span for span in found if not span.parent]) == 1
    ids = {span.id for span in found}
    assert [span.name for span in found if span.parent and span.parent not in ids] == []
    assert len(ids) == len(found)
    assert {span.name for span in spans.spans if trace in span.links} >= {"reconcile workloads", "reconcile bookings"}
