"""The real API server keeps the contract by which the fault tests' twin was made (tests/faults/contract.py)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.client import Client
from runtime.settings import ClientSettings
from tests.faults.contract import CHECKS, Check


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    made = await Client.connect(ClientSettings(kubeconfig=str(kubeconfig)))
    yield made
    await made.close()


@pytest.mark.parametrize("check", CHECKS, ids=[each.__name__ for each in CHECKS])
async def test_the_api_server_keeps_the_contract(client: Client, namespace: str, check: Check) -> None:
    await check(client, namespace)
