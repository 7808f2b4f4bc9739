"""The admin API: what the account holds, its clock, faults, and the calls that were made. JSON in, JSON out."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from e2e.clouds.ec2.faults import Fault
from e2e.clouds.ec2.instances import Instance
from e2e.clouds.ec2.objects import Change
from e2e.clouds.ec2.room import free_slots, stock_places
from e2e.clouds.ec2.service import Entry, Service
from kube.meta import Record
from provisioner.clouds.simulated.wire import Strict

Body = TypeVar("Body", bound=Record)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Tick(Strict, frozen=True, kw_only=True):
    """Seconds that pass at once, and seconds a second from then on."""

    advance: float = 0
    rate: float | None = None


class Kill(Strict, frozen=True, kw_only=True):
    """Instances that the cloud ends by itself."""

    ids: tuple[str, ...]
    code: str = "Server.InternalError"
    message: str = "Server.InternalError: Internal error on launch"


class Admin:
    """Handlers of `/_admin`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/_admin/healthz", self._healthz),
            web.get("/_admin/state", self._state),
            web.put("/_admin/state", self._change),
            web.delete("/_admin/{kind:reservations|stock|subnets}/{key:.+}", self._remove),
            web.get("/_admin/instances", self._instances),
            web.post("/_admin/kill", self._kill),
            web.get("/_admin/calls", self._calls),
            web.delete("/_admin/calls", self._forget),
            web.get("/_admin/faults", self._faults),
            web.post("/_admin/faults", self._add_fault),
            web.delete("/_admin/faults", self._clear_faults),
            web.get("/_admin/clock", self._clock),
            web.post("/_admin/clock", self._tick),
        ]

    async def _healthz(self, request: web.Request) -> web.Response:
        return _json({})

    async def _state(self, request: web.Request) -> web.Response:
        """Objects by kind, and what is really free of each stock and reservation."""
        account, now = self._service.account, self._service.clock.now()
        account.advance(now)
        kinds = ("zones", "subnets", "security_groups", "launch_templates", "placement_groups", "auto_scaling_groups", "quotas")
        objects = {kind: [each.to_json() for each in getattr(account, kind).values()] for kind in kinds}
        stock = [{**each.to_json(), "free": len(stock_places(account, each, now))} for each in account.stock.values()]
        reserved = [{**each.to_json(), "free": len(free_slots(account, each, now))} for each in account.reservations.values()]
        settings = msgspec.to_builtins(account.settings)
        return _json({"settings": settings, **objects, "stock": stock, "reservations": reserved})

    async def _change(self, request: web.Request) -> web.Response:
        try:
            self._service.account.change(await _body(request, Change))
        except msgspec.ValidationError as error:
            raise _bad(f"settings: {error}") from error
        return _json({})

    async def _remove(self, request: web.Request) -> web.Response:
        there = getattr(self._service.account, request.match_info["kind"])
        if there.pop(request.match_info["key"], None) is None:
            raise _bad(f"{request.path} is not there", web.HTTPNotFound)
        return _json({})

    async def _instances(self, request: web.Request) -> web.Response:
        """All of them, visible to calls or not."""
        account, now = self._service.account, self._service.clock.now()
        account.advance(now)
        return _json([self._told(each, now) for each in account.instances.values()])

    async def _kill(self, request: web.Request) -> web.Response:
        order, account = await _body(request, Kill), self._service.account
        if unknown := [each for each in order.ids if each not in account.instances]:
            raise _bad(f"ids: {', '.join(unknown)} are not there")
        for each in order.ids:
            account.stop(account.instances[each], self._service.clock.now(), (order.code, order.message))
        return _json({})

    async def _calls(self, request: web.Request) -> web.Response:
        """`?operation=` and `?after=` (a number) narrow; `?count` gives numbers by operation."""
        wanted, after = request.query.get("operation"), int(request.query.get("after", "0"))
        found = [each for each in self._service.log if wanted in (None, each.operation) and each.number > after]
        if "count" in request.query:
            return _json(dict(Counter(each.operation for each in found)))
        return _json([_entry(each) for each in found])

    async def _forget(self, request: web.Request) -> web.Response:
        self._service.log.clear()
        return _json({})

    async def _faults(self, request: web.Request) -> web.Response:
        return _json([each.to_json() for each in self._service.faults.pending])

    async def _add_fault(self, request: web.Request) -> web.Response:
        self._service.faults.pending.append(await _body(request, Fault))
        return _json({})

    async def _clear_faults(self, request: web.Request) -> web.Response:
        self._service.faults.pending.clear()
        return _json({})

    async def _clock(self, request: web.Request) -> web.Response:
        return _json({"now": self._service.clock.now(), "rate": self._service.clock.rate})

    async def _tick(self, request: web.Request) -> web.Response:
        tick, clock = await _body(request, Tick), self._service.clock
        if tick.rate is not None:
            clock.run(tick.rate)
        clock.advance(tick.advance)
        return await self._clock(request)

    def _told(self, each: Instance, now: datetime) -> dict[str, Any]:
        groups = [self._service.account.security_groups[name] for name in each.spec.security_groups]
        return {
            "id": each.id,
            "state": each.state(now),
            "type": each.spec.type,
            "zone": each.spec.zone,
            "subnet": each.spec.subnet,
            "reservation": each.reservation,
            "source": each.source,
            "nodes": each.nodes,
            "group": each.spec.group,
            "token": each.token,
            "tags": each.tags,
            "efa": each.spec.efa,
            "efaWorks": any(group.from_itself and group.to_itself for group in groups),
            "visible": each.shows(now),
            "holdsSlot": each.holds(now),
            "joined": each.joined,
            "problem": each.problem,
        }


def _entry(each: Entry) -> dict[str, Any]:
    return {
        "number": each.number,
        "at": each.at,
        "service": each.service,
        "operation": each.operation,
        "parameters": each.params,
        "outcome": each.outcome,
        "status": each.status,
        "message": each.message,
        "fault": each.fault,
    }


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value) + b"\n", content_type="application/json")


def _bad(text: str, kind: type[web.HTTPException] = web.HTTPBadRequest) -> web.HTTPException:
    return kind(text=text)


async def _body(request: web.Request, type_: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await request.read(), type=type_)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise _bad(str(error)) from error
