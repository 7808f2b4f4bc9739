"""The control API: what a real cloud has no call for. Never throttled, never struck by a fault."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from kube.meta import Record
from kube.ours import Duration
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.api import answer, body
from provisioner.clouds.simulated.engine import Engine
from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.faults import FaultRequest
from provisioner.clouds.simulated.records import Announcement, Change, Machine, ReservationChange, Stock
from provisioner.clouds.simulated.wire import Strict, seconds
from provisioner.clouds.simulated.world import World


class ReservationOrder(ReservationChange, frozen=True, kw_only=True):
    """A change of a reservation, now or `after` some time."""

    after: Duration | None = None


class StockOrder(Stock, frozen=True, kw_only=True):
    """New on-demand stock of a shape in a zone, now or `after` some time."""

    after: Duration | None = None


class ControlApi:
    """Handlers of `/control`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/control/instances", self._instances),
            web.get("/control/reservations", self._reservations),
            web.put("/control/reservations", self._change_reservation),
            web.get("/control/stock", self._stock),
            web.put("/control/stock", self._set_stock),
            web.get("/control/changes", self._changes),
            web.get("/control/faults", self._faults),
            web.post("/control/faults", self._add_fault),
            web.delete("/control/faults", self._clear_faults),
            web.delete("/control/faults/{id}", self._clear_fault),
            web.post("/control/announcements", self._announce),
            web.get("/control/calls", self._calls),
        ]

    async def _instances(self, _: web.Request) -> web.Response:
        """Every machine there ever was, hidden ones too."""
        return answer({"instances": await self._engine.do(lambda world, now: [_whole(world, each, now) for each in _all(world)])})

    async def _reservations(self, _: web.Request) -> web.Response:
        def work(world: World, now: datetime) -> list[Record]:
            return [views.reservation_view(world.room(now), each) for each in world.memory.reservations.values()]

        return answer({"reservations": await self._engine.do(work)})

    async def _change_reservation(self, request: web.Request) -> web.Response:
        order = await body(request, ReservationOrder)
        change = _base(order, ReservationChange)

        def work(world: World, now: datetime) -> Record:
            if order.after is not None:
                return world.schedule(Change(id=_identity(), at=_due(now, order.after), reservation=change))
            return views.reservation_view(world.room(now), world.change_reservation(change, now))

        return answer(await self._engine.do(work))

    async def _stock(self, _: web.Request) -> web.Response:
        def work(world: World, now: datetime) -> list[dict[str, Any]]:
            room = world.room(now)
            return [{**each.to_json(), "available": room.on_demand_free(each)} for each in world.memory.stock.values()]

        return answer({"stock": await self._engine.do(work)})

    async def _set_stock(self, request: web.Request) -> web.Response:
        order = await body(request, StockOrder)
        stock = _base(order, Stock)

        def work(world: World, now: datetime) -> Record:
            if order.after is not None:
                return world.schedule(Change(id=_identity(), at=_due(now, order.after), stock=stock))
            return world.set_stock(stock)

        return answer(await self._engine.do(work))

    async def _changes(self, _: web.Request) -> web.Response:
        return answer({"changes": await self._engine.do(lambda world, _: list(world.memory.changes.values()))})

    async def _faults(self, _: web.Request) -> web.Response:
        return answer({"faults": await self._engine.do(lambda world, _: list(world.memory.faults.values()))})

    async def _add_fault(self, request: web.Request) -> web.Response:
        wanted = await body(request, FaultRequest)
        return answer(await self._engine.do(lambda world, now: world.add_fault(wanted, _identity(), now)), 201)

    async def _clear_faults(self, _: web.Request) -> web.Response:
        def work(world: World, now: datetime) -> None:
            world.clear_faults([fault.id for fault in world.memory.faults.values()], now)

        await self._engine.do(work)
        return answer({})

    async def _clear_fault(self, request: web.Request) -> web.Response:
        await self._engine.do(lambda world, now: world.clear_faults([request.match_info["id"]], now))
        return answer({})

    async def _announce(self, request: web.Request) -> web.Response:
        wanted = await body(request, Announcement)
        told = await self._engine.do(lambda world, now: [_whole(world, each, now) for each in world.announce(wanted, now)])
        return answer({"instances": told}, 201)

    async def _calls(self, request: web.Request) -> web.Response:
        after = request.query.get("after", "0")
        if not after.isdecimal():
            raise Refused("InvalidParameterValue", f"after={after} must be the number of a call")
        return answer({"calls": await self._engine.calls(int(after))})


def _all(world: World) -> list[Machine]:
    return list(world.memory.machines.values())


def _whole(world: World, machine: Machine, now: datetime) -> dict[str, Any]:
    return {**machine.to_json(), **views.instance(world.config, machine, now).to_json()}


def _base(order: Strict, type_: type[Any]) -> Any:
    """The part of an order that is of its base type."""
    return type_(**{name: getattr(order, name) for name in type_.__struct_fields__})


def _due(now: datetime, after: str) -> datetime:
    return now + timedelta(seconds=seconds(after))


def _identity() -> str:
    return uuid.uuid4().hex[:8]
