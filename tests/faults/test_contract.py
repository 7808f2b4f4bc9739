"""The twin of the API server keeps the contract that e2e/test_twin_contract.py checks of the real one."""

from datetime import UTC, datetime

import pytest

from kube.resources import NODES
from runtime.client import Client, Resource
from runtime.errors import Gone, Invalid, NotFound, Unauthorized, from_status
from tests.faults import loop
from tests.faults.contract import CHECKS, REQUESTS, Check, events, request
from tests.faults.kinds import Fault, Script
from tests.faults.objects import Objects
from tests.faults.server import Server
from tests.faults.wire import Process, Wire

NODE = Resource(*NODES)


class Anything(Script):
    """No faults, and no list of calls: these aren't the provisioner's."""

    def strikes(self, call: str) -> str:
        return ""


def twin() -> tuple[Objects, Client]:
    objects = Objects(lambda: datetime(2026, 9, 1, 10, 0, tzinfo=UTC))
    return objects, Client(Wire(Server(objects), Process(Anything())))


@pytest.mark.parametrize("check", CHECKS, ids=[each.__name__ for each in CHECKS])
def test_the_twin_keeps_the_contract(check: Check) -> None:
    async def go() -> None:
        _, client = twin()
        await check(client, "space")

    loop.run(go)


def test_a_forgotten_version_is_410() -> None:
    """As e2e/test_runtime_contract.py sees it of the real one."""

    async def go() -> None:
        objects, client = twin()
        await client.create(REQUESTS, request("a", "space"))
        objects.compacted = objects.version
        chunks = client.watch(REQUESTS, "space", {"resourceVersion": "1"})
        assert b'"ERROR"' in (first := await anext(chunks))
        assert b'"code":410' in first
        await chunks.aclose()

    loop.run(go)
    assert isinstance(from_status({"code": 410, "reason": "Expired"}, 410), Gone)
    assert events


def test_a_401_outlives_the_new_credentials_and_a_422_is_as_invalid_as_a_real_one() -> None:
    """The client sends once more what was answered with 401: one such answer alone would never be seen behind it."""

    async def go() -> None:
        script = Script([Fault("api get nodes", 1, "401"), Fault("api patch nodes", 1, "422")])
        client = Client(Wire(Server(Objects(lambda: datetime(2026, 9, 1, 10, 0, tzinfo=UTC))), Process(script)))
        with pytest.raises(Unauthorized):
            await client.get(NODE, "n")
        with pytest.raises(Invalid):
            await client.patch(NODE, "n", {})
        with pytest.raises(NotFound):
            await client.get(NODE, "n")
        assert script.counts == {"api get nodes": 2, "api patch nodes": 1}

    loop.run(go)
