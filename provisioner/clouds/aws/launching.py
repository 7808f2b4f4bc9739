"""The launch of one order: which calls are made, one after another, and what their answers mean."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from provisioner.clouds.aws import errors, machines, orders
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.orders import Launch, Site
from provisioner.clouds.base import CloudError, ErrorKind, Instance, Order

JITTER = 5.0
"""Seconds over which launches into a contended reservation are spread."""
_OPEN = (ErrorKind.UNKNOWN, ErrorKind.THROTTLED)


class Launcher:
    """Remembers, for as long as the process lives, in which subnet an order was tried last: a repeat goes there first, so that a
    launch whose reply was lost is met again by its token.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._subnet: dict[tuple[str, int], int] = {}
        self._contended: set[str] = set()

    async def launch(self, order: Order, site: Site) -> tuple[Instance, ...]:
        """All machines of the order, or fewer if a later one of several calls was refused. Raises CloudError when there are none,
        or when the outcome of a call isn't known."""
        await self._give_way(order)
        found: list[Instance] = []
        for number, count in enumerate(orders.chunks(order.count)):
            try:
                found += await self._chunk(order, site, number, count)
            except CloudError as error:
                if error.kind in _OPEN or not found:
                    raise
                break
        self._contended.discard(order.reservation or "")
        return tuple(found)

    async def _give_way(self, order: Order) -> None:
        """Where others were found to compete, each waits for a different while, so that one of them gets all it needs."""
        if order.reservation in self._contended:
            await asyncio.sleep(JITTER * int(hashlib.sha256(order.token.encode()).hexdigest()[:4], 16) / 0xFFFF)

    async def _chunk(self, order: Order, site: Site, number: int, count: int) -> tuple[Instance, ...]:
        try:
            if orders.by_fleet(order, site):
                return await self._made(order, site, orders.fleet(order, site, number, count))
            return await self._in_a_subnet(order, site, number, count)
        except ValueError as problem:
            raise CloudError(ErrorKind.CONFIG, f"provider.aws.launchTemplate {site.template.id}: {problem}") from problem
        except CloudError as error:
            if error.kind is ErrorKind.RESERVATION_FULL and order.reservation:
                self._contended.add(order.reservation)
            raise errors.hinted(error, order.zone, site.zones) from error

    async def _in_a_subnet(self, order: Order, site: Site, number: int, count: int) -> tuple[Instance, ...]:
        """In the first subnet with room for all."""
        key = (order.token, number)
        last = len(site.subnets) - 1
        while True:
            subnet = self._subnet.setdefault(key, 0)
            try:
                found = await self._made(order, site, orders.run(order, site, number, count, min(subnet, last)))
            except CloudError as error:
                if errors.NO_ADDRESSES not in error.message or subnet >= last:
                    raise
                self._subnet[key] = subnet + 1
            else:
                self._subnet.pop(key, None)
                return found

    async def _made(self, order: Order, site: Site, launch: Launch) -> tuple[Instance, ...]:
        answer = await self._calls.call(launch.op, **launch.parameters)
        found = machines.launched(answer, order, launch, site)
        if not found:
            raise _none(launch.op, answer)
        if all(each.state.ending for each in found):
            raise CloudError(ErrorKind.NOT_FOUND, f"the machines of token {order.token} were terminated")
        return found


def _none(op: Op, answer: Mapping[str, Any]) -> CloudError:
    """A fleet says why in an answer that is no error."""
    if op is Op.FLEET:
        return errors.of_fleet(answer.get("Errors") or ())
    return CloudError(ErrorKind.UNKNOWN, "RunInstances answered without any instance")
