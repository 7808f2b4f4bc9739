"""The simulated cloud as a Cloud, over HTTP."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import aiohttp
import msgspec
import tenacity

from capacity.model import Labels, Shape
from capacity.quantity import amount, money
from capacity.requirements import Taint
from kube.meta import Record
from provisioner.clouds.base import (
    DEFAULT_TIMEOUTS,
    EVERYTHING,
    Announcement,
    CloudError,
    CloudShape,
    ErrorKind,
    Instance,
    Inventory,
    Order,
    Reservation,
    Timeouts,
    Wanted,
    ZoneStock,
)
from provisioner.clouds.simulated import wire
from provisioner.clouds.simulated.errors import classify

Answer = TypeVar("Answer", bound=Record)
READ_ATTEMPTS = 3


class SimulatedCloud:
    """One server at `endpoint`. Reads are tried three times when throttled or unanswered; launches and terminations once."""

    def __init__(self, endpoint: str, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._timeouts = timeouts
        self._session: aiohttp.ClientSession | None = None

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:  # noqa: ARG002 it has few
        view = await self._read("/v1/inventory", [], wire.InventoryView)
        try:
            return _inventory(view)
        except ValueError as problem:
            raise CloudError(ErrorKind.UNKNOWN, f"an inventory that can't be read: {problem}") from problem

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        answer = await self._send("POST", "/v1/launch", wire.Instances, self._timeouts.launch, json=_launch(order))
        return tuple(_instance(each) for each in answer.instances)

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        query = [("tag", f"{key}={value}") for key, value in tags.items()]
        answer = await self._read("/v1/instances", query, wire.Instances)
        return tuple(_instance(each) for each in answer.instances)

    async def terminate(self, ids: Sequence[str]) -> None:
        """All in one call; when the cloud knows one of them not, one by one, and then NOT_FOUND names those it doesn't know."""
        try:
            await self._terminate(ids)
        except CloudError as error:
            if error.kind is not ErrorKind.NOT_FOUND or len(ids) == 1:
                raise
            await self._terminate_each(ids)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _terminate(self, ids: Sequence[str]) -> None:
        if ids:
            await self._send("POST", "/v1/terminate", wire.Instances, self._timeouts.launch, json={"ids": list(ids)})

    async def _terminate_each(self, ids: Sequence[str]) -> None:
        unknown = []
        for each in ids:
            try:
                await self._terminate([each])
            except CloudError as error:
                if error.kind is not ErrorKind.NOT_FOUND:
                    raise
                unknown.append(each)
        if unknown:
            raise CloudError(ErrorKind.NOT_FOUND, f"not known to the cloud: {', '.join(unknown)}")

    async def _read(self, path: str, query: Sequence[tuple[str, str]], type_: type[Answer]) -> Answer:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_worth_another_try),
            stop=tenacity.stop_after_attempt(READ_ATTEMPTS),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=2),
            reraise=True,
        )
        return await retrying(self._send, "GET", path, type_, self._timeouts.read, params=query)

    async def _send(self, method: str, path: str, type_: type[Answer], timeout: float, **what: Any) -> Answer:  # noqa: ASYNC109 aiohttp bounds it
        if self._session is None:
            self._session = aiohttp.ClientSession()
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._session.request(method, self._endpoint + path, timeout=limit, **what) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CloudError(ErrorKind.UNKNOWN, f"{method} {self._endpoint}{path}: {type(error).__name__} {error}") from error
        return _decode(data, response.status, type_)


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, CloudError) and error.kind in (ErrorKind.THROTTLED, ErrorKind.UNKNOWN)


def _decode(data: bytes, status: int, type_: type[Answer]) -> Answer:
    """The answer. Raises CloudError; what can't be read is UNKNOWN: the call may have succeeded."""
    try:
        if status < 300:
            return msgspec.json.decode(data, type=type_)
        error = msgspec.json.decode(data, type=wire.ErrorAnswer).error
    except msgspec.DecodeError as problem:
        raise CloudError(ErrorKind.UNKNOWN, f"HTTP {status} that can't be read: {problem}") from problem
    raise CloudError(classify(error.code, status), f"{error.code}: {error.message}")


# --- wire to records ------------------------------------------------------------------------------------------------------


def _launch(order: Order) -> dict[str, Any]:
    body = {
        "token": order.token,
        "shape": order.shape,
        "zone": order.zone,
        "capacityType": order.capacity_type,
        "count": order.count,
        "domain": dict(order.domain),
        "labels": dict(order.labels),
        "annotations": dict(order.annotations),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in order.taints],
        "tags": dict(order.tags),
    }
    return body if order.reservation is None else {**body, "reservation": order.reservation}


def _instance(view: wire.InstanceView) -> Instance:
    return Instance(
        id=view.id,
        provider_id=view.provider_id,
        state=view.state,
        shape=view.shape,
        zone=view.zone,
        token=view.token,
        reservation=view.reservation,
        domain=view.domain,
        tags=view.tags,
        announced=tuple(Announcement(each.kind, int(each.at.timestamp()), each.words) for each in view.announced),
    )


def _inventory(view: wire.InventoryView) -> Inventory:
    return Inventory(
        shapes=tuple(_shape(each) for each in view.shapes),
        reservations=tuple(_reservation(each) for each in view.reservations),
        stock=tuple(ZoneStock(shape=each.shape, zone=each.zone, available=each.available) for each in view.stock),
    )


def _shape(view: wire.ShapeView) -> CloudShape:
    shape = Shape(
        name=view.name,
        allocatable={resource: amount(resource, text) for resource, text in view.allocatable.items()},
        labels=view.labels,
        taints=_taints(view.taints),
    )
    return CloudShape(shape=shape, on_demand_price=money(view.price_per_hour), startup_taints=_taints(view.startup_taints))


def _taints(taints: Sequence[wire.Taint]) -> tuple[Taint, ...]:
    return tuple(Taint(key=each.key, effect=each.effect, value=each.value) for each in taints)


def _reservation(view: wire.ReservationView) -> Reservation:
    return Reservation(
        id=view.id,
        shape=view.shape,
        zone=view.zone,
        capacity_type=view.capacity_type,
        total=view.total,
        used=view.used,
        total_by_domain=_domains(view.total_by_domain),
        free_by_domain=_domains(view.free_by_domain),
        starts=_epoch(view.starts),
        ends=_epoch(view.ends),
    )


def _domains(counts: Sequence[wire.DomainCount]) -> tuple[tuple[Mapping[str, str], int], ...]:
    return tuple((each.domain, each.count) for each in counts)


def _epoch(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp())
