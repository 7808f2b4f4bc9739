"""The recorder of events: shape, dedupe, rate limit, and that it never raises."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from runtime import events
from runtime.client import Resource
from runtime.errors import Forbidden, TransportError
from runtime.events import Outbox, Recorder
from tests.conftest import WallClock

pytestmark = pytest.mark.looptime

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u-1", "resourceVersion": "7"},
    "spec": {},
}


class Sink:
    def __init__(self, fault: Exception | None = None, delay: float = 0.0) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self._fault, self._delay = fault, delay

    async def create(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        assert (resource.group, resource.version, resource.plural) == ("events.k8s.io", "v1", "events")
        await asyncio.sleep(self._delay)
        self.sent.append(body)
        if self._fault:
            raise self._fault
        return {}


def recorder(sink: Sink, clock: WallClock) -> Recorder:
    return Recorder(sink, "corral.dev/test", clock)


async def test_an_event_has_all_that_the_server_asks_for(clock: WallClock) -> None:
    sink = Sink()
    await recorder(sink, clock).event(POD, "Normal", "Booked", "12 nodes", action="Book")
    (sent,) = sink.sent
    assert sent["metadata"]["namespace"] == "ns"
    assert sent["metadata"]["name"].startswith("a.")
    assert sent["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "a",
        "namespace": "ns",
        "uid": "u-1",
        "resourceVersion": "7",
    }
    assert {key: sent[key] for key in ("type", "reason", "note", "action", "eventTime", "reportingController")} == {
        "type": "Normal",
        "reason": "Booked",
        "note": "12 nodes",
        "action": "Book",
        "eventTime": "2026-11-30T12:00:00.000000Z",
        "reportingController": "corral.dev/test",
    }
    assert sent["reportingInstance"].startswith("test-")


async def test_events_about_cluster_scoped_objects_go_to_the_default_namespace(clock: WallClock) -> None:
    sink = Sink()
    await recorder(sink, clock).event({"kind": "Node", "metadata": {"name": "n"}}, "Warning", "Bad", "m")
    assert sink.sent[0]["metadata"]["namespace"] == "default"
    assert sink.sent[0]["regarding"] == {"kind": "Node", "name": "n"}


async def test_the_same_event_is_not_sent_again_within_two_minutes(clock: WallClock) -> None:
    sink = Sink()
    recording = recorder(sink, clock)
    for _ in range(3):
        await recording.event(POD, "Normal", "Waiting", "4 of 8")
        await asyncio.sleep(59)
    assert len(sink.sent) == 1
    await asyncio.sleep(4)
    await recording.event(POD, "Normal", "Waiting", "4 of 8")
    assert len(sink.sent) == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((POD, "Normal", "Waiting", "5 of 8"), id="note"),
        pytest.param((POD, "Normal", "Bought", "4 of 8"), id="reason"),
        pytest.param((POD, "Warning", "Waiting", "4 of 8"), id="type"),
        pytest.param(({**POD, "metadata": {**POD["metadata"], "uid": "u-2"}}, "Normal", "Waiting", "4 of 8"), id="object"),
    ],
)
async def test_what_differs_in_anything_is_another_event(clock: WallClock, other: Any) -> None:
    sink = Sink()
    recording = recorder(sink, clock)
    await recording.event(POD, "Normal", "Waiting", "4 of 8")
    await recording.event(*other)
    assert len(sink.sent) == 2


async def test_one_object_gets_25_at_once_then_one_in_five_minutes(clock: WallClock) -> None:
    sink = Sink()
    recording = recorder(sink, clock)
    for number in range(40):
        await recording.event(POD, "Normal", "Step", str(number))
    assert len(sink.sent) == 25
    await asyncio.sleep(301)
    for number in range(40, 50):
        await recording.event(POD, "Normal", "Step", str(number))
    assert len(sink.sent) == 26


async def test_memory_of_old_events_is_given_up(clock: WallClock) -> None:
    recording = recorder(Sink(), clock)
    for number in range(50):
        await recording.event({"kind": "Pod", "metadata": {"name": f"p{number}"}}, "Normal", "R", "m")
    await asyncio.sleep(8000)
    await recording.event(POD, "Normal", "R", "m")
    assert (len(recording._sent), len(recording._buckets)) == (1, 1)


async def test_notes_are_cut_at_1024_bytes_between_characters(clock: WallClock) -> None:
    sink = Sink()
    await recorder(sink, clock).event(POD, "Normal", "R", "ü" * 1000)
    note = sink.sent[0]["note"]
    assert len(note.encode()) <= 1024
    assert note == "ü" * 510 + "…"


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param(Sink(Forbidden("namespace is being terminated")), id="refused"),
        pytest.param(Sink(TransportError("reset")), id="no answer"),
        pytest.param(Sink(delay=3600), id="silence"),
    ],
)
async def test_it_never_raises_and_never_holds_up_for_long(clock: WallClock, sink: Sink) -> None:
    start = asyncio.get_running_loop().time()
    await recorder(sink, clock).event(POD, "Normal", "R", "m")
    assert asyncio.get_running_loop().time() - start <= 5.01


async def test_an_outbox_holds_nobody_up_and_sends_what_it_was_given(clock: WallClock) -> None:
    sink = Sink(delay=2.0)
    outbox = Outbox(sink, "corral.dev/test", clock)
    began = asyncio.get_running_loop().time()
    for number in range(events.LANES + 1):
        await outbox.event(POD, "Normal", "Booked", f"{number} nodes")
    assert asyncio.get_running_loop().time() == began
    work = asyncio.create_task(outbox.run())
    await asyncio.sleep(3)
    assert len(sink.sent) == events.LANES
    await asyncio.sleep(2)
    assert sorted(each["note"] for each in sink.sent) == [f"{number} nodes" for number in range(events.LANES + 1)]
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_an_outbox_that_is_full_drops_the_newest(clock: WallClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ROOM", 1)
    sink = Sink()
    outbox = Outbox(sink, "corral.dev/test", clock)
    for number in range(2):
        await outbox.event(POD, "Normal", "Booked", f"{number} nodes")
    work = asyncio.create_task(outbox.run())
    await asyncio.sleep(1)
    assert [each["note"] for each in sink.sent] == ["0 nodes"]
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
