"""Nobody but the leader buys or ends machines; anybody may look."""

import pytest

from provisioner.clouds.base import Order
from provisioner.clouds.fenced import FencedCloud
from runtime.fence import FOREVER, Deposed, Fence
from tests.provisioner.fake_api import Api, FakeCloud

ORDER = Order("t", "h100", "z1", "on-demand", 1, tags={"a": "b"})


async def test_a_deposed_leader_buys_and_ends_nothing() -> None:
    inner, fence = FakeCloud(Api()), Fence()
    cloud = FencedCloud(inner, fence)
    fence.open(FOREVER, lambda: 0.0)
    [bought] = await cloud.launch(ORDER)
    fence.shut()
    with pytest.raises(Deposed):
        await cloud.launch(ORDER)
    with pytest.raises(Deposed):
        await cloud.terminate([bought.id])
    assert await cloud.instances({"a": "b"}) == (bought,)
    assert (len(inner.orders), inner.terminated) == (1, [])
    fence.open(FOREVER, lambda: 0.0)
    await cloud.terminate([bought.id])
    assert inner.terminated == [bought.id]
