"""What the account holds besides instances, as the state file and the admin API write it (camelCase keys).

Durations are seconds of the stand-in's clock; instants are RFC 3339 with a zone.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from provisioner.clouds.simulated.wire import Count, Instant, Strict, Taint

State = Literal[
    "active",
    "expired",
    "cancelled",
    "pending",
    "failed",
    "scheduled",
    "payment-pending",
    "payment-failed",
    "assessing",
    "delayed",
    "unsupported",
    "cancelling",
    "unavailable",
]
"""The 13 states of a reservation (cloud.md 1.1)."""

Seconds = Annotated[float, Meta(ge=0)]


class Zone(Strict, frozen=True, kw_only=True):
    """`name` is this account's alias, `id` the zone itself (cloud.md 1.1, sharing)."""

    name: str
    id: str


class Subnet(Strict, frozen=True, kw_only=True):
    """`addresses`: how many it has in all; instances take theirs."""

    id: str
    zone: str
    addresses: Count = 4091
    vpc: str = "vpc-0c0ffee0"
    cidr: str = "10.0.0.0/20"


class SecurityGroup(Strict, frozen=True, kw_only=True):
    """`from_itself`, `to_itself`: all traffic from and to its own members is allowed, as EFA needs (cloud.md 1.7)."""

    id: str
    name: str = "nodes"
    vpc: str = "vpc-0c0ffee0"
    from_itself: bool = True
    to_itself: bool = True


class LaunchTemplate(Strict, frozen=True, kw_only=True):
    """`versions`: the data of versions 1, 2, ... as the API spells it."""

    id: str
    name: str
    versions: tuple[dict[str, Any], ...]
    default: int = 1
    tags: dict[str, str] = {}


class Place(Strict, frozen=True, kw_only=True):
    """Where `count` machines stand: names of network nodes from spine to the nearest; the API tells hashes of them."""

    nodes: tuple[str, ...]
    count: Count


class Stock(Strict, frozen=True, kw_only=True):
    """On-demand machines of a type in a zone; no stock at all means that the zone doesn't offer the type."""

    type: str
    zone: str
    count: Count = 0
    places: tuple[Place, ...] = ()  # none: one network node for all

    @property
    def key(self) -> str:
        return f"{self.type}/{self.zone}"


class Reservation(Strict, frozen=True, kw_only=True):
    """An On-Demand Capacity Reservation, or the reservation that a Capacity Block is.

    `outside`: slots that other accounts use. `broken`: slots that are told free but can't be had. `told`: the free count
    that the API tells, whatever is true. `state` None follows from the dates.
    """

    id: str
    type: str
    zone: str
    total: Count
    outside: Count = 0
    broken: Count = 0
    told: Count | None = None
    state: State | None = None
    match: Literal["open", "targeted"] = "targeted"
    kind: Literal["default", "capacity-block"] = "default"
    block: str = ""  # cb-...
    ultraserver: str = ""  # u-...: instances end an hour before the block, not half an hour (cloud.md 1.2)
    launchable: bool | None = None
    owner: str = "111122223333"
    platform: str = "Linux/UNIX"
    tenancy: Literal["default", "dedicated"] = "default"
    placement_group_arn: str = ""
    groups: tuple[str, ...] = ()  # ARNs of resource groups
    start: Instant | None = None
    end: Instant | None = None
    tags: dict[str, str] = {}
    places: tuple[Place, ...] = ()

    @property
    def key(self) -> str:
        return self.id

    def state_at(self, now: datetime) -> str:
        """The told state."""
        if self.state is not None:
            return self.state
        if self.start is not None and now < self.start:
            return "scheduled"
        return "expired" if self.end is not None and self.end <= now else "active"


class PlacementGroup(Strict, frozen=True, kw_only=True):
    name: str
    id: str
    strategy: Literal["cluster", "spread", "partition"] = "cluster"
    tags: dict[str, str] = {}


class AutoScalingGroup(Strict, frozen=True, kw_only=True):
    name: str
    instances: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()  # processes, such as AZRebalance
    tags: dict[str, str] = {}
    desired: Count = 0


class Quota(Strict, frozen=True, kw_only=True):
    """A Service Quota; `value` counts vCPUs for those that limit on-demand instances."""

    code: str
    value: Annotated[int, Meta(ge=0)]
    name: str = ""
    service: str = "ec2"


class Bucket(Strict, frozen=True, kw_only=True):
    """A token bucket: `size` at once, then `refill` a second."""

    size: Annotated[float, Meta(gt=0)]
    refill: Seconds


class Settings(Strict, frozen=True, kw_only=True):
    """The account's habits.

    `running`: launch to running. `visible`: until a new instance is known to other calls. `terminating`: asked to
    terminated; `releasing`: until its slot is free again, `block_releasing` in a block (cloud.md 1.2: minutes).
    `counting`: how old the told free count of a reservation is. `joining`: running to Node; `devices`: Node to devices.
    """

    account: str = "111122223333"
    region: str = "us-east-1"
    running: Seconds = 3
    visible: Seconds = 1
    terminating: Seconds = 5
    releasing: Seconds = 0
    block_releasing: Seconds = 60
    counting: Seconds = 2
    joining: Seconds = 2
    devices: Seconds = 3
    throttled: bool = True
    denied: tuple[str, ...] = ()  # operations that the caller has no permission for
    token_of_terminated: Literal["error", "instances"] = "error"
    readiness: bool = True  # False: nodes join and never become Ready
    device_plugin: Annotated[str, Meta(pattern="^[^/]+/[^/]+$")] = "kube-system/nvidia-device-plugin"
    startup_taints: tuple[Taint, ...] = ()  # removed from a Node once its devices are there


class Change(Strict, frozen=True, kw_only=True):
    """The state file, and a change of it: each list adds objects or replaces those of the same key."""

    settings: dict[str, Any] = {}
    zones: tuple[Zone, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    launch_templates: tuple[LaunchTemplate, ...] = ()
    stock: tuple[Stock, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    placement_groups: tuple[PlacementGroup, ...] = ()
    auto_scaling_groups: tuple[AutoScalingGroup, ...] = ()
    quotas: tuple[Quota, ...] = ()
    buckets: dict[str, Bucket] = {}
