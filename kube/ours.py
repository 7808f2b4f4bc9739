"""The kinds of group `corral.dev/v1alpha1`: CapacityPool, CapacityPolicy, Booking. The CRDs are generated from these models."""

from typing import Annotated, Literal

from msgspec import Meta, field

from kube.bookings import AbsentNode as AbsentNode
from kube.bookings import BookedInstance as BookedInstance
from kube.bookings import BookedNode as BookedNode
from kube.bookings import BookedPodSet as BookedPodSet
from kube.bookings import BookedPurchase as BookedPurchase
from kube.bookings import Booking as Booking
from kube.bookings import BookingSpec as BookingSpec
from kube.bookings import BookingStatus as BookingStatus
from kube.bookings import Launch as Launch
from kube.core import Taint
from kube.fields import GROUP as GROUP
from kube.fields import VERSION as VERSION
from kube.fields import CapacityTypeName as CapacityTypeName
from kube.fields import Count as Count
from kube.fields import Duration as Duration
from kube.fields import LabelKey as LabelKey
from kube.fields import LabelValue as LabelValue
from kube.fields import Money as Money
from kube.fields import Name as Name
from kube.fields import SourceType as SourceType
from kube.fields import Text as Text
from kube.meta import Condition, ObjectMeta, Record
from kube.providers import AdoptedProvider as AdoptedProvider
from kube.providers import AwsLaunchTemplate as AwsLaunchTemplate
from kube.providers import AwsProvider as AwsProvider
from kube.providers import Provider as Provider
from kube.providers import RegisteredTaint as RegisteredTaint
from kube.providers import SimulatedProvider as SimulatedProvider
from kube.readiness import HealthCheck as HealthCheck
from kube.readiness import PodTemplateRef as PodTemplateRef
from kube.readiness import Readiness as Readiness
from kube.readiness import UnhealthyCondition as UnhealthyCondition
from kube.times import seconds

# --- CapacityPool ---------------------------------------------------------------------------------------------------------


class LabelSelector(Record, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}


IDLE_AFTER = "10m"
"""How long machines stay idle where scale-in is wanted and no time is given."""


class ScaleIn(Record, frozen=True, kw_only=True):
    """What is left out follows from the source: `Source.idle_seconds`."""

    policy: Literal["Never", "WhenIdle"] | None = None
    after: Duration | None = None


class Source(Record, frozen=True, kw_only=True):
    name: Name
    capacity_type: SourceType
    reservation_ids: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=32)] = field(
        default=(), name="reservationIDs"
    )
    max_nodes: Count | None = None
    spare_nodes: Count = 0
    drain_before_end: Duration = "0s"
    scale_in: ScaleIn = ScaleIn()

    @property
    def idle_seconds(self) -> int | None:
        """How long its machines may be idle, None for ever: prepaid ones, unless `scaleIn` says otherwise."""
        wanted = self.scale_in
        prepaid = self.capacity_type != "on-demand" and wanted.policy is None and wanted.after is None
        return None if prepaid or wanted.policy == "Never" else seconds(wanted.after or IDLE_AFTER)


class Limits(Record, frozen=True, kw_only=True):
    on_demand_nodes: Count | None = None
    on_demand_spend_per_day: Money | None = None


class CapacityPoolSpec(Record, frozen=True, kw_only=True):
    provider: Provider
    mode: Literal["Observe", "Active", "Paused"] = "Observe"
    node_selector: LabelSelector | None = None
    shapes: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=63)], ...], Meta(max_length=64)] = ()
    node_labels: Annotated[dict[str, LabelValue], Meta(max_length=16)] = {}
    topology_keys: Annotated[tuple[LabelKey, ...], Meta(max_length=8)] = ("topology.kubernetes.io/zone",)
    sources: Annotated[tuple[Source, ...], Meta(max_length=16)] = ()
    limits: Limits = Limits()
    readiness: Readiness = Readiness()


class ShapeStatus(Record, frozen=True, kw_only=True):
    name: str
    allocatable: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    on_demand_price_per_hour: Money | None = None


class OfferingStatus(Record, frozen=True, kw_only=True):
    name: str
    source: str
    shape: str
    zone: str
    capacity_type: str
    available: int
    total: int
    reservation_id: str = field(default="", name="reservationID")
    domain: dict[str, str] = {}
    price_per_hour: Money = "0"
    unavailable: Text = ""
    starts: str | None = None
    ends: str | None = None


class ReservationStatus(Record, frozen=True, kw_only=True):
    """`total = booked + outside + quarantined + free`; `spare` of the free ones are kept back."""

    id: str
    source: str
    shape: str
    zone: str
    total: int
    booked: int
    outside: int
    quarantined: int
    free: int
    spare: int = 0
    starts: str | None = None
    ends: str | None = None


class Backoff(Record, frozen=True, kw_only=True):
    """One offering key that failed and when it is tried again; shared by all requests, kept over restarts."""

    source: str
    shape: str
    zone: str
    reason: str
    message: Text
    since: str
    until: str
    reservation_id: str = field(default="", name="reservationID")
    failures: int = 1


