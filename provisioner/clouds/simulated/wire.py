"""What goes over the wire of the simulated cloud: requests are checked strictly, answers are read leniently."""

import re
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from kube.meta import Record
from kube.ours import Money
from provisioner.clouds.base import InstanceState

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
Count = Annotated[int, Meta(ge=0, le=100_000)]
Instant = Annotated[datetime, Meta(tz=True)]


class Strict(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record from people: a mistyped field is an error, never ignored."""


class Taint(Strict, frozen=True, kw_only=True):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class LaunchRequest(Strict, frozen=True, kw_only=True):
    """One launch, of no less than `min_count` machines (default: `count`). `domain` narrows a reservation to block or rack."""

    token: Annotated[str, Meta(pattern=r"^[!-~]{1,64}$")]
    shape: str
    zone: str
    capacity_type: Literal["reserved", "capacity-block", "on-demand"]
    count: Annotated[int, Meta(ge=1, le=1000)]
    min_count: Annotated[int, Meta(ge=1, le=1000)] | None = None
    reservation: str | None = None
    domain: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    tags: dict[str, str] = {}


class TerminateRequest(Strict, frozen=True, kw_only=True):
    ids: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1000)]


class AnnouncedView(Record, frozen=True, kw_only=True):
    """What will take an instance away, and when."""

    kind: Literal["SpotInterruption", "Maintenance"]
    at: datetime
    words: str


class InstanceView(Record, frozen=True, kw_only=True):
    """An instance as the cloud tells it. `node` is the name its Node has or will have."""

    id: str
    provider_id: str = field(name="providerID")
    node: str
    state: InstanceState
    shape: str
    zone: str
    capacity_type: str
    token: str
    launched_at: datetime
    reservation: str | None = None
    domain: dict[str, str] = {}
    tags: dict[str, str] = {}
    announced: tuple[AnnouncedView, ...] = ()


class Instances(Record, frozen=True, kw_only=True):
    instances: tuple[InstanceView, ...]


class ShapeView(Record, frozen=True, kw_only=True):
    """`allocatable` counts the devices in."""

    name: str
    allocatable: dict[str, str]
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    price_per_hour: Money = "0"


class DomainCount(Record, frozen=True, kw_only=True):
    domain: dict[str, str]
    count: int


class ReservationView(Record, frozen=True, kw_only=True):
    """`used` counts everybody's instances; without racks in the zone the lists by domain are empty."""

    id: str
    shape: str
    zone: str
    capacity_type: str
    total: int
    used: int
    total_by_domain: tuple[DomainCount, ...] = ()
    free_by_domain: tuple[DomainCount, ...] = ()
    starts: datetime | None = None
    ends: datetime | None = None


class StockView(Record, frozen=True, kw_only=True):
    """`available` is left out where the cloud doesn't tell."""

    shape: str
    zone: str
    available: int | None = None


class InventoryView(Record, frozen=True, kw_only=True):
    shapes: tuple[ShapeView, ...] = ()
    reservations: tuple[ReservationView, ...] = ()
    stock: tuple[StockView, ...] = ()


class ErrorView(Record, frozen=True, kw_only=True):
    code: str
    message: str


class ErrorAnswer(Record, frozen=True, kw_only=True):
    error: ErrorView


def seconds(text: str) -> float:
    """Seconds of a Go duration string ("1m30s", "250ms") that its model has validated already."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)(ms|s|m|h)", text))
