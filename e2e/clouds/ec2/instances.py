"""Instances: what was asked for, where each stands, and its life as a function of time."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
KEPT = timedelta(hours=1)
"""How long a terminated instance stays visible (API reference, TerminateInstances)."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One launch, resolved: template and call merged and checked. `tags` by resource type, `addresses` for each instance."""

    type: str
    image: str
    zone: str
    subnet: str
    vpc: str
    security_groups: tuple[str, ...]
    interfaces: tuple[dict[str, Any], ...]
    tags: dict[str, dict[str, str]]
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    group: str = ""  # placement group
    market: str = "on-demand"
    preference: str = "open"  # as the API when nothing is said (cloud.md 1.1)
    target: str = ""
    target_group: str = ""
    user_data: str = ""
    profile: str = ""
    protected: bool = False
    addresses: int = 1
    efa: int = 0


@dataclass(slots=True)
class Instance:
    """`source` is the key of the stock, or the id of the reservation, whose slot it takes."""

    id: str
    spec: Spec
    call: str  # r-...
    index: int
    token: str
    source: str
    nodes: tuple[str, ...]
    address: str
    launched: datetime
    runs: datetime
    visible: datetime
    tags: dict[str, str] = field(default_factory=dict)
    reservation: str = ""
    block: str = ""
    stopped: datetime | None = None
    terminated: datetime | None = None
    released: datetime | None = None
    reason: tuple[str, str] = ("", "")
    problem: str = ""  # why it never becomes a Node
    joined: bool = False
    plugged: datetime | None = None
    published: bool = False
    removed: bool = False

    @property
    def hostname(self) -> str:
        """Of type resource-name, which no other instance ever has."""
        return f"{self.id}.ec2.internal"

    def state(self, now: datetime) -> str:
        if self.terminated is not None and self.terminated <= now:
            return "terminated"
        if self.stopped is not None and self.stopped <= now:
            return "shutting-down"
        return "running" if self.runs <= now else "pending"

    def holds(self, now: datetime) -> bool:
        """Whether its slot is taken."""
        return self.launched <= now and (self.released is None or now < self.released)

    def lives(self, now: datetime) -> bool:
        return self.state(now) in ("pending", "running")

    def shows(self, now: datetime) -> bool:
        """Whether other calls know it: not yet right after launch, no more an hour after its end."""
        return self.visible <= now and (self.terminated is None or now < self.terminated + KEPT)

    def stop(self, now: datetime, terminating: float, releasing: float, reason: tuple[str, str]) -> None:
        """Ends it once; the slot comes back `releasing` seconds after it is terminated."""
        if self.stopped is not None:
            return
        self.stopped, self.reason = now, reason
        self.terminated = now + timedelta(seconds=terminating)
        self.released = self.terminated + timedelta(seconds=releasing)
