"""The twin of the API server keeps the contract that e2e/test_twin_contract.py checks of the real one."""

from datetime import UTC, datetime

import pytest

from runtime.client import Client
from runtime.errors import Gone, from_status
from tests.faults import loop
from tests.faults.contract import CHECKS, REQUESTS, Check, events, request
from tests.faults.kinds import Script
from tests.faults.objects import Objects
from tests.faults.server import Server
from tests.faults.wire import Process, Wire


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
