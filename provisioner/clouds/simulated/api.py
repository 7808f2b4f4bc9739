"""The cloud's HTTP API: launch, terminate, instances, inventory. Every call may be throttled or struck by a fault."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from kube.meta import Record
from provisioner.clouds.simulated import views
from provisioner.clouds.simulated.config import Throttle
from provisioner.clouds.simulated.engine import Engine
from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.faults import TRANSPORT, Call, Fault, Target, take
from provisioner.clouds.simulated.wire import ErrorAnswer, ErrorView, Instances, InventoryView, LaunchRequest, TerminateRequest
from provisioner.clouds.simulated.world import World

Body = TypeVar("Body", bound=Record)
Work = Callable[[World, datetime], Record]
STALLED = 300.0
"""Seconds that a call hangs whose fault names no delay."""


class Bucket:
    """A token bucket on the loop's clock."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._tokens, self._at = float(throttle.burst), asyncio.get_running_loop().time()

    def take(self) -> bool:
        now = asyncio.get_running_loop().time()
        grown = self._tokens + (now - self._at) * self._throttle.per_second
        self._tokens, self._at = min(grown, self._throttle.burst), now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to, and the fault that spoils its answer."""

    answer: Record | Refused
    fault: Fault | None = None


class CloudApi:
    """Handlers of `/v1`; made inside a running loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        throttle = engine.world.config.throttle
        self._buckets: dict[Call, Bucket] = {
            "launch": Bucket(throttle),
            "terminate": Bucket(throttle),
            "instances": Bucket(throttle),
            "inventory": Bucket(throttle),
        }

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/launch", self._launch),
            web.post("/v1/terminate", self._terminate),
            web.get("/v1/instances", self._instances),
            web.get("/v1/inventory", self._inventory),
        ]

    async def _launch(self, request: web.Request) -> web.StreamResponse:
        order = await body(request, LaunchRequest)
        target = Target("launch", order.shape, order.zone, order.reservation)

        def work(world: World, now: datetime) -> Instances:
            return Instances(instances=tuple(views.instance(world.config, each, now) for each in world.launch(order, now)))

        return await self._answer(request, target, order.to_json(), work)

    async def _terminate(self, request: web.Request) -> web.StreamResponse:
        wanted = await body(request, TerminateRequest)

        def work(world: World, now: datetime) -> Instances:
            return Instances(
                instances=tuple(views.instance(world.config, each, now) for each in world.terminate(wanted.ids, now))
            )

        return await self._answer(request, Target("terminate"), wanted.to_json(), work)

    async def _instances(self, request: web.Request) -> web.StreamResponse:
        ids, token, tags = request.query.getall("id", []), request.query.get("token", ""), _tags(request)

        def work(world: World, now: datetime) -> Instances:
            machines = world.described(now, tags=tags, ids=ids, token=token)
            return Instances(instances=tuple(views.instance(world.config, each, now) for each in machines))

        asked = {"tags": tags, "ids": ids, "token": token}
        return await self._answer(request, Target("instances"), {key: value for key, value in asked.items() if value}, work)

    async def _inventory(self, request: web.Request) -> web.StreamResponse:
        def work(world: World, now: datetime) -> InventoryView:
            return views.inventory(world.room(now))

        return await self._answer(request, Target("inventory"), {}, work)

    async def _answer(self, request: web.Request, target: Target, asked: dict[str, Any], work: Work) -> web.StreamResponse:
        outcome = await self._engine.do(lambda world, now: self._attempt(world, now, target, asked, work))
        return await _deliver(request, outcome)

    def _attempt(self, world: World, now: datetime, target: Target, asked: dict[str, Any], work: Work) -> Outcome:
        if not self._buckets[target.call].take():
            outcome = Outcome(Refused("RequestLimitExceeded", "Request limit exceeded."))
        else:
            fault = take(world.memory.faults, TRANSPORT, target, now)
            outcome = Outcome(_do(work, world, now) if _is_done(fault) else Refused("Unavailable", "not done"), fault)
        count = len(outcome.answer.instances) if isinstance(outcome.answer, Instances) else 0
        message = outcome.answer.message if isinstance(outcome.answer, Refused) else ""
        self._engine.note(target.call, _words(outcome), request=asked, message=message, instances=count)
        return outcome


def _is_done(fault: Fault | None) -> bool:
    """Whether the call is done although a fault spoils its answer."""
    return fault is None or fault.kind == "lost-reply" or fault.when == "after"


def _do(work: Work, world: World, now: datetime) -> Record | Refused:
    try:
        return work(world, now)
    except Refused as refused:
        return refused


def _words(outcome: Outcome) -> str:
    inner = outcome.answer.code if isinstance(outcome.answer, Refused) else "ok"
    if outcome.fault is None:
        return inner
    done = inner if _is_done(outcome.fault) else "not done"
    return f"{outcome.fault.code if outcome.fault.kind == 'error' else outcome.fault.kind}: {done}"


async def _deliver(request: web.Request, outcome: Outcome) -> web.StreamResponse:
    fault = outcome.fault
    if fault is not None and fault.kind == "error":
        raise Refused(fault.code or "InternalError", fault.message or "An internal error has occurred")
    if fault is not None:
        return await _cut(request, fault.wait(STALLED) if fault.kind == "timeout" else 0)
    if isinstance(outcome.answer, Refused):
        raise outcome.answer
    return answer(outcome.answer)


async def _cut(request: web.Request, delay: float) -> web.StreamResponse:
    """No answer at all: the connection breaks after a while."""
    await asyncio.sleep(delay)
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


# --- common to both APIs --------------------------------------------------------------------------------------------------


async def body(request: web.Request, type_: type[Body]) -> Body:
    """The request's JSON. Raises Refused, naming field and what was expected."""
    try:
        return msgspec.json.decode(await request.read(), type=type_)
    except msgspec.ValidationError as error:
        raise Refused("InvalidParameterValue", str(error)) from error
    except msgspec.DecodeError as error:
        raise Refused("InvalidParameterValue", f"the body must be JSON: {error}") from error


def answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value) + b"\n", status=status, content_type="application/json")


@web.middleware
async def errors(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    """Every error as `{"error": {"code", "message"}}`."""
    try:
        response: web.StreamResponse = await handler(request)
    except Refused as refused:
        response = answer(ErrorAnswer(error=ErrorView(code=refused.code, message=refused.message)), refused.status)
        if refused.code == "RequestLimitExceeded":
            response.headers["Retry-After"] = "1"
    except web.HTTPException as error:
        words = f"{request.method} {request.path}: {error.reason}"
        response = answer(ErrorAnswer(error=ErrorView(code="InvalidAction", message=words)), error.status)
    return response


def _tags(request: web.Request) -> dict[str, str]:
    tags = {}
    for text in request.query.getall("tag", []):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Refused("InvalidParameterValue", f"tag {text!r} must be key=value")
        tags[key] = value
    return tags
