"""The simulated cloud's own state machine asked in this process, with its answers read as its client reads them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from capacity.model import Labels
from provisioner.clouds.base import CloudError, Instance, Inventory, Order
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.client import _instance, _inventory, _launch
from provisioner.clouds.simulated.errors import CODES, Refused
from provisioner.clouds.simulated.records import Machine
from provisioner.clouds.simulated.wire import LaunchRequest
from provisioner.clouds.simulated.world import World

T = TypeVar("T")


class InProcess:
    """The calls of a Cloud, each answered at once."""

    def __init__(self, world: World, now: Callable[[], datetime]) -> None:
        self.world, self.now = world, now

    def inventory(self) -> Inventory:
        return self._do(lambda now: _inventory(views.inventory(self.world.room(now))))

    def launch(self, order: Order) -> tuple[Instance, ...]:
        wanted = msgspec.convert(_launch(order), LaunchRequest)
        return self._do(lambda now: self._told(self.world.launch(wanted, now), now))

    def instances(self, tags: Labels) -> tuple[Instance, ...]:
        return self._do(lambda now: self._told(self.world.described(now, tags=tags), now))

    def terminate(self, ids: Sequence[str]) -> None:
        self._do(lambda now: self.world.terminate(ids, now))

    def _told(self, machines: Sequence[Machine], now: datetime) -> tuple[Instance, ...]:
        return tuple(_instance(views.instance(self.world.config, each, now)) for each in machines)

    def _do(self, work: Callable[[datetime], T]) -> T:
        now = self.now()
        self.world.advance(now)
        try:
            return work(now)
        except Refused as refused:
            raise CloudError(CODES[refused.code].kind, refused.message) from None
