"""Writes what admission decided: its entries in a workload's status, requests with their templates, and their deletion."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from admission.gang import WorkloadMistakeError
from admission.model import Change, Request, State
from admission.release import Push
from admission.requests import Attempt, pod_template, provisioning_request, same
from kube.kueue import AdmissionCheckState, Workload
from kube.request_marks import POD_SET
from kube.resources import POD_TEMPLATES, PROVISIONING_REQUESTS, WORKLOADS
from runtime.client import Client, Resource
from runtime.conditions import timestamp
from runtime.errors import AlreadyExists, Conflict, Invalid, NotFound

MANAGER = "corral-admission"
# Of the object's own fields, as the API server words it; what a policy or webhook refuses "is forbidden" or "denied" instead.
_VALIDATION = " is invalid: "

_WORKLOADS = Resource(*WORKLOADS)
_TEMPLATES = Resource(*POD_TEMPLATES)
_REQUESTS = Resource(*PROVISIONING_REQUESTS)

Json = dict[str, Any]


async def write_entries(
    client: Client,
    workload: Workload,
    own: Sequence[AdmissionCheckState],
    changes: Mapping[str, Change],
    now: datetime,
) -> None:
    """Applies all our entries of the workload at once, changed or not: one left out would lose what we own in it.

    Raises Conflict when the workload isn't the one that the decision was made on, NotFound when it is gone.
    """
    entries = [entry_body(each, changes.get(each.name), now) for each in own]
    body = {"metadata": _exactly(workload), "status": {"admissionChecks": entries}}
    await client.apply(_WORKLOADS, body, manager=MANAGER, subresource="status")


def entry_body(entry: AdmissionCheckState, change: Change | None, now: datetime) -> Json:
    """One entry as it goes on the wire.

    The transition time moves with the state alone, but then always: Kueue counts requeueAfterSeconds from it. `retryCount` is
    none any more with Ready and Rejected. It is said, not let go: Kueue's own check, beside ours, owns a copy of all entries
    (v0.17.0, pkg/workload/workload.go BaseSSAWorkload), and what we left out would stay.
    """
    if change is None:
        kept = {"requeueAfterSeconds": entry.requeue_after_seconds} if entry.state == State.RETRY else {}
        updates = [each.to_json() for each in entry.pod_set_updates]
        found = _entry(entry.name, entry.state, entry.message, entry.last_transition_time, updates)
        return found | _given({**kept, "retryCount": _count(entry.state, entry.retry_count)})
    since = entry.last_transition_time if change.state == entry.state else timestamp(now)
    retries = entry.retry_count if change.retries is None else change.retries
    more = {"requeueAfterSeconds": change.requeue_after, "retryCount": _count(change.state, retries)}
    return _entry(entry.name, change.state, change.message, since, list(change.pod_set_updates)) | _given(more)


def _count(state: str, retries: int | None) -> int | None:
    return retries if retries is None or state in (State.PENDING, State.RETRY) else 0


async def write_push(client: Client, workload: Workload, own: Sequence[AdmissionCheckState], push: Push, now: datetime) -> None:
    """Sets the condition under a field manager of its own: what we write of our entries later leaves it alone.

    Raises Conflict when the workload isn't the one that was decided on, NotFound when it is gone.
    """
    condition = {
        "type": push.condition,
        "status": str(push.value),
        "reason": push.reason,
        "message": push.message,
        "lastTransitionTime": timestamp(now),
        "observedGeneration": workload.metadata.generation,
    }
    was = "Reset to Pending after eviction. Previously: Ready"  # as Kueue words it when it evicts
    others = [_entry(each.name, State.PENDING, was, timestamp(now), []) for each in push.reset]
    ours = [entry_body(each, push.changes[each.name], now) for each in own if each.name in push.changes]
    status: Json = {"conditions": [condition]} | ({"admissionChecks": [*ours, *others]} if ours or others else {})
    await client.apply(_WORKLOADS, {"metadata": _exactly(workload), "status": status}, manager=push.manager, subresource="status")


def _exactly(workload: Workload) -> Json:
    """Metadata with which a write fails on any other version of the workload."""
    meta = workload.metadata
    return {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}


def _entry(name: str, state: str, message: str, since: str, updates: list[Any]) -> Json:
    return {"name": name, "state": str(state), "message": message, "lastTransitionTime": since, "podSetUpdates": updates}


def _given(values: Json) -> Json:
    return {key: value for key, value in values.items() if value is not None}


async def make_request(client: Client, attempt: Attempt) -> None:
    """Templates first, all at once, then the request. What is there already from an interrupted turn is taken over, if the same.

    Raises AlreadyExists when something else of that name had to be removed first: try again. Raises WorkloadMistakeError for a
    pod template that no API server takes.
    """
    templates = (_make_template(client, pod_template(attempt, index)) for index in range(len(attempt.members)))
    made = await asyncio.gather(*templates, return_exceptions=True)  # none is left behind at work when another one fails
    if failed := next((each for each in made if isinstance(each, BaseException)), None):
        raise failed
    wanted = provisioning_request(attempt, str(made[0]))
    try:
        await client.create(_REQUESTS, wanted)
    except AlreadyExists:
        meta = wanted["metadata"]
        found = await client.get(_REQUESTS, meta["name"], meta["namespace"])
        if not same(wanted, found):
            await client.delete(_REQUESTS, meta["name"], meta["namespace"], uid=found["metadata"]["uid"])
            raise


async def _make_template(client: Client, body: Json) -> str:
    """The uid of the PodTemplate, whose content is ours whoever made it: names can be foreseen."""
    try:
        made = await client.create(_TEMPLATES, body)
    except Invalid as error:
        if _VALIDATION not in error.message:
            raise
        raise WorkloadMistakeError(
            f'pod set "{body["metadata"]["labels"][POD_SET]}": the API server refuses its pod template: {error.message}'
        ) from error
    except AlreadyExists:
        found = await client.get(_TEMPLATES, body["metadata"]["name"], body["metadata"]["namespace"])
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        made = await client.replace(_TEMPLATES, {**body, "metadata": {**body["metadata"], **version}})
    uid: str = made["metadata"]["uid"]
    return uid


async def remove_request(client: Client, namespace: str, request: Request) -> None:
    """Deletes this incarnation of the request with its templates. Another one of that name, and its templates, are left."""
    try:
        await client.delete(_REQUESTS, request.name, namespace, uid=request.uid)
    except NotFound:
        pass
    except Conflict:
        return
    for template in request.templates:
        if template.startswith(f"{request.name}-"):
            with contextlib.suppress(NotFound):
                await client.delete(_TEMPLATES, template, namespace)
