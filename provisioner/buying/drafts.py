"""From a plan to the Booking that carries it out: the durable record, written before anything is marked or bought."""

import hashlib
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from capacity.model import ZONE, Labels, Plan, Purchase
from capacity.quantity import dollars
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import ObjectKey, ObjectMeta
from kube.request_marks import WORKLOAD_UID
from kube.times import stamp
from provisioner.asking.acceptance import Accepted
from provisioner.asking.producers import stated
from provisioner.state import FINALIZER
from provisioner.telling.progress import Attempts
from runtime.telemetry import TRACEPARENT

REQUEST_UID = "corral.dev/request-uid"
_READABLE = 30
_SUFFIX = ".booking.corral.dev"


def booking_name(request: ProvisioningRequest, attempt: int) -> str:
    """`<workload or request, cut to 30>-<10 hex>`: a DNS label that the same request and attempt always get."""
    said = stated(request)
    base = (said.workload if said else "") or request.metadata.name
    readable = re.sub(r"[^a-z0-9]+", "-", base.lower())[:_READABLE].strip("-") or "request"
    digest = hashlib.sha256(f"{request.metadata.uid}/{attempt}".encode()).hexdigest()[:10]
    return f"{readable}-{digest}"


def draft(
    request: ProvisioningRequest,
    accepted: Accepted,
    plan: Plan,
    tries: Attempts,
    now: datetime,
    *,
    installation: str,
    provider_id: Callable[[str], str],
    giver: Callable[[str], str],
    node_labels: Callable[[str], Labels],
) -> ours.Booking:
    """The Booking of the next attempt. `provider_id` gives a node's by its name, `giver` the booking that it is
    taken over from or "", `node_labels` a pool's.
    """
    attempt = tries.made + 1
    name = booking_name(request, attempt)
    deadline = (tries.first_at or now) + timedelta(seconds=accepted.terms.provision)
    meta = request.metadata
    spec = ours.BookingSpec(
        request=ObjectKey(namespace=meta.namespace, name=meta.name, uid=meta.uid),
        attempt=attempt,
        installation=installation,
        policy=accepted.terms.policy,
        pod_sets=tuple(
            ours.BookedPodSet(
                name=ps.name,
                count=ps.count,
                label=f"{name}{_SUFFIX}/{ps.name}",
                requests=dict(ps.requests),
                inherited=accepted.inherited.get(ps.name, ()),
            )
            for ps in accepted.gang.pod_sets
        ),
        provision_deadline=stamp(deadline),
        booking_seconds=accepted.terms.booking,
        launch_seconds=accepted.terms.launch,
        join_seconds=accepted.terms.join,
        verify_seconds=accepted.terms.verify,
        release_seconds=accepted.terms.release,
        workload=accepted.workload,
        nodes=tuple(
            ours.BookedNode(
                name=use.node.name,
                pool=use.node.pool,
                pods=dict(use.pods),
                provider_id=provider_id(use.node.name),
                taken_over=giver(use.node.name),
            )
            for use in plan.uses
        ),
        purchases=tuple(bought(f"p{index}", each, node_labels(each.offering.pool)) for index, each in enumerate(plan.purchases)),
        cost_per_hour=dollars(plan.cost),
        node_count=len(plan.uses) + sum(purchase.count for purchase in plan.purchases),
        domains=dict(plan.domains),
        traceparent=meta.annotations.get(TRACEPARENT, "")[:64],
    )
    labels = {REQUEST_UID: meta.uid}
    if accepted.workload:
        labels[WORKLOAD_UID] = accepted.workload.uid
    return ours.Booking(metadata=ObjectMeta(name=name, labels=labels, finalizers=(FINALIZER,)), spec=spec)


def bought(name: str, purchase: Purchase, labels: Labels) -> ours.BookedPurchase:
    offering = purchase.offering
    return ours.BookedPurchase(
        name=name,
        pool=offering.pool,
        source=offering.source,
        offering=offering.name,
        shape=offering.shape.name,
        zone=offering.domain.get(ZONE, ""),
        capacity_type=offering.capacity_type.value,
        count=purchase.count,
        pods=dict(purchase.pods),
        reservation_id=offering.reservation or "",
        domain=dict(offering.domain),
        labels=dict(labels),
        price_per_hour=dollars(offering.price),
    )


def create_body(booking: ours.Booking) -> dict[str, Any]:
    """What is sent to create it: the API server fills in the rest."""
    meta = booking.metadata
    return {
        "apiVersion": booking.api_version,
        "kind": booking.kind,
        "metadata": {"name": meta.name, "labels": meta.labels, "finalizers": list(meta.finalizers)},
        "spec": booking.spec.to_json(),
    }
