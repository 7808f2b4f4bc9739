"""`corral why TARGET`: reads the objects that tell why a workload waits, or what is waited for, and prints the answer."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from corral.answer import Facts, answer
from corral.holdings import Estate, tell
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.core import Node, Pod
from kube.kueue import AdmissionCheck, ClusterQueue, LocalQueue, ResourceFlavor, Workload
from kube.meta import Record, decode
from kube.ours import Booking, CapacityPolicy, CapacityPool
from kube.request_marks import WORKLOAD_UID
from kube.resources import Kind
from runtime.client import Client, Resource
from runtime.errors import ApiError, Forbidden, NotFound, TransportError
from runtime.settings import ClientSettings, SettingsError

CONTROLLER = "corral.dev/capacity"
EVENTS = Kind("", "v1", "events", "Event")
TIME_LIMIT = 20.0
R = TypeVar("R", bound=Record)

WAITERS = ("job", "pod", "podgroup", "workload", "provreq")
HOLDINGS = ("reservation", "pool", "node")
USAGE = (
    "name what waits: job/NAME, pod/NAME, podgroup/NAME, workload/NAME or provreq/NAME; "
    "or what is waited for: reservation/ID, pool/NAME or node/NAME"
)


class WhyError(ValueError):
    """There is no answer: the target is malformed or the cluster can't be read."""


async def run(target: str, namespace: str, kubeconfig: str) -> None:
    """Prints the answer. Raises WhyError."""
    kind, _, name = target.partition("/")
    if kind not in (*WAITERS, *HOLDINGS) or not name:
        raise WhyError(f'"{target}" is no target: {USAGE}')
    client = await _connect(kubeconfig or os.environ.get("KUBECONFIG", "") or _home())
    try:
        async with asyncio.timeout(TIME_LIMIT):
            told = await _told(client, target, kind, name, namespace)
    except (ApiError, TransportError, TimeoutError) as error:
        raise WhyError(f"the cluster can't be read: {str(error) or 'no answer in time'}") from error
    finally:
        await client.close()
    print(told)


async def _told(client: Client, target: str, kind: str, name: str, namespace: str) -> str:
    if kind in HOLDINGS:
        return tell(await _estate(client, kind, name))
    return answer(await _facts(client, target, kind, name, namespace))


async def _estate(client: Client, kind: str, name: str) -> Estate:
    """What is to be had, by whom it is held and who waits; what the user may not read is left out and named."""
    reader, asked = Reader(client), kind == "node"
    here = f"spec.nodeName={name}"
    return Estate(
        kind=kind,
        name=name,
        now=datetime.now(UTC),
        pools=await reader.all(resources.CAPACITY_POOLS, CapacityPool),
        policies=await reader.all(resources.CAPACITY_POLICIES, CapacityPolicy),
        bookings=await reader.all(resources.BOOKINGS, Booking),
        requests=await reader.all(resources.PROVISIONING_REQUESTS, ProvisioningRequest),
        node=await reader.get(resources.NODES, Node, name) if asked else None,
        pods=await reader.all(resources.PODS, Pod, field_selector=here) if asked else (),
        hidden=tuple(sorted(reader.hidden)),
    )


async def _connect(kubeconfig: str) -> Client:
    try:
        return await Client.connect(ClientSettings(kubeconfig=kubeconfig))
    except SettingsError as error:
        raise WhyError(f"{error}; name a kubeconfig with --kubeconfig or KUBECONFIG") from error


def _home() -> str:
    path = Path.home() / ".kube" / "config"
    return str(path) if path.exists() else ""


async def _facts(client: Client, target: str, kind: str, name: str, namespace: str) -> Facts:
    """Raises Forbidden only when the Workloads can't be read; what else the user may not read is left out and named."""
    now, reader = datetime.now(UTC), Reader(client)
    workload = await _workload(client, kind, name, namespace)
    if workload is None:
        return Facts(target=target, now=now)
    request = await _request(reader, workload)
    return Facts(
        target=target,
        now=now,
        workload=workload,
        queue=await _queue(reader, workload),
        flavors=() if workload.quota_reserved else await reader.all(resources.RESOURCE_FLAVORS, ResourceFlavor),
        request=request,
        booking=await _booking(reader, request),
        rejection=await _rejection(reader, workload),
        checks=await _checks(reader, workload),
        hidden=tuple(sorted(reader.hidden)),
    )


