"""The kind Booking of group `corral.dev/v1alpha1`: the plan of one attempt, and what became of it."""

from collections import Counter
from typing import Literal

from msgspec import field

from kube.fields import GROUP, VERSION, Money, Text
from kube.meta import Condition, ObjectKey, ObjectMeta, Record

NODE_LOST, REPLACING = "NodeLost", "Replacing"
"""The condition of a Booking whose nodes were lost, and its reason while machines are bought in place of them."""
MENDED = ("nodes", "former", "purchases", "costPerHour", "nodeCount")
"""What of a plan may change, while it is Provisioned: other nodes come in place of lost ones."""


class BookedPodSet(Record, frozen=True, kw_only=True):
    """`label` is the node label key `<booking>.booking.corral.dev/<pod set>` that steers this pod set's pods.

    `requests` is what one pod asks for as the scheduler counts it: milli-cores of cpu, base units of the rest, `pods: 1`
    included. `inherited` are keys of earlier bookings of the same job that its pods select, too.
    """

    name: str
    count: int
    label: str
    requests: dict[str, int] = {}
    inherited: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """All that its nodes must bear."""
        return (self.label, *self.inherited)


class BookedNode(Record, frozen=True, kw_only=True):
    """A node that was there before, taken by this booking, and how many pods of each pod set it is to hold. `taken_over` is the
    name of the booking that gives it away. `since` is when it came in place of a lost one, "" for one of the first plan.
    """

    name: str
    pool: str
    pods: dict[str, int]
    provider_id: str = field(default="", name="providerID")
    taken_over: str = ""
    since: str = ""


class BookedPurchase(Record, frozen=True, kw_only=True):
    """`count` nodes of one offering. `name` is unique in the booking; launch tokens derive from request UID, attempt,
    it and a number.
    """

    name: str
    pool: str
    source: str
    offering: str
    shape: str
    zone: str
    capacity_type: str
    count: int
    pods: dict[str, int]
    reservation_id: str = field(default="", name="reservationID")
    domain: dict[str, str] = {}
    labels: dict[str, str] = {}
    price_per_hour: Money = "0"


class BookingSpec(Record, frozen=True, kw_only=True):
    """The plan, written before the first cloud call, and after Provisioned again where other nodes come in place of lost ones.
    `former` are nodes that it took and gave up for lost.
    """

    request: ObjectKey
    attempt: int
    installation: str
    policy: str
    pod_sets: tuple[BookedPodSet, ...]
    provision_deadline: str
    booking_seconds: int
    launch_seconds: int = 600
    join_seconds: int | None = None
    verify_seconds: int | None = None
    release_seconds: int = 1800
    workload: ObjectKey | None = None
    nodes: tuple[BookedNode, ...] = ()
    former: tuple[BookedNode, ...] = ()
    purchases: tuple[BookedPurchase, ...] = ()
    cost_per_hour: Money = "0"
    node_count: int = 0  # of nodes and purchases together, for people
    domains: dict[str, str] = {}
    traceparent: str = ""


class Launch(Record, frozen=True, kw_only=True):
    """One cloud call, written before it is made. `state`: Pending until its outcome is known, then Answered or Failed.

    `reason` is the class of a failure (the cloud's ErrorKind), `message` the cloud's own words.
    """

    purchase: str
    token: str
    count: int
    state: Literal["Pending", "Answered", "Failed"]
    at: str
    message: Text = ""
    reason: str = ""


class BookedInstance(Record, frozen=True, kw_only=True):
    """One machine of this booking. `state` runs Launched, Joined, Ready; Bad is quarantined; Terminating until the
    cloud says Gone.
    """

    id: str
    purchase: str
    state: Literal["Launched", "Joined", "Ready", "Bad", "Terminating", "Gone", "Transferred"]
    node: str = ""
    provider_id: str = field(default="", name="providerID")
    message: Text = ""
    since: str = ""
    token: str = ""
    launched_at: str = ""
    joined_at: str = ""
    verdict: str = ""
    missing_since: str = ""


class AbsentNode(Record, frozen=True, kw_only=True):
    """A taken node on which no pod can run any more, since when, and why."""

    name: str
    since: str
    message: Text = ""


class BookingStatus(Record, frozen=True, kw_only=True):
    """`phase`: Marking (free nodes get taint and label) > Launching > Joining > Provisioned > Releasing > Released;
    Failing (rolls back) > Failed instead after any step before Provisioned."""

    phase: Literal["Marking", "Launching", "Joining", "Provisioned", "Releasing", "Released", "Failing", "Failed"] = "Marking"
    reason: str = ""
    message: Text = ""
    phase_since: str | None = None
    marked_at: str | None = None
    provisioned_at: str | None = None
    first_pod_at: str | None = None
    idle_since: str | None = None
    launches: tuple[Launch, ...] = ()
    instances: tuple[BookedInstance, ...] = ()
    absent: tuple[AbsentNode, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Booking(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: BookingSpec
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "Booking"
    status: BookingStatus = BookingStatus()

    @property
    def whole(self) -> bool:
        """Whether nothing of it is lost and all that it bought is ready."""
        ready = Counter(each.purchase for each in self.status.instances if each.state == "Ready")
        lost = any(each.type == NODE_LOST and each.status == "True" for each in self.status.conditions)
        return not lost and all(ready[each.name] >= each.count for each in self.spec.purchases)

    @property
    def replacing(self) -> bool:
        """Whether it is Provisioned and buys machines in place of lost ones: it claims their places meanwhile."""
        lost = (each for each in self.status.conditions if each.type == NODE_LOST and each.status == "True")
        return self.status.phase == "Provisioned" and any(each.reason == REPLACING for each in lost)
