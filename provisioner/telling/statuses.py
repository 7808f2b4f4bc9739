"""The status of a ProvisioningRequest as one whole: what a server-side apply of ours says, conditions and class details. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.request_marks import BOOKING_DETAIL, UNCOUNTED_DETAIL
from kube.times import clock, instant, stamp
from provisioner.asking.acceptance import NotYet, Refused
from provisioner.telling.progress import Attempts, Ended, Failed, Provisioned, Taken, Waiting
from runtime.conditions import find, is_true, set_condition

OURS = ("Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked")
ATTEMPT, FIRST_AT, ERROR = "Attempt", "FirstAttemptAt", "LastError"
_LONGEST = 32_768

Conditions = Sequence[Mapping[str, Any]]
Finding = NotYet | Refused | Taken | Waiting | Failed | Provisioned | Ended


@dataclass(frozen=True, slots=True)
class Status:
    conditions: Conditions = ()
    details: Mapping[str, str] = field(default_factory=dict)

    def is_true(self, type_: str) -> bool:
        return is_true(self.conditions, type_)

    @property
    def over(self) -> bool:
        """Nothing that we say can follow."""
        return self.is_true("Failed") or self.is_true("CapacityRevoked")

    @property
    def accepted_at(self) -> datetime | None:
        found = find(self.conditions, "Accepted")
        return instant(found["lastTransitionTime"]) if found and found["status"] == "True" else None

    @property
    def attempts(self) -> Attempts:
        """Bad texts count as none: they are ours alone, so somebody else wrote them."""
        made = self.details.get(ATTEMPT, "")
        first = self.details.get(FIRST_AT, "")
        try:
            return Attempts(int(made or 0), instant(first) if first else None, self.details.get(ERROR, ""))
        except ValueError:
            return Attempts()


def stored(request: ProvisioningRequest) -> Status:
    """What the request says now, reduced to the conditions that are ours to say."""
    conditions = tuple(condition.to_json() for condition in request.status.conditions if condition.type in OURS)
    return Status(conditions, request.status.provisioning_class_details)


def status_of(old: Status, generation: int, finding: Finding, tries: Attempts, now: datetime) -> Status:
    """What the request is to say. A transition time moves only when the condition's status does."""
    entries = _Conditions(list(old.conditions), generation, now)
    match finding:
        case NotYet(reason, message):
            entries.set("Accepted", False, reason, message)
        case Refused(reason, message) | Failed(reason, message):
            if not entries.true("Provisioned"):
                entries.set("Failed", True, reason, message)
        case Taken():
            entries.accept()
        case Waiting(reason, message):
            entries.accept()
            if not entries.true("Provisioned"):
                entries.set("Provisioned", False, reason, message)
        case Provisioned(booking):
            entries.provision(booking, _expires(booking, now))
        case Ended(type_, message, booking):
            if booking is not None:
                entries.provision(booking)
            entries.set(type_, True, type_, message)
    return Status(tuple(entries.list), _details(old.details, finding, tries))


@dataclass(slots=True)
class _Conditions:
    list: Conditions
    generation: int
    now: datetime

    def true(self, type_: str) -> bool:
        return is_true(self.list, type_)

    def set(self, type_: str, status: bool, reason: str, message: str) -> None:
        self.list = set_condition(self.list, type_, status, reason, message, generation=self.generation, now=self.now)

    def accept(self) -> None:
        if not self.true("Accepted"):
            self.set("Accepted", True, "Accepted", "the request will be served as soon as its capacity can be had")

    def provision(self, booking: ours.Booking, until: str = "") -> None:
        self.accept()
        if not self.true("Provisioned"):
            total = len(booking.spec.nodes) + sum(purchase.count for purchase in booking.spec.purchases)
            words = f"all {total} machines are ready, booked as {booking.metadata.name}{until}"
            self.set("Provisioned", True, "Provisioned", words)


def _expires(booking: ours.Booking, now: datetime) -> str:
    """When it is given back if nobody comes: the instant alone, for this is said once."""
    began = booking.status.provisioned_at
    if not began or booking.status.first_pod_at:
        return ""
    at = clock(instant(began) + timedelta(seconds=booking.spec.booking_seconds), now)
    return f"; it expires at {at} unless its workload is admitted or a pod comes before"


def _details(old: Mapping[str, str], finding: Finding, tries: Attempts) -> Mapping[str, str]:
    """Attempts outlive their Bookings; the rest is written once, with Provisioned=True."""
    details = dict(old)
    if tries.made and tries.first_at:
        details |= {ATTEMPT: str(tries.made), FIRST_AT: stamp(tries.first_at)}
    if tries.error:
        details[ERROR] = tries.error[:_LONGEST]
    if isinstance(finding, Failed) and finding.uncounted:
        details[UNCOUNTED_DETAIL] = "true"
    if isinstance(finding, Provisioned) or (isinstance(finding, Ended) and finding.booking):
        assert finding.booking is not None
        details |= booked_details(finding.booking)
    return details


def booked_details(booking: ours.Booking) -> Mapping[str, str]:
    """What the producer of the request needs to steer its pods, and what people want to know."""
    spec = booking.spec
    counts = {pod_set.name: _nodes(spec, pod_set.name) for pod_set in spec.pod_sets}
    return {
        BOOKING_DETAIL: booking.metadata.name,
        "RequestLabel": booking.metadata.name,
        "NodesByPodSet": json.dumps(counts, sort_keys=True)[:_LONGEST],
        "CostPerHour": spec.cost_per_hour,
    }


def _nodes(spec: ours.BookingSpec, pod_set: str) -> int:
    taken = sum(node.pods.get(pod_set, 0) > 0 for node in spec.nodes)
    return taken + sum(purchase.count for purchase in spec.purchases if purchase.pods.get(pod_set, 0) > 0)


def apply_body(request: ProvisioningRequest, status: Status, version: str = "") -> dict[str, Any]:
    """The server-side apply of /status. The version that it rests on keeps it from landing on a later request of the same name,
    or after a later write of ours: an apply without an answer may still be on its way. The UID doesn't: of a custom resource's
    status the API server takes the status alone (Kubernetes 1.36, seen in e2e/test_twin_contract.py).
    """
    meta = request.metadata
    lock = {"resourceVersion": version} if version else {}
    return {
        "apiVersion": request.api_version,
        "kind": request.kind,
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, **lock},
        "status": {"conditions": list(status.conditions), "provisioningClassDetails": dict(status.details)},
    }


def news(old: Status, new: Status) -> tuple[Literal["Normal", "Warning"], str, str] | None:
    """The event that tells of the change, None when there is nothing new for people: (type, reason, note)."""
    for type_ in reversed(OURS):
        before, after = find(old.conditions, type_), find(new.conditions, type_)
        if after is None or (before and (before["status"], before["reason"]) == (after["status"], after["reason"])):
            continue
        bad = type_ in ("Failed", "CapacityRevoked") or (type_ == "Accepted" and after["status"] == "False")
        reason = type_ if after["status"] == "True" and type_ != "Failed" else after["reason"]
        return ("Warning" if bad else "Normal"), reason, after["message"]
    return None
