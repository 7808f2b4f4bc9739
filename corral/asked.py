"""What a ProvisioningRequest and its booking say, in lines for people: where it stands, with numbers, and what to do. Pure."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from corral.remedies import FIT, HOPELESS, remedy
from kube.autoscaling import ProvisioningRequest
from kube.ours import BookedInstance, Booking
from kube.times import instant, length
from provisioner.state import CLASS

_ASIDE = re.compile(rf"; (?={FIT}|{HOPELESS}|gives up at |deadline |the attempt before failed: )|\n")
_OVER = ("Failed", "CapacityRevoked", "BookingExpired")
_NO_MORE = ("Gone", "Transferred")
_LACKING = {"Launched": "not joined yet", "Joined": "joined", "Bad": "bad, to be replaced"}
_UNANSWERED = "the provisioner has not answered yet: is corral-provisioner running?"


@dataclass(frozen=True, slots=True)
class Standing:
    """`over`: nothing more will come of this request. `reason` is "" where nothing is wrong; `since` an RFC 3339 text."""

    reason: str
    since: str | None
    message: str
    over: bool = False
    provisioned: bool = False


def standing(request: ProvisioningRequest) -> Standing:
    """In the order in which Kueue v0.17.0 looks at the conditions."""
    states = {each.type: each for each in request.status.conditions}
    for kind in _OVER:
        found = states.get(kind)
        if found and found.status == "True":
            return Standing(found.reason, found.last_transition_time, found.message, over=True)
    provisioned, accepted = states.get("Provisioned"), states.get("Accepted")
    if provisioned and provisioned.status == "True":
        return Standing("", provisioned.last_transition_time, provisioned.message, provisioned=True)
    told = provisioned or accepted
    if told is None:
        return Standing("", request.metadata.creation_timestamp, _UNANSWERED)
    if told.status == "True":
        return Standing("", told.last_transition_time, "capacity is being planned")
    return Standing(told.reason, told.last_transition_time, told.message)


def told(found: Standing, word: str, now: datetime, of: str = "") -> Iterator[str]:
    """`WORD reason age of: message`, then what else the message holds, a line each, and what to do."""
    first, *rest = _ASIDE.split(found.message)
    yield f"{' '.join(filter(None, (word, found.reason, since(found.since, now), of)))}: {first}"
    yield from (f"  {line.strip()}" for line in rest)
    yield from (f"  to do: {line}" for line in remedy(found.reason, found.message))


def bare(request: ProvisioningRequest, now: datetime) -> Iterator[str]:
    """Of a request that no Workload stands behind, its booking apart."""
    name, found = f"provreq/{request.metadata.name}", standing(request)
    if request.spec.provisioning_class_name != CLASS:
        yield f"UNKNOWN {name}: its class is {request.spec.provisioning_class_name}, Corral serves {CLASS}"
        return
    yield from told(found, "PROVISIONED" if found.provisioned else "FAILED" if found.over else "WAITING", now)
    if found.over:
        yield "  no request is tried twice: make a new one"


def held(booking: Booking | None) -> Iterator[str]:
    """The booking, what it takes and buys, and what its machines lack."""
    if booking is None:
        return
    spec, status = booking.spec, booking.status
    alive = [each for each in status.instances if each.state not in _NO_MORE]
    yield (
        f"  booking {booking.metadata.name}: {status.phase}; {len(spec.nodes)} nodes that were there, {len(alive)} of "
        f"{sum(purchase.count for purchase in spec.purchases)} machines bought; {spec.cost_per_hour} $/h"
    )
    for purchase in spec.purchases:
        where = purchase.reservation_id or purchase.capacity_type
        yield f"    {purchase.count} x {purchase.shape} in {purchase.zone} from {where} ({purchase.pool})"
    lacking = Counter(_lacks(each) for each in alive if each.state in _LACKING)
    yield from (f"    {count} of the machines: {words}" for words, count in sorted(lacking.items()))


def _lacks(machine: BookedInstance) -> str:
    return ": ".join(filter(None, (_LACKING[machine.state], machine.message)))


def since(text: str | None, now: datetime) -> str:
    """How long ago, for people."""
    return length(int((now - instant(text)).total_seconds())) if text else "just now"