class NodeCounts(Record, frozen=True, kw_only=True):
    launched: int = 0
    adopted: int = 0
    booked: int = 0
    idle: int = 0
    quarantined: int = 0


class Spend(Record, frozen=True, kw_only=True):
    """On-demand money of one UTC day, committed at purchase for the hours left of it and corrected at release."""

    day: str
    on_demand: Money = "0"


class CapacityPoolStatus(Record, frozen=True, kw_only=True):
    observed_generation: int = 0
    shapes: tuple[ShapeStatus, ...] = ()
    offerings: tuple[OfferingStatus, ...] = ()
    reservations: tuple[ReservationStatus, ...] = ()
    backoffs: tuple[Backoff, ...] = ()
    nodes: NodeCounts = NodeCounts()
    spend: Spend | None = None
    conditions: tuple[Condition, ...] = ()


class CapacityPool(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: CapacityPoolSpec
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "CapacityPool"
    status: CapacityPoolStatus = CapacityPoolStatus()


# --- CapacityPolicy -------------------------------------------------------------------------------------------------------


class TopologyPolicy(Record, frozen=True, kw_only=True):
    required: LabelKey | None = None
    preferred: LabelKey | None = None


class CrossZone(Record, frozen=True, kw_only=True):
    policy: Literal["Forbid", "Allow"] = "Forbid"
    cost_per_node_hour: Money = "0"


class Timeouts(Record, frozen=True, kw_only=True):
    """`accept`: how long what is needed to accept may be missing; `queued`: from acceptance to a plan; `launch`: until the cloud
    has answered all calls of a plan; `join` and `verify`: of one machine, from launch to node to ready, within the pool's
    `readiness.timeout`; `provision`: from the plan to Provisioned; `booking`: from Provisioned to the first pod; `release`: from
    its end until all is given back, then an alarm.
    """

    accept: Duration | None = None
    queued: Duration = "24h"
    launch: Duration = "10m"
    join: Duration | None = None
    verify: Duration | None = None
    provision: Duration = "40m"
    booking: Duration = "15m"
    release: Duration = "30m"


class RetryPolicy(Record, frozen=True, kw_only=True):
    """`limit` retries after the first attempt; waits of backoff * 2^(n-1), at most maxBackoff."""

    limit: Annotated[int, Meta(ge=0, le=100)] = 5
    backoff: Duration = "2m"
    max_backoff: Duration = "30m"


class RunDuration(Record, frozen=True, kw_only=True):
    """`Unknown`, or a duration that is assumed for gangs that declare none."""

    default: Annotated[str, Meta(pattern=r"^(Unknown|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$", max_length=32)] = "Unknown"


class BareRequests(Record, frozen=True, kw_only=True):
    namespaces: Annotated[tuple[Name, ...], Meta(max_length=256)] = ()


OVERRIDES = {
    "requiredTopology": "topology.required",
    "preferredTopology": "topology.preferred",
    "runDuration": "runDuration",
    "capacityOrder": "capacityOrder",
    "priceCeilingPerHour": "priceCeilingPerHour",
    "queuedTimeout": "timeouts.queued",
    "provisionTimeout": "timeouts.provision",
    "retryLimit": "retry.limit",
}
"""Parameter of a request -> the field of the policy that it overrides, by which `userOverrides` opens it."""

ObjectName = Annotated[str, Meta(min_length=1, max_length=253)]


class ByPriorityClass(Record, frozen=True, kw_only=True):
    """Workloads of a priority class of these names, Kueue's or Kubernetes', are served on the terms of another policy."""

    policy: ObjectName
    names: Annotated[tuple[ObjectName, ...], Meta(min_length=1, max_length=16)]


class CapacityPolicySpec(Record, frozen=True, kw_only=True):
    pools: Annotated[
        tuple[Annotated[str, Meta(max_length=253)], ...], Meta(max_length=64)
    ] = ()  # names of the pools this policy may use; empty: all
    capacity_order: Annotated[tuple[CapacityTypeName, ...], Meta(min_length=1, max_length=4)] = (
        "reserved",
        "capacity-block",
        "on-demand",
    )
    topology: TopologyPolicy = TopologyPolicy()
    cross_zone: CrossZone = CrossZone()
    price_ceiling_per_hour: Money | None = None
    timeouts: Timeouts = Timeouts()
    retry: RetryPolicy = RetryPolicy()
    run_duration: RunDuration = RunDuration()
    on_node_loss: Literal["Replace", "Leave", "Revoke"] = "Replace"
    bare_requests: BareRequests = BareRequests()
    user_overrides: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    by_priority_class: Annotated[tuple[ByPriorityClass, ...], Meta(max_length=16)] = ()


class CapacityPolicyStatus(Record, frozen=True, kw_only=True):
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class CapacityPolicy(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: CapacityPolicySpec = CapacityPolicySpec()
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "CapacityPolicy"
    status: CapacityPolicyStatus = CapacityPolicyStatus()

    def serving(self, priority_class: str) -> str:
        """The name of the policy on whose terms workloads of the priority class are served: its own unless it names another.

        That other one is final: its own `byPriorityClass` doesn't count.
        """
        named = (each.policy for each in self.spec.by_priority_class if priority_class in each.names)
        return next(named, self.metadata.name)
