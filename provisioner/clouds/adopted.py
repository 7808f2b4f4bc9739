"""Nodes that are there already: Corral books them, and never buys or ends one."""

from collections.abc import Sequence

from capacity.model import Labels
from provisioner.clouds.base import EVERYTHING, CloudError, ErrorKind, Instance, Inventory, Order, Wanted


class AdoptedNodes:
    """A Cloud that has nothing to sell."""

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:  # noqa: ARG002 nothing is sold
        return Inventory()

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        raise CloudError(
            ErrorKind.CONFIG, f"adopted nodes can't be bought: give the pool another provider to launch {order.shape}"
        )

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:  # noqa: ARG002 none whatever the tags
        return ()

    async def terminate(self, ids: Sequence[str]) -> None:
        """Raises CONFIG when asked to end a node: they aren't ours."""
        if ids:
            raise CloudError(ErrorKind.CONFIG, f"adopted nodes are never terminated: {', '.join(ids)}")

    async def close(self) -> None:
        return
