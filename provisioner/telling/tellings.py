"""What a change of a booking tells the outside: events on its request, spans in the workload's trace."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from capacity.model import Plan
from kube import ours
from kube.resources import PROVISIONING_REQUESTS
from kube.times import instant
from provisioner.repairing.slots import Slot
from provisioner.steps import Reason, Verdict
from runtime.telemetry import context_from, tracer


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    began: str
    attributes: Mapping[str, str | int]


def events(booking: ours.Booking, new: ours.BookingStatus) -> Iterable[Event]:
    """The events of a change of status, for people who look at the request."""
    old, name = booking.status, booking.metadata.name
    for launch in _changed(old.launches, new.launches):
        if launch.state == "Answered":
            yield Event("Normal", "Bought", f"{launch.count} machines of purchase {launch.purchase}, booking {name}")
        elif launch.state == "Failed":
            yield Event(
                "Warning", "PurchaseFailed", f"{launch.count} of purchase {launch.purchase}: {launch.reason}: {launch.message}"
            )
    for machine in _changed(old.instances, new.instances):
        if machine.state == "Bad":
            yield Event("Warning", "MachineBad", f"{machine.node or machine.id}: {machine.message}; it is replaced")
    yield from _unhealthy(old, new)
    for condition in new.conditions:
        if condition.status == "True" and condition.message != _message(old, condition.type):
            yield Event("Warning", condition.type, f"booking {name}: {condition.message}")
    if new.phase != old.phase:
        yield from _phase(name, new)


def _unhealthy(old: ours.BookingStatus, new: ours.BookingStatus) -> Iterable[Event]:
    """Machines that stay for their pods."""
    sick = {each.id for each in old.instances if each.verdict == Verdict.SICK}
    for machine in new.instances:
        if machine.verdict == Verdict.SICK and machine.state == "Joined" and machine.id not in sick:
            yield Event("Warning", "NodeUnhealthy", f"{machine.node}: {machine.message}; no new pods go there")


def _message(status: ours.BookingStatus, type_: str) -> str:
    """Of a condition that is True, "" else."""
    return next((each.message for each in status.conditions if each.type == type_ and each.status == "True"), "")


def _phase(name: str, new: ours.BookingStatus) -> Iterable[Event]:
    match new.phase:
        case "Provisioned":
            yield Event("Normal", "CapacityProvisioned", f"booking {name}: {new.message}")
        case "Failing":
            kind: Literal["Normal", "Warning"] = "Normal" if new.reason == Reason.CANCELLED else "Warning"
            yield Event(kind, "BookingFailing", f"booking {name} is rolled back: {new.reason}: {new.message}")
        case "Failed":
            yield Event("Normal", "RolledBack", f"booking {name}: nothing of it is left that costs extra")
        case "Released":
            yield Event("Normal", "CapacityReleased", f"booking {name}: {new.reason}: {new.message}")


def spans(booking: ours.Booking, new: ours.BookingStatus) -> Iterable[Span]:
    """The spans that end with a change of status."""
    old = booking.status
    for launch in _changed(old.launches, new.launches):
        if launch.state != "Pending":
            before = next(each for each in old.launches if each.token == launch.token)
            yield Span(
                "buy", before.at, {"purchase": launch.purchase, "count": launch.count, "outcome": launch.reason or launch.state}
            )
    for machine in _changed(old.instances, new.instances):
        if machine.state in ("Joined", "Ready") and machine.launched_at:
            name = "joined" if machine.state == "Joined" else "verified"
            yield Span(name, machine.launched_at, {"machine": machine.id, "node": machine.node, "lacks": machine.message})
    if new.phase in ("Released", "Failed") and new.phase != old.phase:
        yield Span("released", old.phase_since or new.phase_since or "", {"reason": new.reason, "phase": new.phase})


def _changed(old: Iterable[Any], new: Iterable[Any]) -> Iterable[Any]:
    """Launches or machines whose state is another than before; those that are new in a first state count for machines alone."""
    before = {_key(each): each.state for each in old}
    return [each for each in new if before.get(_key(each), "Pending" if isinstance(each, ours.Launch) else "") != each.state]


def _key(each: ours.Launch | ours.BookedInstance) -> str:
    return each.token if isinstance(each, ours.Launch) else each.id


def export(booking: ours.Booking, new: ours.BookingStatus, now: datetime) -> None:
    """Exports the spans of a change under the workload's trace, each from its beginning until now."""
    context = context_from(booking.spec.traceparent) if booking.spec.traceparent else None
    if context is None:
        return
    for each in spans(booking, new):
        began = instant(each.began) if each.began else now
        attributes = {"corral.booking": booking.metadata.name, **each.attributes}
        tracer().start_span(each.name, context, attributes=attributes, start_time=_nanos(began)).end(_nanos(now))


def regarding(booking: ours.Booking) -> dict[str, Any]:
    """The request, as events name their object."""
    request = booking.spec.request
    kind = {"apiVersion": PROVISIONING_REQUESTS.api_version, "kind": PROVISIONING_REQUESTS.kind}
    return {**kind, "metadata": {"namespace": request.namespace, "name": request.name, "uid": request.uid}}


def _nanos(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def stand_in(slot: Slot, plan: Plan) -> Event:
    """Other nodes come in place of a lost one."""
    lost = f"node {slot.node}" if slot.node else f"a machine of purchase {slot.purchase}"
    names = [f"node {use.node.name}" for use in plan.uses]
    names += [f"{each.count} of {each.offering.name}" for each in plan.purchases]
    return Event("Normal", "StandIn", f"{' and '.join(names)} in place of {lost}")
