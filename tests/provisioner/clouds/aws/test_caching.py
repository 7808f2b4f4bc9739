"""How long answers are kept, in virtual time."""

import asyncio

import pytest

from provisioner.clouds.aws.caching import RETRY, STALE, Cached
from provisioner.clouds.base import CloudError, ErrorKind


class Source:
    def __init__(self) -> None:
        self.reads = 0
        self.error: CloudError | None = None

    async def read(self) -> int:
        await asyncio.sleep(1)
        self.reads += 1
        if self.error:
            raise self.error
        return self.reads


@pytest.mark.looptime
async def test_those_who_ask_at_once_share_one_call_until_it_is_old() -> None:
    source = Source()
    cached = Cached(source.read, 60)
    assert await asyncio.gather(*(cached.get() for _ in range(5))) == [1] * 5
    await asyncio.sleep(58)
    assert await cached.get() == 1
    await asyncio.sleep(3)
    assert await cached.get() == 2
    cached.drop()
    assert await cached.get() == 3


@pytest.mark.looptime
async def test_an_answer_that_was_dropped_while_it_was_on_its_way_serves_nobody_who_asks_later() -> None:
    cached = Cached(Source().read, 60)
    early = asyncio.create_task(cached.get())
    await asyncio.sleep(0.5)
    cached.drop()
    assert (await early, await cached.get(), await cached.get()) == (1, 2, 2)


@pytest.mark.looptime
async def test_an_answer_serves_on_while_the_cloud_is_silent_but_not_for_ever() -> None:
    source = Source()
    cached = Cached(source.read, 60)
    await cached.get()
    source.error = CloudError(ErrorKind.UNKNOWN, "silent")
    await asyncio.sleep(61)
    assert await cached.get() == 1
    assert (await cached.get(), source.reads) == (1, 2)  # not asked again at once
    await asyncio.sleep(RETRY + 1)
    assert (await cached.get(), source.reads) == (1, 3)
    await asyncio.sleep(STALE)
    with pytest.raises(CloudError, match="silent"):
        await cached.get()


@pytest.mark.looptime
async def test_what_is_wrong_for_good_is_told_at_once() -> None:
    source = Source()
    cached = Cached(source.read, 60)
    await cached.get()
    source.error = CloudError(ErrorKind.CONFIG, "no such template")
    await asyncio.sleep(61)
    with pytest.raises(CloudError, match="no such template"):
        await cached.get()
