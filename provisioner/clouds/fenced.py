"""A Cloud whose calls that change something are made only by the leader, looked at right before each.

A cloud that queues its calls in threads must check the same fence there once more: minutes may pass in the queue.
"""

from collections.abc import Sequence

from capacity.model import Labels
from provisioner.clouds.base import EVERYTHING, Cloud, Instance, Inventory, Order, Wanted
from runtime.fence import Fence


class FencedCloud:
    """`launch` and `terminate` raise Deposed, besides CloudError, while the fence is shut."""

    def __init__(self, cloud: Cloud, fence: Fence) -> None:
        self._cloud, self._fence = cloud, fence

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:
        return await self._cloud.inventory(wanted)

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        self._fence.check()
        return await self._cloud.launch(order)

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return await self._cloud.instances(tags)

    async def terminate(self, ids: Sequence[str]) -> None:
        self._fence.check()
        await self._cloud.terminate(ids)

    async def close(self) -> None:
        await self._cloud.close()
