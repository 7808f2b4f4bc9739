"""One request as a planning pass sees it: what it says now, and what it is to say or to be planned for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kube import ours
from kube.autoscaling import ProvisioningRequest
from provisioner.asking.acceptance import Accepted, Desk, NotYet, Refused, judge, still_reserved
from provisioner.asking.leaning import renewed
from provisioner.telling.progress import (
    Attempts,
    Ended,
    Failed,
    Keep,
    Provisioned,
    Standing,
    ToPlan,
    Waiting,
    attempts,
    booked,
    standing,
)
from provisioner.telling.statuses import Finding, Status


@dataclass(frozen=True, slots=True)
class Case:
    """`finding` None: nothing new to say. `todo` set: it waits to be planned (then `accepted` and `since` are set too)."""

    request: ProvisioningRequest
    old: Status
    tries: Attempts
    accepted: Accepted | None = None
    finding: Finding | None = None
    todo: ToPlan | None = None
    since: datetime | None = None

    @property
    def uid(self) -> str:
        return self.request.metadata.uid


def case_of(
    request: ProvisioningRequest,
    old: Status,
    known: Accepted | None,
    bookings: Sequence[ours.Booking],
    desk: Desk,
    now: datetime,
) -> Case:
    """`known` is what was accepted earlier, by this process; `bookings` are those of the request's UID."""
    tries = attempts(old.attempts, bookings)
    case = Case(request, old, tries)
    if old.over:
        return case
    judged = known or judge(request, desk, now)
    newest = max(bookings, key=lambda b: b.spec.attempt, default=None)
    if not isinstance(judged, Accepted):
        return _unaccepted(case, judged, newest, now)
    since = old.accepted_at or now
    found = standing(judged.terms, since, old.is_true("Provisioned"), tries, newest, now)
    finding, todo = _split(found, old)
    if todo is not None and not still_reserved(judged, desk.look):
        todo = None
    fresh = renewed(judged, request, desk.look) if todo else judged
    if isinstance(fresh, Refused):
        return replace(case, finding=fresh)
    return Case(request, old, tries, fresh, finding, todo, since)


def _unaccepted(case: Case, judged: NotYet | Refused, newest: ours.Booking | None, now: datetime) -> Case:
    """One that was accepted before a restart and whose Workload or templates are gone by now is not refused in hindsight.

    What its booking tells holds on. Without one it must not wait for ever for a plan on terms that are no longer there.
    """
    finding: Finding | None = judged
    if case.old.accepted_at is not None or newest is not None:
        found = booked(case.old.is_true("Provisioned"), newest, now)
        beyond_help = isinstance(judged, Refused) and judged.reason in ("InvalidArgument", "NoPolicy")
        finding = _split(found, case.old)[0] if found else judged if beyond_help else None
    return replace(case, finding=finding)


def _split(found: Standing, old: Status) -> tuple[Finding | None, ToPlan | None]:
    match found:
        case ToPlan():
            return None, found
        case Keep():
            return None, None
        case Ended(type_):
            return (None if old.is_true(type_) else found), None
        case Waiting() | Failed() | Provisioned():
            return found, None
