"""Paths, retries and errors of the client over a scripted wire, in virtual time."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from runtime import errors
from runtime.client import Client, Resource
from runtime.wire import Reply, Request
from tests.runtime.fakes import PODS, Wire, json, pod, status

pytestmark = pytest.mark.looptime

WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BODY = {"metadata": {"name": "a", "namespace": "ns"}}
Call = Callable[[Client], Awaitable[Any]]


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        pytest.param(PODS, {}, "/api/v1/pods", id="all namespaces"),
        pytest.param(PODS, {"namespace": "ns"}, "/api/v1/namespaces/ns/pods", id="one namespace"),
        pytest.param(NODES, {"name": "n"}, "/api/v1/nodes/n", id="cluster-scoped"),
        pytest.param(NODES, {"name": "n", "namespace": "ns"}, "/api/v1/nodes/n", id="a cluster-scoped kind has no namespace"),
        pytest.param(
            WORKLOADS,
            {"name": "w", "namespace": "ns", "subresource": "status"},
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w/status",
            id="subresource",
        ),
        pytest.param(PODS, {"name": "../nodes/x", "namespace": "ns"}, "/api/v1/namespaces/ns/pods/..%2Fnodes%2Fx", id="odd name"),
    ],
)
async def test_paths(resource: Resource, where: dict[str, str], path: str) -> None:
    assert resource.path(**where) == path


@pytest.mark.parametrize(
    ("call", "method", "query", "content_type"),
    [
        pytest.param(lambda c: c.get(PODS, "a", "ns"), "GET", {}, "application/json", id="get"),
        pytest.param(lambda c: c.create(PODS, BODY), "POST", {}, "application/json", id="create"),
        pytest.param(lambda c: c.create(PODS, BODY, dry_run=True), "POST", {"dryRun": "All"}, "application/json", id="dry run"),
        pytest.param(
            lambda c: c.apply(PODS, BODY, manager="me"),
            "PATCH",
            {"fieldManager": "me", "force": "true"},
            "application/apply-patch+yaml",
            id="apply",
        ),
        pytest.param(lambda c: c.patch(PODS, "a", {}, "ns"), "PATCH", {}, "application/merge-patch+json", id="merge patch"),
        pytest.param(
            lambda c: c.patch(PODS, "a", [], "ns", kind="json", manager="me"),
            "PATCH",
            {"fieldManager": "me"},
            "application/json-patch+json",
            id="json patch",
        ),
        pytest.param(lambda c: c.replace(PODS, BODY), "PUT", {}, "application/json", id="replace"),
        pytest.param(lambda c: c.delete(PODS, "a", "ns"), "DELETE", {}, "application/json", id="delete"),
    ],
)
async def test_verbs(call: Call, method: str, query: Mapping[str, str], content_type: str) -> None:
    wire = Wire()
    await call(Client(wire))
    (sent,) = wire.requests
    assert (sent.method, sent.query, sent.content_type) == (method, query, content_type)


async def test_bodies_get_their_kind_and_keep_one_of_their_own() -> None:
    wire = Wire()
    await Client(wire).apply(WORKLOADS, BODY, manager="me", subresource="status")
    assert msgspec.json.decode(wire.requests[0].body or b"") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        **BODY,
    }
    assert wire.requests[0].path.endswith("/namespaces/ns/workloads/a/status")


async def test_delete_carries_precondition_grace_and_propagation() -> None:
    wire = Wire()
    await Client(wire).delete(PODS, "a", "ns", uid="u-1", propagation="Foreground", grace=0)
    assert msgspec.json.decode(wire.requests[0].body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u-1"},
        "gracePeriodSeconds": 0,
    }


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        pytest.param(400, "BadRequest", errors.Invalid, id="400"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="403"),
        pytest.param(404, "NotFound", errors.NotFound, id="404"),
        pytest.param(409, "Conflict", errors.Conflict, id="409"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="409 exists"),
        pytest.param(410, "Expired", errors.Gone, id="410"),
        pytest.param(422, "Invalid", errors.Invalid, id="422"),
        pytest.param(429, "TooManyRequests", errors.TooManyRequests, id="429"),
        pytest.param(500, "InternalError", errors.ServerError, id="500"),
        pytest.param(504, "Timeout", errors.ServerError, id="504"),
        pytest.param(415, "UnsupportedMediaType", errors.ApiError, id="another"),
    ],
)
async def test_each_refusal_is_its_own_error(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    with pytest.raises(errors.ApiError) as caught:
        await Client(Wire(status(code, reason, "why"))).get(PODS, "a", "ns")
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason, caught.value.message) == (code, reason, "why")


async def test_a_refusal_that_is_no_status_is_told_in_its_own_words() -> None:
    with pytest.raises(errors.ServerError, match="<html>Bad Gateway"):
        await Client(Wire(Reply(502, b"<html>Bad Gateway</html>"))).get(PODS, "a", "ns")


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[]", b""])
async def test_a_success_that_is_no_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(errors.TransportError):
        await Client(Wire(Reply(200, body))).get(PODS, "a", "ns")


GET: Call = lambda c: c.get(PODS, "a", "ns")  # noqa: E731
CREATE: Call = lambda c: c.create(PODS, BODY)  # noqa: E731
APPLY: Call = lambda c: c.apply(PODS, BODY, manager="m")  # noqa: E731
JSON_PATCH: Call = lambda c: c.patch(PODS, "a", [], "ns", kind="json")  # noqa: E731
BUSY, FAILING, RESET = status(429, "TooManyRequests"), status(500, "InternalError"), errors.TransportError("reset")


@pytest.mark.parametrize(
    ("call", "answer", "tries"),
    [
        pytest.param(GET, BUSY, 4, id="busy: read"),
        pytest.param(CREATE, BUSY, 4, id="busy: create, because nothing was done"),
        pytest.param(GET, FAILING, 4, id="failing: read"),
        pytest.param(APPLY, FAILING, 4, id="failing: apply"),
        pytest.param(CREATE, FAILING, 1, id="failing: create may have happened"),
        pytest.param(JSON_PATCH, FAILING, 1, id="failing: a json patch isn't idempotent"),
        pytest.param(GET, RESET, 4, id="no answer: read"),
        pytest.param(APPLY, RESET, 1, id="no answer: the caller must look first"),
        pytest.param(GET, status(404, "NotFound"), 1, id="refused: never"),
        pytest.param(APPLY, status(409, "Conflict"), 1, id="conflict: never"),
    ],
)
async def test_what_is_tried_again(call: Call, answer: Reply | Exception, tries: int) -> None:
    wire = Wire(answer)
    with pytest.raises((errors.ApiError, errors.TransportError)):
        await call(Client(wire))
    assert len(wire.requests) == tries


async def test_a_second_attempt_may_succeed() -> None:
    assert await Client(Wire(FAILING, Reply(200, json(BODY)))).get(PODS, "a", "ns") == BODY


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    wire = Wire(status(429, "TooManyRequests", retry_after="3"), Reply(200, b"{}"))
    await Client(wire).get(PODS, "a", "ns")
    assert 3.0 <= wire.times[1] - wire.times[0] <= 10.0


async def test_pauses_are_random_and_never_over_ten_seconds() -> None:
    wire = Wire(status(429, "TooManyRequests", retry_after="3600"))
    with pytest.raises(errors.TooManyRequests) as caught:
        await Client(wire).get(PODS, "a", "ns")
    assert caught.value.retry_after == 3600
    assert all(later - earlier <= 10.0 for earlier, later in zip(wire.times, wire.times[1:], strict=False))


async def test_401_makes_the_client_read_its_credentials_again_once() -> None:
    wire = Wire(status(401, "Unauthorized"), Reply(200, b"{}"))
    await Client(wire).get(PODS, "a", "ns")
    assert wire.renewals == 1
    wire = Wire(status(401, "Unauthorized"))
    with pytest.raises(errors.Unauthorized):
        await Client(wire).get(PODS, "a", "ns")
    assert (wire.renewals, len(wire.requests)) == (1, 2)


async def test_a_watch_refused_with_401_makes_the_next_one_use_new_credentials() -> None:
    wire = Wire()
    wire.chunks = [errors.Unauthorized("expired")]
    with pytest.raises(errors.Unauthorized):
        [chunk async for chunk in Client(wire).watch(PODS, "", {})]
    assert wire.renewals == 1


class TestList:
    @staticmethod
    def page(*names: str, token: str = "") -> Reply:
        return Reply(200, json({"metadata": {"continue": token}, "items": [pod(name, 1) for name in names]}))

    async def test_pages_are_put_together_and_items_know_their_kind(self) -> None:
        wire = Wire(self.page("a", token="next"), self.page("b"))
        items = await Client(wire).list(PODS, "ns", label_selector="x=y", field_selector="status.phase=Running")
        assert [each["metadata"]["name"] for each in items] == ["a", "b"]
        assert (items[0]["kind"], items[0]["apiVersion"]) == ("Pod", "v1")
        common = {"labelSelector": "x=y", "fieldSelector": "status.phase=Running", "limit": "500"}
        assert [request.query for request in wire.requests] == [common, {**common, "continue": "next"}]

    async def test_an_expired_page_starts_the_list_anew_once(self) -> None:
        wire = Wire(self.page("a", token="next"), status(410, "Expired"), self.page("b"))
        assert [each["metadata"]["name"] for each in await Client(wire).list(PODS)] == ["b"]
        with pytest.raises(errors.Gone):
            await Client(Wire(status(410, "Expired"))).list(PODS)

    async def test_an_empty_list_may_be_null(self) -> None:
        assert await Client(Wire(Reply(200, b'{"metadata":{},"items":null}'))).list(PODS) == []


async def test_a_narrowed_client_has_its_own_lane_time_limit_and_patience() -> None:
    wire = Wire(BUSY)
    with pytest.raises(errors.TooManyRequests):
        await Client(wire).narrowed("lease", 5.0).get(PODS, "a", "ns")
    assert [(each.lane, each.timeout) for each in wire.requests] == [("lease", 5.0)]


async def test_the_default_time_limit_is_thirty_seconds() -> None:
    wire = Wire()
    await Client(wire).get(PODS, "a", "ns")
    assert wire.requests == [Request("GET", "/api/v1/namespaces/ns/pods/a", timeout=30.0)]


async def test_an_eviction_names_the_incarnation_and_is_not_repeated_against_a_budget() -> None:
    """429 is the answer of the API server while a PodDisruptionBudget forbids it (its docs, "API-initiated Eviction")."""
    wire = Wire(status(429, "TooManyRequests"))
    with pytest.raises(errors.TooManyRequests):
        await Client(wire).evict("a", "ns", "uid-1")
    [sent] = wire.requests
    assert (sent.method, sent.path) == ("POST", "/api/v1/namespaces/ns/pods/a/eviction")
    body = msgspec.json.decode(sent.body)
    assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-1"}}
