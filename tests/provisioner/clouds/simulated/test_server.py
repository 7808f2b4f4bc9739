"""The HTTP APIs over a real socket: the control calls, the log, and how errors look."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.provisioner.clouds.conftest import Serve

LAUNCH = {"token": "t", "shape": "p5.48xlarge", "zone": "z1", "capacityType": "on-demand", "count": 1}


class Caller:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        data = {"data": raw} if raw is not None else {"json": body}
        async with self._session.request(method, path, **data) as response:  # type: ignore[arg-type]
            assert response.content_type == "application/json"
            return response.status, await response.json()


@pytest.fixture
async def call(serve: Serve) -> AsyncIterator[Caller]:
    async with serve() as url, aiohttp.ClientSession(url) as session:
        yield Caller(session)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "words"),
    [
        ("POST", "/v1/launch", {**LAUNCH, "cuont": 2}, 400, "InvalidParameterValue", "unknown field `cuont`"),
        ("POST", "/v1/launch", {**LAUNCH, "count": 0}, 400, "InvalidParameterValue", "`int` >= 1 - at `$.count`"),
        ("POST", "/v1/launch", {**LAUNCH, "token": "a b"}, 400, "InvalidParameterValue", "$.token"),
        ("POST", "/v1/launch", {**LAUNCH, "token": "x" * 65}, 400, "InvalidParameterValue", "$.token"),
        ("POST", "/v1/launch", [], 400, "InvalidParameterValue", "Expected `object`"),
        ("POST", "/v1/launch", {**LAUNCH, "count": 99}, 500, "InsufficientInstanceCapacity", "p5.48xlarge"),
        ("POST", "/v1/terminate", {"ids": []}, 400, "InvalidParameterValue", "$.ids"),
        ("POST", "/v1/terminate", {"ids": ["i-1"]}, 400, "InvalidInstanceID.NotFound", "i-1"),
        ("GET", "/v1/instances?tag=x", None, 400, "InvalidParameterValue", "key=value"),
        ("GET", "/v1/nothing", None, 404, "InvalidAction", "GET /v1/nothing: Not Found"),
        ("GET", "/v1/launch", None, 405, "InvalidAction", "Method Not Allowed"),
        ("POST", "/control/faults", {"kind": "error"}, 400, "InvalidParameterValue", "needs call, code"),
        ("DELETE", "/control/faults/f1", None, 404, "ResourceNotFound", "f1"),
        ("PUT", "/control/reservations", {"id": "cr", "racks": {}}, 409, "IncorrectState", "1 machines in use"),
        ("PUT", "/control/stock", {"shape": "x", "zone": "z1"}, 400, "InvalidParameterValue", "shape x is not known"),
        ("GET", "/control/calls?after=x", None, 400, "InvalidParameterValue", "after=x"),
    ],
)
async def test_errors_say_what_is_wrong(
    call: Caller, method: str, path: str, body: Any, status: int, code: str, words: str
) -> None:
    answered, error = await call(method, path, body)
    assert (answered, error["error"]["code"]) == (status, code)
    assert words in error["error"]["message"]


async def test_body_that_is_no_json(call: Caller) -> None:
    status, error = await call("POST", "/v1/launch", raw=b"{")
    assert (status, error["error"]["code"]) == (400, "InvalidParameterValue")


async def test_throttled_answer_says_when_to_come_again(serve: Serve) -> None:
    async with serve(throttle={"burst": 1, "perSecond": 1}) as url, aiohttp.ClientSession(url) as session:
        async with session.get("/v1/inventory") as first, session.get("/v1/inventory") as second:
            assert (first.status, second.status, second.headers["Retry-After"]) == (200, 429, "1")
        async with session.get("/control/stock") as never:
            assert never.status == 200


async def test_fault_is_seen_used_up_and_cleared(call: Caller) -> None:
    order = {"kind": "stock-out", "shape": "p5.48xlarge", "zone": "z1", "times": 2, "for": "1h"}
    status, fault = await call("POST", "/control/faults", order)
    assert status == 201
    assert (await call("POST", "/v1/launch", LAUNCH))[0] == 500
    assert (await call("GET", "/control/faults"))[1]["faults"] == [{**fault, "left": 1}]
    await call("DELETE", f"/control/faults/{fault['id']}")
    assert (await call("POST", "/v1/launch", LAUNCH))[0] == 200
    await call("POST", "/control/faults", order)
    await call("DELETE", "/control/faults")
    assert (await call("GET", "/control/faults"))[1] == {"faults": []}


async def test_instance_is_told_briefly_and_to_control_in_whole(call: Caller) -> None:
    await call("POST", "/control/faults", {"kind": "invisible", "delay": "1h"})
    _, bought = await call("POST", "/v1/launch", {**LAUNCH, "tags": {"a": "b"}})
    assert (await call("GET", "/v1/instances"))[1] == {"instances": []}
    _, whole = await call("GET", "/control/instances")
    (machine,) = whole["instances"]
    told = {key: value for key, value in bought["instances"][0].items() if key != "state"}  # it may run by now
    assert machine.items() >= told.items()
    assert machine["order"]["tags"] == {"a": "b"}
    assert machine["devices"] == {"nvidia.com/gpu": 8}


async def test_reservation_and_stock_change_now_and_later(call: Caller) -> None:
    _, changed = await call("PUT", "/control/reservations", {"id": "cr", "outside": {"r1": 3}})
    assert (changed["total"], changed["used"]) == (5, 3)
    await call("PUT", "/control/reservations", {"id": "cr", "outside": {}, "after": "1h"})
    _, stock = await call("PUT", "/control/stock", {"shape": "p5.48xlarge", "zone": "z2", "count": 0})
    assert stock["count"] == 0
    await call("PUT", "/control/stock", {"shape": "p5.48xlarge", "zone": "z2", "count": 7, "after": "0s"})
    assert [each["available"] for each in (await call("GET", "/control/stock"))[1]["stock"]] == [7, 20, 7]
    (later,) = (await call("GET", "/control/changes"))[1]["changes"]
    assert later["reservation"] == {"id": "cr", "outside": {}}
    assert (await call("GET", "/control/reservations"))[1]["reservations"][0]["used"] == 3


async def test_log_tells_every_call_and_its_outcome(call: Caller) -> None:
    await call("POST", "/control/faults", {"kind": "error", "call": "terminate", "code": "Unavailable", "when": "after"})
    _, bought = await call("POST", "/v1/launch", LAUNCH)
    await call("POST", "/v1/launch", {**LAUNCH, "token": "u", "count": 99})
    assert (await call("POST", "/v1/terminate", {"ids": [bought["instances"][0]["id"]]}))[0] == 503
    await call("GET", "/v1/instances?token=t")
    _, log = await call("GET", "/control/calls")
    assert [(each["number"], each["call"], each["outcome"], each.get("instances", 0)) for each in log["calls"]] == [
        (1, "launch", "ok", 1),
        (2, "launch", "InsufficientInstanceCapacity", 0),
        (3, "terminate", "Unavailable: ok", 1),
        (4, "instances", "ok", 1),
    ]
    assert log["calls"][0]["request"] == LAUNCH
    assert log["calls"][3]["request"] == {"token": "t"}
    assert [each["number"] for each in (await call("GET", "/control/calls?after=3"))[1]["calls"]] == [4]
