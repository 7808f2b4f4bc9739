"""`corral why TARGET`: reads the objects that tell why a workload waits, and prints the answer."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from corral.answer import Facts, answer
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.kueue import AdmissionCheck, ClusterQueue, LocalQueue, Workload
from kube.meta import Record, decode
from kube.ours import Booking
from kube.resources import Kind
from runtime.client import Client, Resource
from runtime.errors import ApiError, NotFound, TransportError
from runtime.settings import ClientSettings, SettingsError

CONTROLLER = "corral.dev/capacity"
EVENTS = Resource("", "v1", "events", "Event")
WORKLOAD_UID = "corral.dev/workload-uid"
TIME_LIMIT = 20.0
R = TypeVar("R", bound=Record)

USAGE = "name what waits: job/NAME, pod/NAME, podgroup/NAME, workload/NAME or provreq/NAME"


class WhyError(ValueError):
    """There is no answer: the target is malformed or the cluster can't be read."""


async def run(target: str, namespace: str, kubeconfig: str) -> None:
    """Prints the answer. Raises WhyError."""
    kind, _, name = target.partition("/")
    if kind not in ("job", "pod", "podgroup", "workload", "provreq") or not name:
        raise WhyError(f'"{target}" is no target: {USAGE}')
    client = await _connect(kubeconfig or os.environ.get("KUBECONFIG", "") or _home())
    try:
        async with asyncio.timeout(TIME_LIMIT):
            facts = await _facts(client, target, kind, name, namespace)
    except (ApiError, TransportError, TimeoutError) as error:
        raise WhyError(f"the cluster can't be read: {str(error) or 'no answer in time'}") from error
    finally:
        await client.close()
    print(answer(facts))


async def _connect(kubeconfig: str) -> Client:
    try:
        return await Client.connect(ClientSettings(kubeconfig=kubeconfig))
    except SettingsError as error:
        raise WhyError(f"{error}; name a kubeconfig with --kubeconfig or KUBECONFIG") from error


def _home() -> str:
    path = Path.home() / ".kube" / "config"
    return str(path) if path.exists() else ""


async def _facts(client: Client, target: str, kind: str, name: str, namespace: str) -> Facts:
    now = datetime.now(UTC)
    checks = await _list(client, resources.ADMISSION_CHECKS, AdmissionCheck)
    ours = frozenset(check.metadata.name for check in checks if check.spec.controller_name == CONTROLLER)
    workload = await _workload(client, kind, name, namespace)
    if workload is None:
        return Facts(target=target, now=now, checks=ours)
    request = await _request(client, workload)
    return Facts(
        target=target,
        now=now,
        workload=workload,
        queue=await _queue(client, workload),
        request=request,
        booking=await _booking(client, request),
        rejection=await _rejection(client, workload),
        checks=ours,
    )


async def _workload(client: Client, kind: str, name: str, namespace: str) -> Workload | None:
    if kind in ("workload", "podgroup"):
        return await _get(client, resources.WORKLOADS, Workload, name, namespace)
    if kind == "provreq":
        request = await _get(client, resources.PROVISIONING_REQUESTS, ProvisioningRequest, name, namespace)
        uid = request.metadata.labels.get(WORKLOAD_UID) if request else None
        found = await _list(client, resources.WORKLOADS, Workload, namespace)
        return next((w for w in found if w.metadata.uid == uid), None)
    owner_kind = {"job": "Job", "pod": "Pod"}[kind]
    found = await _list(client, resources.WORKLOADS, Workload, namespace)
    return next((w for w in found if _owned(w, owner_kind, name)), None)


def _owned(workload: Workload, kind: str, name: str) -> bool:
    return any((owner.kind, owner.name) == (kind, name) for owner in workload.metadata.owner_references)


async def _request(client: Client, workload: Workload) -> ProvisioningRequest | None:
    """The newest of the workload's requests."""
    selector = f"{WORKLOAD_UID}={workload.metadata.uid}"
    kind = resources.PROVISIONING_REQUESTS
    found = await _list(client, kind, ProvisioningRequest, workload.metadata.namespace, selector)
    return max(found, key=lambda r: (r.metadata.creation_timestamp or "", r.metadata.name), default=None)


async def _booking(client: Client, request: ProvisioningRequest | None) -> Booking | None:
    if request is None:
        return None
    found = await _list(client, resources.BOOKINGS, Booking)
    mine = [booking for booking in found if booking.spec.request.uid == request.metadata.uid]
    return max(mine, key=lambda booking: booking.spec.attempt, default=None)


async def _rejection(client: Client, workload: Workload) -> str:
    """The last event that tells of a check that was Rejected: Kueue clears the check itself when it deactivates the workload."""
    selector = f"involvedObject.uid={workload.metadata.uid},reason=AdmissionCheckUpdated"
    events = await client.list(EVENTS, workload.metadata.namespace, field_selector=selector)
    told = [event for event in events if "to Rejected" in event.get("message", "")]
    last = max(told, key=lambda event: event["metadata"]["creationTimestamp"], default=None)
    return str(last["message"]) if last else ""


async def _queue(client: Client, workload: Workload) -> ClusterQueue | None:
    local = await _get(client, resources.LOCAL_QUEUES, LocalQueue, workload.spec.queue_name, workload.metadata.namespace)
    return await _get(client, resources.CLUSTER_QUEUES, ClusterQueue, local.spec.cluster_queue) if local else None


async def _get(client: Client, kind: Kind, type_: type[R], name: str, namespace: str = "") -> R | None:
    try:
        return decode(await client.get(Resource(*kind), name, namespace), type_)
    except NotFound:
        return None


async def _list(client: Client, kind: Kind, type_: type[R], namespace: str = "", selector: str = "") -> list[R]:
    found: list[dict[str, Any]] = await client.list(Resource(*kind), namespace, label_selector=selector)
    return [decode(item, type_) for item in found]
