"""What Corral asks of a cloud: one small protocol, plain records, and a closed set of errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from capacity.model import Labels, Shape
from capacity.requirements import Taint


class ErrorKind(StrEnum):
    """Classes of cloud errors; the caller decides by class, never by text (reference: cloud error tables of AWS and GCP)."""

    CAPACITY = "InsufficientCapacity"  # this shape, in this zone, now: another place may do
    RESERVATION_FULL = "ReservationCapacityExceeded"
    QUOTA = "QuotaExceeded"
    CONFIG = "InvalidConfiguration"  # permanent until somebody edits the pool
    THROTTLED = "Throttled"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"  # timeout, lost reply, 5xx: the call may have succeeded


class CloudError(Exception):
    """A cloud call that failed. `message` holds the cloud's own words."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class CloudShape:
    """An instance type in one cloud: `shape` as its nodes will look, and what an hour of it costs on demand (micro-dollars)."""

    shape: Shape
    on_demand_price: int
    startup_taints: tuple[Taint, ...] = ()  # removed by others before the node is ready


@dataclass(frozen=True, slots=True)
class Reservation:
    """Prepaid room. `free_by_domain` lists the slots free now by topology labels, when the cloud tells them; it sums to
    `total - used`. `used` counts all running instances in it, ours and others'."""

    id: str
    shape: str
    zone: str
    capacity_type: str  # reserved | capacity-block
    total: int
    used: int
    total_by_domain: tuple[tuple[Labels, int], ...] = ()
    free_by_domain: tuple[tuple[Labels, int], ...] = ()
    starts: int | None = None
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class ZoneStock:
    """On-demand stock of a shape in a zone. `available` is None when the cloud doesn't tell (the usual case)."""

    shape: str
    zone: str
    available: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool is about, so that a cloud with hundreds of instance types is asked of these alone. Empty `shapes`: all that the
    reservations and the cloud offer.
    """

    shapes: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    on_demand: bool = True


EVERYTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Check:
    """Something looked at before money is spent; told as a condition of the pool. `type` names the trouble, which is there unless
    `ok`. While `blocks`, nothing is bought.
    """

    type: str
    ok: bool
    reason: str
    message: str
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Inventory:
    shapes: tuple[CloudShape, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    stock: tuple[ZoneStock, ...] = ()
    checks: tuple[Check, ...] = ()


class InstanceState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "shutting-down"
    TERMINATED = "terminated"

    @property
    def ending(self) -> bool:
        """Whether it runs nothing any more, or soon won't."""
        return self in (InstanceState.STOPPING, InstanceState.TERMINATED)


@dataclass(frozen=True, slots=True)
class Order:
    """One launch call: `count` machines or an error, though clouds may deliver fewer. Repeating it with the same
    `token` never buys twice.

    `domain` narrows the place inside the zone (block, rack) by topology labels where the reservation allows that.
    `labels`, `annotations` and `taints` are what each Node registers with, besides the shape's own. `tags` carry
    installation, booking and purchase.
    """

    token: str
    shape: str
    zone: str
    capacity_type: str
    count: int
    reservation: str | None = None
    domain: Labels = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    tags: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Announcement:
    """The cloud will stop, reboot or take back a machine at `at`, epoch seconds. `words` are its own."""

    kind: Literal["SpotInterruption", "Maintenance"]
    at: int
    words: str


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine as the cloud tells it. `wrong` says what about it isn't as ordered and never will be, "" when nothing is."""

    id: str
    provider_id: str  # equals Node.spec.providerID
    state: InstanceState
    shape: str
    zone: str
    token: str
    reservation: str | None = None
    domain: Labels = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    announced: tuple[Announcement, ...] = ()
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that a call may take; `launch` is for launches and terminations."""

    read: float = 10.0
    launch: float = 60.0


DEFAULT_TIMEOUTS = Timeouts()


class Cloud(Protocol):
    """All calls are bounded in time by the implementation and raise CloudError alone."""

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:
        """What there is of what is wanted; more may be told."""
        ...

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        """Buys. May return fewer than `order.count`; raises CloudError when none could be had or the outcome is unknown."""
        ...

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        """All instances that carry these tags, those terminated lately included."""
        ...

    async def terminate(self, ids: Sequence[str]) -> None:
        """Asks for termination; already gone is success. Not confirmed: look with `instances`."""
        ...

    async def close(self) -> None: ...
