"""On-Demand Capacity Reservations and Capacity Blocks, from what EC2 tells of them. Pure.

Free is what EC2 calls available, or less: its count lags behind launches, so one of ours puts a ceiling on it for a while, and a
reservation that turned a launch away has none free until it is looked at anew. Places that others use are simply not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from capacity.model import Labels
from provisioner.clouds.base import Reservation

ACTIVE, SCHEDULED = "active", "scheduled"
"""Of 13 states these two count: one can be launched into, the other will be; the rest, and any new one, can't be used."""
PLATFORMS = frozenset({"Linux/UNIX", "Red Hat Enterprise Linux", "SUSE Linux", "Ubuntu Pro Linux", "RHEL with HA"})
KILLED_BEFORE_END, KILLED_BEFORE_END_OF_ULTRASERVER = 30 * 60, 60 * 60
"""Seconds: so long before a block's end EC2 begins to terminate its instances (EC2 User Guide, "Capacity Blocks for ML")."""
LAG = 30.0
"""Seconds that a launch may take to show in the available count."""
FULL = 60.0
"""Seconds that a reservation which turned us away counts as full."""


@dataclass(frozen=True, slots=True)
class Held:
    """A reservation as EC2 tells it. `why` says what keeps it from being used, "" if nothing does."""

    id: str
    kind: str
    shape: str
    zone: str
    zone_id: str
    state: str
    total: int
    available: int
    owner: str = ""
    match: str = "open"
    placement_group: str = ""
    starts: int | None = None
    ends: int | None = None
    block: str = ""
    why: str = ""


def parse(answer: Mapping[str, Any]) -> Held:
    kind = "capacity-block" if answer.get("ReservationType") == "capacity-block" else "reserved"
    return Held(
        id=answer["CapacityReservationId"],
        kind=kind,
        shape=answer.get("InstanceType") or "",
        zone=answer.get("AvailabilityZone") or "",
        zone_id=answer.get("AvailabilityZoneId") or "",
        state=answer.get("State") or "unknown",
        total=answer.get("TotalInstanceCount", 0),
        available=answer.get("AvailableInstanceCount", 0),
        owner=answer.get("OwnerId") or "",
        match=answer.get("InstanceMatchCriteria") or "open",
        placement_group=_name(answer.get("PlacementGroupArn") or ""),
        starts=_epoch(answer.get("StartDate")),
        ends=_epoch(answer.get("EndDate")),
        block=answer.get("CapacityBlockId") or "",
        why=_unusable(answer),
    )


def _unusable(answer: Mapping[str, Any]) -> str:
    state = answer.get("State") or "unknown"
    platform, tenancy = answer.get("InstancePlatform") or "Linux/UNIX", answer.get("Tenancy") or "default"
    if state not in (ACTIVE, SCHEDULED):
        return f"its state is {state}"
    if platform not in PLATFORMS:
        return f"it is for {platform}"
    if tenancy != "default":
        return f"its tenancy is {tenancy}"
    if answer.get("OutpostArn"):
        return "it is on an Outpost"
    if answer.get("Interruptible"):
        return "its owner may take it back at any time (interruptible)"
    return "it is not launchable now (LaunchStatus)" if answer.get("LaunchStatus") == "unlaunchable" else ""


def _name(arn: str) -> str:
    """`arn:aws:ec2:REGION:ACCOUNT:placement-group/NAME`."""
    return arn.rpartition("placement-group/")[2]


def _epoch(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp())


def offered(held: Held, free: int, ultraserver: bool, domain: Labels) -> Reservation:
    """The reservation as a source of machines. `domain`: the labels of the network nodes that all of it has in common."""
    total, free = held.total, max(0, min(free, held.total))
    margin = KILLED_BEFORE_END_OF_ULTRASERVER if ultraserver else KILLED_BEFORE_END
    block = held.kind == "capacity-block"
    return Reservation(
        id=held.id,
        shape=held.shape,
        zone=held.zone,
        capacity_type=held.kind,
        total=total,
        used=total - free,
        total_by_domain=((domain, total),) if domain else (),
        free_by_domain=((domain, free),) if domain else (),
        starts=held.starts if held.state == SCHEDULED else None,
        ends=None if held.ends is None or not block else held.ends - margin,
    )


def free(held: Held) -> int:
    """All of a block that is still to start: nobody can be in it."""
    return held.total if held.state == SCHEDULED else held.available


class Ceilings:
    """What may be free at most, by reservation, until an instant (seconds of the caller's clock)."""

    def __init__(self) -> None:
        self._most: dict[str, tuple[int, float]] = {}

    def launched(self, reservation: str, before: int, count: int, now: float) -> None:
        """`count` machines went into a reservation of which `before` were free."""
        self._set(reservation, max(0, self.of(reservation, before, now) - count), now + LAG)

    def full(self, reservation: str, now: float) -> None:
        self._set(reservation, 0, now + FULL)

    def of(self, reservation: str, available: int, now: float) -> int:
        """How many count as free when EC2 says `available`."""
        most, until = self._most.get(reservation, (available, now))
        return min(available, most) if now < until else available

    def _set(self, reservation: str, most: int, until: float) -> None:
        self._most[reservation] = (most, until)