class Reader:
    """Reads what the user may read. `hidden` are the kinds (plural) that were refused: rights often end at a namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.hidden: set[str] = set()

    async def get(self, kind: Kind, type_: type[R], name: str, namespace: str = "") -> R | None:
        try:
            return await _get(self._client, kind, type_, name, namespace)
        except Forbidden:
            self.hidden.add(kind.plural)
            return None

    async def list(self, kind: Kind, namespace: str = "", **narrow: str) -> list[dict[str, Any]]:
        try:
            return await self._client.list(Resource(*kind), namespace, **narrow)
        except Forbidden:
            self.hidden.add(kind.plural)
            return []

    async def all(self, kind: Kind, type_: type[R], **narrow: str) -> tuple[R, ...]:
        """As views, of all namespaces."""
        return tuple([decode(item, type_) for item in await self.list(kind, **narrow)])


async def _workload(client: Client, kind: str, name: str, namespace: str) -> Workload | None:
    if kind in ("workload", "podgroup"):
        return await _get(client, resources.WORKLOADS, Workload, name, namespace)
    if kind == "provreq":
        request = await _get(client, resources.PROVISIONING_REQUESTS, ProvisioningRequest, name, namespace)
        uid = request.metadata.labels.get(WORKLOAD_UID) if request else None
        return await _first(client, namespace, lambda workload: workload.metadata.uid == uid)
    owner_kind = {"job": "Job", "pod": "Pod"}[kind]
    return await _first(client, namespace, lambda workload: _owned(workload, owner_kind, name))


async def _first(client: Client, namespace: str, wanted: Callable[[Workload], bool]) -> Workload | None:
    found = await client.list(Resource(*resources.WORKLOADS), namespace)
    return next(filter(wanted, (decode(item, Workload) for item in found)), None)


def _owned(workload: Workload, kind: str, name: str) -> bool:
    return any((owner.kind, owner.name) == (kind, name) for owner in workload.metadata.owner_references)


async def _checks(reader: Reader, workload: Workload) -> frozenset[str]:
    """The checks that Corral serves; all of the workload's where the user may not read whose they are."""
    found = await reader.list(resources.ADMISSION_CHECKS)
    if resources.ADMISSION_CHECKS.plural in reader.hidden:
        return frozenset(state.name for state in workload.status.admission_checks)
    checks = (decode(item, AdmissionCheck) for item in found)
    return frozenset(check.metadata.name for check in checks if check.spec.controller_name == CONTROLLER)


async def _request(reader: Reader, workload: Workload) -> ProvisioningRequest | None:
    """The newest of the workload's requests."""
    selector = f"{WORKLOAD_UID}={workload.metadata.uid}"
    items = await reader.list(resources.PROVISIONING_REQUESTS, workload.metadata.namespace, label_selector=selector)
    found = [decode(item, ProvisioningRequest) for item in items]
    return max(found, key=lambda r: (r.metadata.creation_timestamp or "", r.metadata.name), default=None)


async def _booking(reader: Reader, request: ProvisioningRequest | None) -> Booking | None:
    if request is None:
        return None
    found = [decode(item, Booking) for item in await reader.list(resources.BOOKINGS)]
    mine = [booking for booking in found if booking.spec.request.uid == request.metadata.uid]
    return max(mine, key=lambda booking: booking.spec.attempt, default=None)


async def _rejection(reader: Reader, workload: Workload) -> str:
    """The last event that tells of a check that was Rejected: Kueue clears the check itself when it deactivates the workload."""
    selector = f"involvedObject.uid={workload.metadata.uid},reason=AdmissionCheckUpdated"
    events = await reader.list(EVENTS, workload.metadata.namespace, field_selector=selector)
    told = [event for event in events if "to Rejected" in event.get("message", "")]
    last = max(told, key=lambda event: event["metadata"]["creationTimestamp"], default=None)
    return str(last["message"]) if last else ""


async def _queue(reader: Reader, workload: Workload) -> ClusterQueue | None:
    local = await reader.get(resources.LOCAL_QUEUES, LocalQueue, workload.spec.queue_name, workload.metadata.namespace)
    return await reader.get(resources.CLUSTER_QUEUES, ClusterQueue, local.spec.cluster_queue) if local else None


async def _get(client: Client, kind: Kind, type_: type[R], name: str, namespace: str = "") -> R | None:
    try:
        return decode(await client.get(Resource(*kind), name, namespace), type_)
    except NotFound:
        return None
