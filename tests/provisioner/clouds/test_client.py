"""The simulated cloud's client: classes of errors, time limits, and which calls are tried again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from provisioner.clouds.base import CloudError, ErrorKind, Order, Timeouts
from provisioner.clouds.simulated.client import SimulatedCloud
from provisioner.clouds.simulated.errors import CODES, classify
from tests.provisioner.clouds.conftest import Serve

ORDER = Order(token="t1", shape="p5.48xlarge", zone="z1", capacity_type="on-demand", count=2, tags={"a": "b"})


QUICK = Timeouts(read=2, launch=2)


@asynccontextmanager
async def connected(url: str, timeouts: Timeouts = QUICK) -> AsyncIterator[SimulatedCloud]:
    cloud = SimulatedCloud(url, timeouts)
    try:
        yield cloud
    finally:
        await cloud.close()


async def control(url: str, method: str, path: str, body: Any = None) -> Any:
    async with aiohttp.ClientSession() as session, session.request(method, url + path, json=body) as response:
        response.raise_for_status()
        return await response.json()


async def calls(url: str, name: str) -> list[str]:
    """Outcomes of all calls of this name."""
    log = await control(url, "GET", "/control/calls")
    return [each["outcome"] for each in log["calls"] if each["call"] == name]


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        pytest.param("InsufficientInstanceCapacity", 500, ErrorKind.CAPACITY, id="a 500 that is no server error"),
        pytest.param("ReservationCapacityExceeded", 400, ErrorKind.RESERVATION_FULL, id="reservation full"),
        pytest.param("VcpuLimitExceeded", 400, ErrorKind.QUOTA, id="quota"),
        pytest.param("Unsupported", 400, ErrorKind.CONFIG, id="shape not in the zone"),
        pytest.param("IdempotentParameterMismatch", 400, ErrorKind.CONFIG, id="token with other parameters"),
        pytest.param("IdempotentInstanceTerminated", 400, ErrorKind.NOT_FOUND, id="token of the dead"),
        pytest.param("InvalidInstanceID.NotFound", 400, ErrorKind.NOT_FOUND, id="unknown instance"),
        pytest.param("RequestLimitExceeded", 429, ErrorKind.THROTTLED, id="throttled"),
        pytest.param("InternalError", 500, ErrorKind.UNKNOWN, id="may have succeeded"),
        pytest.param("NeverHeardOf", 500, ErrorKind.UNKNOWN, id="unlisted server error"),
        pytest.param("NeverHeardOf", 403, ErrorKind.CONFIG, id="unlisted refusal"),
        pytest.param("NeverHeardOf", 429, ErrorKind.THROTTLED, id="unlisted throttling"),
    ],
)
def test_classify(code: str, status: int, kind: ErrorKind) -> None:
    assert classify(code, status) is kind


@pytest.mark.parametrize("code", CODES)
async def test_every_code_arrives_as_its_class_with_the_clouds_own_words(serve: Serve, code: str) -> None:
    fault = {"kind": "error", "call": "launch", "code": code, "message": "so the cloud says"}
    async with serve(faults=[fault]) as url, connected(url) as cloud:
        with pytest.raises(CloudError, match=f"{code}: so the cloud says") as caught:
            await cloud.launch(ORDER)
        assert caught.value.kind is CODES[code].kind
        assert await cloud.instances({}) == ()


async def test_lost_reply_is_unknown_and_the_machines_are_found_by_tag_and_token(serve: Serve) -> None:
    async with serve(faults=[{"kind": "lost-reply", "call": "launch", "times": 1}]) as url, connected(url) as cloud:
        with pytest.raises(CloudError) as caught:
            await cloud.launch(ORDER)
        assert caught.value.kind is ErrorKind.UNKNOWN
        found = await cloud.instances({"a": "b"})
        assert {each.id for each in await cloud.launch(ORDER)} == {each.id for each in found}
        assert await calls(url, "launch") == ["lost-reply: ok", "ok"]


@pytest.mark.parametrize(("when", "bought"), [("before", 0), ("after", 2)])
async def test_timeout_is_unknown_whether_or_not_it_was_done(serve: Serve, when: str, bought: int) -> None:
    fault = {"kind": "timeout", "call": "launch", "when": when, "delay": "3s"}
    async with serve(faults=[fault]) as url, connected(url, Timeouts(read=2, launch=0.3)) as cloud:
        start = time.monotonic()
        with pytest.raises(CloudError) as caught:
            await cloud.launch(ORDER)
        assert time.monotonic() - start < 2
        assert caught.value.kind is ErrorKind.UNKNOWN
        assert len(await cloud.instances({})) == bought


async def test_reads_are_tried_three_times(serve: Serve) -> None:
    storm = {"kind": "error", "code": "Unavailable", "times": 2}
    faults = [{**storm, "call": "inventory"}, {**storm, "call": "instances", "times": 3}]
    async with serve(faults=faults) as url, connected(url) as cloud:
        assert (await cloud.inventory()).shapes
        with pytest.raises(CloudError) as caught:
            await cloud.instances({})
        assert caught.value.kind is ErrorKind.UNKNOWN
        assert len(await calls(url, "instances")) == 3


@pytest.mark.parametrize("code", ["Unavailable", "RequestLimitExceeded", "InsufficientInstanceCapacity"])
async def test_launch_and_terminate_are_sent_once(serve: Serve, code: str) -> None:
    faults = [{"kind": "error", "call": call, "code": code} for call in ("launch", "terminate")]
    async with serve(faults=faults) as url, connected(url) as cloud:
        with pytest.raises(CloudError):
            await cloud.launch(ORDER)
        with pytest.raises(CloudError):
            await cloud.terminate(["i-1", "i-2"])
        assert (await calls(url, "launch"), await calls(url, "terminate")) == ([f"{code}: not done"], [f"{code}: not done"])


async def test_token_bucket_throttles_each_call_apart(serve: Serve) -> None:
    async with serve(throttle={"burst": 2, "perSecond": 1}) as url, connected(url) as cloud:
        await cloud.launch(ORDER)
        await cloud.launch(ORDER)
        with pytest.raises(CloudError) as caught:
            await cloud.launch(ORDER)
        assert caught.value.kind is ErrorKind.THROTTLED
        assert await cloud.instances({})
        await asyncio.sleep(1.1)
        assert await cloud.launch(ORDER)


async def test_server_that_is_not_there(unused_url: str) -> None:
    async with connected(unused_url) as cloud:
        for call in (cloud.launch(ORDER), cloud.terminate(["i-1"]), cloud.inventory(), cloud.instances({})):
            with pytest.raises(CloudError, match=unused_url) as caught:
                await call
            assert caught.value.kind is ErrorKind.UNKNOWN


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_answer_of_something_else_is_unknown(status: int) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>", status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with connected(f"http://127.0.0.1:{runner.addresses[0][1]}") as cloud:
        with pytest.raises(CloudError, match=f"HTTP {status}") as caught:
            await cloud.launch(ORDER)
    assert caught.value.kind is ErrorKind.UNKNOWN
    await runner.cleanup()


async def test_records_of_the_inventory(serve: Serve) -> None:
    block = {"id": "cb", "shape": "p5.48xlarge", "zone": "z2", "capacityType": "capacity-block", "count": 1}
    window = {"starts": "2026-11-30T12:00:00Z", "ends": "2099-01-01T00:00:00Z"}
    async with serve(reservations=[{**block, **window}]) as url, connected(url) as cloud:
        inventory = await cloud.inventory()
    shapes = {each.shape.name: each for each in inventory.shapes}
    assert shapes["p5.48xlarge"].on_demand_price == 55_040_000
    assert shapes["p5.48xlarge"].shape.allocatable["nvidia.com/gpu"] == 8
    assert shapes["p5.48xlarge"].shape.allocatable["cpu"] == 190_000
    assert shapes["p5.48xlarge"].shape.allocatable["memory"] == 1950 * 2**30
    (reservation,) = inventory.reservations
    assert (reservation.starts, reservation.ends) == (1_796_040_000, 4_070_908_800)
    assert reservation.free_by_domain == ()
    assert {(each.shape, each.zone, each.available) for each in inventory.stock} == {
        ("p5.48xlarge", "z1", None),
        ("m7i.4xlarge", "z1", 20),
        ("p5.48xlarge", "z2", None),
    }


@pytest.fixture
async def unused_url() -> str:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"http://127.0.0.1:{port}"


async def test_an_inventory_of_nonsense_is_unknown(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def price(_: str) -> int:
        raise ValueError("no amount of money")

    monkeypatch.setattr("provisioner.clouds.simulated.client.money", price)
    async with serve() as url, connected(url) as cloud:
        with pytest.raises(CloudError) as caught:
            await cloud.inventory()
    assert caught.value.kind is ErrorKind.UNKNOWN
