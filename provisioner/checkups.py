"""The pool's health-check Job: what is made for a node, and what its end says of it.

A Job runs one pod of the pool's PodTemplate on a node, put there by name: the booked taint keeps off the scheduler, no kubelet.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from kube import core, ours
from kube.resources import JOBS
from kube.times import seconds
from provisioner.disruption import CHECKUP
from provisioner.state import TAG_BOOKING, State
from runtime.client import Client, Resource
from runtime.errors import AlreadyExists

TTL = 86_400
"""Seconds that an ended Job can be looked at; longer than any booking waits for its nodes."""


def name(booking: str, node: str) -> str:
    """The same for the same booking and node: what was made already is not made again."""
    return f"{booking}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def job(booking: str, node: str, check: ours.HealthCheck, template: core.PodTemplate) -> dict[str, Any]:
    """Its pod is known by a label for one of ours, and so is no reason against the node."""
    meta, spec = template.template.get("metadata", {}), template.template.get("spec", {})
    labels = {TAG_BOOKING: booking, CHECKUP: "true"}
    return {
        "metadata": {"name": name(booking, node), "namespace": template.metadata.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds(check.timeout),
            "ttlSecondsAfterFinished": TTL,
            "template": {
                "metadata": {**meta, "labels": {**meta.get("labels", {}), CHECKUP: "true"}},
                "spec": {**spec, "restartPolicy": "Never", "nodeName": node},
            },
        },
    }


def result(found: core.Job) -> tuple[bool | None, str]:
    """Whether the check was passed, None while it isn't over, and words."""
    for condition in found.status.conditions:
        if condition.status == "True" and condition.type == "Complete":
            return True, ""
        if condition.status == "True" and condition.type == "Failed":
            why = ": ".join(filter(None, (condition.reason, condition.message)))
            return False, f"its health check failed: {why}"
    return None, "its health check runs"


async def begin(client: Client, state: State, booking: str, nodes: Iterable[tuple[str, str]]) -> None:
    """Makes the Jobs for nodes (name, pool). Raises ApiError and TransportError."""
    for node, pool in nodes:
        found = state.pool(pool)
        check = found.spec.readiness.health_check if found else None
        template = state.checkup(check) if check else None
        if check is None or template is None:
            continue
        try:
            await client.create(Resource(*JOBS), job(booking, node, check, template))
        except AlreadyExists:
            continue
