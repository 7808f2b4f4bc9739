"""What the simulated cloud remembers, row by row."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from kube.fields import Duration
from kube.meta import Record
from provisioner.clouds.base import InstanceState
from provisioner.clouds.simulated.config import OnDemand, Reservation
from provisioner.clouds.simulated.faults import Fault, NodeCondition
from provisioner.clouds.simulated.tables import Table
from provisioner.clouds.simulated.wire import AnnouncedView, Count, Instant, LaunchRequest, Name, Strict


class Machine(Record, frozen=True, kw_only=True):
    """One instance for ever. Its state is a function of the clock; the last four fields say how far its Node is.

    `rack` is where it stands ("": no told place), `said_rack` what its Node says. `joins_at` is None when it never joins.
    `hung_by` names the fault that holds its termination back; `gone_at` is None then.
    """

    id: str
    order: LaunchRequest
    rack: str
    said_rack: str
    devices: dict[str, int]
    launched_at: datetime
    visible_at: datetime
    running_at: datetime
    joins_at: datetime | None
    becomes_ready: bool = True
    announced: tuple[AnnouncedView, ...] = ()
    condition: NodeCondition | None = None
    stopping_at: datetime | None = None
    gone_at: datetime | None = None
    hung_by: str = ""
    joined: bool = False
    plugin_at: datetime | None = None
    devices_published: bool = False
    node_removed: bool = False

    def state(self, now: datetime) -> InstanceState:
        if self.gone_at is not None and self.gone_at <= now:
            return InstanceState.TERMINATED
        if self.stopping_at is not None:
            return InstanceState.STOPPING
        return InstanceState.RUNNING if self.running_at <= now else InstanceState.PENDING

    def occupies(self, now: datetime) -> bool:
        """Whether it takes up its slot: a terminating machine does until it is gone."""
        return self.state(now) is not InstanceState.TERMINATED

    def described(self, now: datetime, retention: timedelta) -> bool:
        """Whether the cloud tells of it: not yet at once, and no longer some time after it has gone."""
        return self.visible_at <= now and (self.gone_at is None or now < self.gone_at + retention)


class TokenUse(Record, frozen=True, kw_only=True):
    """What a launch token bought."""

    order: LaunchRequest
    machines: tuple[str, ...]


class Stock(OnDemand, frozen=True, kw_only=True):
    """On-demand stock of a shape in one zone."""

    zone: Name

    @property
    def key(self) -> str:
        return f"{self.zone}/{self.shape}"


class ReservationChange(Strict, frozen=True, kw_only=True):
    """New values of a reservation; what is left out stays."""

    id: Name
    racks: dict[Name, Count] | None = None
    count: Count | None = None
    outside: dict[str, Count] | None = None
    starts: Instant | None = None
    ends: Instant | None = None


class Announcement(Strict, frozen=True, kw_only=True):
    """Machines that the cloud takes back `after` some time, and what it says of that."""

    ids: tuple[Name, ...]
    kind: Literal["SpotInterruption", "Maintenance"] = "Maintenance"
    after: Duration = "2m"
    words: str = "scheduled by the simulated cloud"


class Change(Record, frozen=True, kw_only=True):
    """A change of stock or of a reservation that is due later."""

    id: str
    at: datetime
    reservation: ReservationChange | None = None
    stock: Stock | None = None


@dataclass(frozen=True)
class Memory:
    """All tables."""

    machines: Table[Machine] = field(default_factory=lambda: Table("machines", Machine))
    tokens: Table[TokenUse] = field(default_factory=lambda: Table("tokens", TokenUse))
    reservations: Table[Reservation] = field(default_factory=lambda: Table("reservations", Reservation))
    stock: Table[Stock] = field(default_factory=lambda: Table("stock", Stock))
    faults: Table[Fault] = field(default_factory=lambda: Table("faults", Fault))
    changes: Table[Change] = field(default_factory=lambda: Table("changes", Change))

    def load(self, table: str, key: str, data: bytes) -> None:
        """Takes in a saved row."""
        getattr(self, table).load(key, data)

    def take_changes(self) -> Iterator[tuple[str, str, bytes | None]]:
        """The rows to be saved, all tables'."""
        for table in (self.machines, self.tokens, self.reservations, self.stock, self.faults, self.changes):
            yield from table.take_changes()
