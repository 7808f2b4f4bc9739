"""The reflector against scripted servers, in virtual time: streaming list, fallback, resume, 410, silence, bad objects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from runtime.errors import Gone, Invalid, NotFound, ServerError, TransportError
from runtime.reflector import ABSENT_PAUSE, Reflector
from tests.runtime.fakes import PODS, Script, Step, bookmark, event, json, pod

pytestmark = pytest.mark.looptime


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, frozen=True):
    size: int = 0


class Pod(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: Spec = Spec()


@asynccontextmanager
async def running(
    source: Script, seconds: float = 0.05, *, streaming: bool = True, optional: bool = False
) -> AsyncIterator[Reflector[Pod]]:
    reflector = Reflector(source, PODS, Pod, streaming=streaming, optional=optional)
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(seconds)
    assert not task.done()
    yield reflector
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def content(reflector: Reflector[Pod]) -> dict[str, str]:
    return {each.metadata.name: each.metadata.resource_version for each in reflector.store.values()}


def initial(*names: str, version: int = 10) -> list[Step]:
    return [*(event("ADDED", name, at + 1) for at, name in enumerate(names)), bookmark(version, end=True)]


async def test_the_streaming_list_is_asked_for_and_ends_at_its_bookmark() -> None:
    source = Script([*initial("a", "b")[:-1], 5.0, bookmark(9), bookmark(10, end=True), 1e9])
    async with running(source, 4) as reflector:
        assert not reflector.store.synced.is_set()
        assert len(reflector.store) == 0  # half a list is no list
        await asyncio.sleep(2)
        assert reflector.store.synced.is_set()
        assert content(reflector) == {"a": "1", "b": "2"}
    (query,) = source.queries
    assert query["sendInitialEvents"] == query["allowWatchBookmarks"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_changes_after_the_list_are_applied_and_the_handlers_told() -> None:
    changes = [event("MODIFIED", "a", 11), event("ADDED", "c", 12), event("DELETED", "b", 13)]
    source = Script([*initial("a", "b"), 1.0, *changes, 1e9])
    async with running(source, 0.5) as reflector:
        seen: list[tuple[str, str]] = []
        reflector.store.on_change(
            lambda old, new: seen.append(
                (old.metadata.resource_version if old else "", new.metadata.resource_version if new else "")
            )
        )
        await asyncio.sleep(1)
        assert content(reflector) == {"a": "11", "c": "12"}
    assert seen == [("1", "11"), ("", "12"), ("2", "")]


async def test_events_cut_anywhere_between_two_chunks_are_put_together() -> None:
    whole = b"".join(step for step in initial("a", "b") if isinstance(step, bytes))
    async with running(Script([whole[at : at + 7] for at in range(0, len(whole), 7)])) as reflector:
        assert content(reflector) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("last", "resumes_at"),
    [
        pytest.param([event("MODIFIED", "a", 11)], "11", id="after an event"),
        pytest.param([event("MODIFIED", "a", 11), bookmark(20)], "20", id="after a bookmark"),
        pytest.param([], "10", id="after the list"),
    ],
)
async def test_a_watch_that_ends_is_resumed_from_the_last_version_seen(last: list[Step], resumes_at: str) -> None:
    source = Script([*initial("a"), *last])
    async with running(source, 1):
        assert source.versions[:2] == ["", resumes_at]


async def test_a_version_from_inside_the_initial_list_is_never_resumed_from() -> None:
    source = Script([event("ADDED", "a", 3), TransportError("cut")], initial("a"))
    async with running(source, 1) as reflector:
        assert source.versions[:2] == ["", ""]
        assert content(reflector) == {"a": "1"}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(Gone("too old"), id="as the answer"),
        pytest.param(Invalid("invalid resource version"), id="a version that is none"),
        pytest.param(
            json({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}) + b"\n", id="in the stream"
        ),
    ],
)
async def test_410_brings_the_whole_again_and_the_deletes_missed(gone: Step) -> None:
    source = Script(initial("a", "b"), [gone], [event("ADDED", "a", 1), event("ADDED", "c", 30), bookmark(31, end=True), 1e9])
    async with running(source, 2) as reflector:
        assert source.versions == ["", "10", ""]
        assert content(reflector) == {"a": "1", "c": "30"}
        assert reflector.relists == 2
        assert reflector.store.synced.is_set()


async def test_another_error_in_the_stream_is_no_reason_to_list_again() -> None:
    error = json({"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError"}}) + b"\n"
    source = Script([*initial("a"), error])
    async with running(source, 1):
        assert source.versions[:2] == ["", "10"]


async def test_silence_of_seventy_seconds_is_a_dead_peer_and_bookmarks_are_not_silence() -> None:
    source = Script([*initial("a"), 60.0, bookmark(11), 60.0, bookmark(12), 1e9], [*initial("a"), 1e9])
    async with running(source, 185) as reflector:
        assert source.versions == [""]
        await asyncio.sleep(10)
        assert source.versions == ["", ""]
        assert content(reflector) == {"a": "1"}


async def test_a_server_that_was_away_may_come_back_older_and_is_listed_again() -> None:
    """As after the restore of an etcd snapshot: versions begin again below those that were seen, objects are missing."""
    restored = [*initial("a", version=4), event("ADDED", "c", 5), 1e9]
    source = Script([*initial("a", "b", version=900), TransportError("reset")], restored)
    async with running(source, 1) as reflector:
        assert source.versions == ["", ""]
        assert content(reflector) == {"a": "1", "c": "5"}


async def test_a_server_that_ends_at_once_is_asked_ever_more_rarely() -> None:
    source = Script(initial("a"), *[[] for _ in range(1000)])
    async with running(source, 60):
        assert len(source.queries) < 15  # at least 0.05 s doubling: at most 0.05 * (2^11 - 1) > 60 s with the longest pause 15 s


@pytest.mark.parametrize("end", [TransportError("cut"), json({"type": "ERROR", "object": {"code": 500}}) + b"\n"])
async def test_a_list_that_never_gets_whole_is_asked_for_ever_more_rarely(end: Step) -> None:
    """A conversion webhook that is down breaks each list after some objects."""
    source = Script(*[[event("ADDED", "a", 1), end] for _ in range(1000)])
    async with running(source, 60):
        assert len(source.queries) <= 15


async def test_the_pause_between_failing_attempts_stays_under_45_seconds() -> None:
    source = Script(*[[ServerError("down")] for _ in range(100)])
    async with running(source, 600):
        before = len(source.queries)
        await asyncio.sleep(46)
        assert len(source.queries) > before


async def test_a_whole_list_resets_the_pause() -> None:
    source = Script(*[[ServerError("down")] for _ in range(12)], initial("a"))
    async with running(source, 400) as reflector:
        assert reflector.store.synced.is_set()
        now = asyncio.get_running_loop().time()
        source.watches.append(initial("a", version=11))
        times: list[float] = []
        source.on_watch = lambda: times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(75)
        assert times[1] - times[0] < 0.5
        assert now < times[0]


@pytest.mark.parametrize("code", [400, 422])
async def test_without_streaming_list_the_server_is_listed_in_pages_then_watched(code: int) -> None:
    pages = [
        {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a", 1)]},
        {"metadata": {"resourceVersion": "7"}, "items": [pod("b", 2)]},
    ]
    source = Script([Invalid("sendInitialEvents is forbidden", status=code)], pages=pages)
    async with running(source, 2) as reflector:
        assert content(reflector) == {"a": "1", "b": "2"}
        assert (source.tokens, source.versions) == (["", "more"], ["", "7"])


async def test_a_server_that_refused_a_streaming_list_is_asked_for_one_again_ten_minutes_later() -> None:
    """The one that answers then may be another, or the same after an upgrade."""
    pages = [{"metadata": {"resourceVersion": version}, "items": []} for version in ("7", "8")]
    forgotten, later = [60.0, Gone("old")], [*[60.0, bookmark(9)] * 10, Gone("old")]
    source = Script([Invalid("off")], forgotten, later, [*initial("a"), 1e9], pages=pages)
    async with running(source, 590) as reflector:
        assert [query.get("sendInitialEvents") for query in source.queries] == ["true", None, None]
        await asyncio.sleep(120)
        assert (source.queries[-1].get("sendInitialEvents"), content(reflector)) == ("true", {"a": "1"})


async def test_paged_lists_are_kept_to_once_asked_for() -> None:
    pages = [{"metadata": {"resourceVersion": "7"}, "items": []}, {"metadata": {"resourceVersion": "9"}, "items": [pod("a", 8)]}]
    source = Script([Gone("old")], pages=pages)
    async with running(source, 3, streaming=False) as reflector:
        assert content(reflector) == {"a": "8"}
        assert source.versions == ["7", "9"]


async def test_a_page_that_is_gone_starts_the_list_anew() -> None:
    page = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod("a", 1)]}
    source = Script(pages=[page, Gone("expired"), {"metadata": {"resourceVersion": "9"}, "items": [pod("b", 8)]}])
    async with running(source, 3, streaming=False) as reflector:
        assert content(reflector) == {"b": "8"}


class TestObjectsThatDoNotFit:
    async def test_one_in_the_first_list_is_skipped_and_the_rest_is_there(self) -> None:
        bad = event("ADDED", "bad", 1, spec={"size": "huge"})
        async with running(Script([bad, *initial("a"), 1e9])) as reflector:
            assert content(reflector) == {"a": "1"}
            assert (reflector.undecodable, reflector.store.synced.is_set()) == (1, True)

    async def test_the_last_good_state_stays_because_unknown_is_not_absent(self) -> None:
        bad = event("MODIFIED", "a", 11, spec={"size": "huge"})
        source = Script([*initial("a"), bad], [Gone("old")], [bad.replace(b"MODIFIED", b"ADDED"), bookmark(20, end=True), 1e9])
        async with running(source, 2) as reflector:
            assert source.versions == ["", "11", ""]
            assert content(reflector) == {"a": "1"}

    async def test_it_can_still_be_deleted_and_can_come_back_well(self) -> None:
        bad = event("MODIFIED", "a", 11, spec={"size": "huge"})
        gone = event("DELETED", "a", 12, spec={"size": "huge"})
        async with running(Script([*initial("a", "b"), bad, gone, 1.0, event("ADDED", "a", 13), 1e9]), 0.5) as reflector:
            assert content(reflector) == {"b": "2"}
            await asyncio.sleep(1)
            assert content(reflector) == {"a": "13", "b": "2"}

    async def test_it_is_logged_once(self, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
        bad = [event("MODIFIED", "a", 11 + at, spec={"size": "huge"}) for at in range(5)]
        async with running(Script([*initial("a"), *bad, 1e9])) as reflector:
            assert reflector.undecodable == 5
        assert capsys.readouterr().out.count("can't be read") + caplog.text.count("can't be read") == 1


async def test_a_line_that_is_no_event_brings_the_whole_again() -> None:
    source = Script([*initial("a"), b"<html>502 Bad Gateway</html>\n"], initial("b"))
    async with running(source, 1) as reflector:
        assert source.versions[:2] == ["", ""]
        assert content(reflector) == {"b": "1"}


async def test_others_get_their_turn_within_64_events() -> None:
    burst = b"".join(event("ADDED", f"p{at}", at) for at in range(1000)) + bookmark(2000, end=True)
    reflector = Reflector(Script([burst]), PODS, Pod)
    task = asyncio.create_task(reflector.run())
    turns = 0
    while not reflector.store.synced.is_set():
        turns += 1
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert turns >= 1000 // 64


async def test_selectors_narrow_both_ways_of_listing() -> None:
    source = Script([Invalid("off")], pages=[{"metadata": {"resourceVersion": "7"}, "items": []}])
    reflector = Reflector(source, PODS, Pod, field_selector="status.phase!=Failed", label_selector="a=b")
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert all(query["fieldSelector"] == "status.phase!=Failed" and query["labelSelector"] == "a=b" for query in source.queries)


async def test_a_kind_that_is_not_served_is_an_empty_list_until_it_is() -> None:
    source = Script([NotFound("the server could not find the requested resource")], [*initial("a"), 1e9])
    async with running(source, 1, optional=True) as reflector:
        assert reflector.store.synced.is_set()
        assert content(reflector) == {}
        await asyncio.sleep(ABSENT_PAUSE / 2)
        assert len(source.queries) == 1
        await asyncio.sleep(ABSENT_PAUSE)
        assert content(reflector) == {"a": "1"}


async def test_a_kind_that_must_be_served_waits_for_it() -> None:
    async with running(Script([NotFound()], [NotFound()], [NotFound()]), 1) as reflector:
        assert not reflector.store.synced.is_set()
