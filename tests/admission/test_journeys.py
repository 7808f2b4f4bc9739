from datetime import UTC, datetime
from typing import Any

import pytest

from admission import journeys
from admission.journeys import Journeys
from tests.admission.objects import UID, condition, workload

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
CREATED = datetime(2026, 9, 1, 11, 58, tzinfo=UTC)
KEY = ("team", "job-llm-12345")
WAITING = workload()
ADMITTED = workload(conditions=[condition("QuotaReserved"), condition("Admitted")])
FINISHED = workload(conditions=[condition("Finished")])


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        journeys.telemetry,
        "finish_root",
        lambda uid, name, start, end, attributes: calls.append((uid, name, start, end, attributes["corral.outcome"])),
    )
    return calls


@pytest.mark.parametrize(
    ("steps", "outcomes"),
    [
        pytest.param([WAITING], [], id="under way"),
        pytest.param([WAITING, WAITING, ADMITTED, ADMITTED], ["admitted"], id="admitted, once"),
        pytest.param([WAITING, FINISHED], ["finished"], id="finished without admission"),
        pytest.param([WAITING, None, None], ["deleted"], id="deleted"),
        pytest.param([ADMITTED], [], id="admitted before this process led"),
        pytest.param([None], [], id="never seen"),
    ],
)
def test_the_root_span_is_sent_when_the_way_is_over(finished: list[Any], steps: list[Any], outcomes: list[str]) -> None:
    seen = Journeys()
    for step in steps:
        if step is None:
            seen.lost(KEY, NOW)
        else:
            seen.follow(step, NOW)
    assert finished == [(UID, "workload", CREATED, NOW, outcome) for outcome in outcomes]
