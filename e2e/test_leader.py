"""Leadership among real processes over a real API server: killed, frozen, and stopped in order."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from runtime.client import Client
from runtime.lease import LEASES
from runtime.settings import ClientSettings

LEASE = 3.0
"""Seconds; e2e/elector.py sets the same."""

Start = Callable[[], Awaitable[Process]]


@pytest.fixture
async def start(kubeconfig: Path, namespace: str) -> AsyncIterator[Start]:
    """Starts one more candidate for the same lease."""
    started: list[Process] = []

    async def one() -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "e2e.elector", str(kubeconfig), namespace, "leader", stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        await told(process, "candidate")
        return process

    yield one
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def told(process: Process, word: str, seconds: float = 50.0) -> float:
    """Waits until a candidate says that word, and returns when it said so by the system's monotonic clock."""
    assert process.stdout
    async with asyncio.timeout(seconds):
        async for line in process.stdout:
            said, at = line.decode().split()
            if said == word:
                return float(at)
    raise AssertionError(f"the candidate ended before it said {word!r}")


async def leader_and_follower(start: Start) -> tuple[Process, Process]:
    leader = await start()
    follower = await start()
    with pytest.raises(TimeoutError):
        await told(follower, "start", LEASE + 2)
    return leader, follower


async def holder(kubeconfig: Path, namespace: str) -> tuple[str, int]:
    client = await Client.connect(ClientSettings(kubeconfig=str(kubeconfig)))
    try:
        spec = (await client.get(LEASES, "leader", namespace))["spec"]
        return spec["holderIdentity"], spec["leaseTransitions"]
    finally:
        await client.close()


async def test_a_killed_leader_is_succeeded(start: Start, kubeconfig: Path, namespace: str) -> None:
    leader, follower = await leader_and_follower(start)
    before, _ = await holder(kubeconfig, namespace)
    leader.kill()
    await told(follower, "start", 2 * LEASE + 2)
    after, transitions = await holder(kubeconfig, namespace)
    assert after != before
    assert transitions == 2


async def test_a_frozen_leader_ends_itself_when_it_wakes(start: Start) -> None:
    leader, follower = await leader_and_follower(start)
    leader.send_signal(signal.SIGSTOP)
    await told(follower, "start", 2 * LEASE + 2)
    leader.send_signal(signal.SIGCONT)
    async with asyncio.timeout(5):
        assert await leader.wait() != 0
    assert follower.returncode is None


async def test_a_leader_that_is_stopped_hands_over_within_two_seconds(start: Start, kubeconfig: Path, namespace: str) -> None:
    leader, follower = await leader_and_follower(start)
    leader.terminate()
    stopped = await told(leader, "stop")
    began = await told(follower, "start")
    assert 0 < began - stopped < 2.0
    assert await leader.wait() == 0
    follower.terminate()
    assert await follower.wait() == 0
    assert (await holder(kubeconfig, namespace))[0] == ""


async def test_a_follower_that_is_stopped_leaves_the_leader_alone(start: Start) -> None:
    leader, follower = await leader_and_follower(start)
    follower.terminate()
    async with asyncio.timeout(5):
        assert await follower.wait() == 0
    with pytest.raises(TimeoutError):
        await told(leader, "stop", LEASE)
