"""The words of the lifecycle: what a booking's next step rests on, and what a step can be."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from msgspec import structs

from capacity.model import CapacityType
from kube.ours import BookedInstance, BookedPurchase, Booking, BookingSpec, BookingStatus
from kube.times import instant
from provisioner.clouds.base import Instance
from provisioner.ending.notices import Notice
from provisioner.repairing.slots import Sought, StandIn

LIVE = ("Launched", "Joined", "Ready")
LOST = 300
"""Seconds that a node must be not Ready before it is given up under its pods; Kubernetes evicts them after the same time
(tolerationSeconds of the DefaultTolerationSeconds admission plugin).
"""
BEFORE = ("Marking", "Launching", "Joining")
ENDED = ("Released", "Failed")


class Reason(StrEnum):
    """Why a booking fails or ends, next to the cloud's own error kinds (`provisioner.clouds.base.ErrorKind`)."""

    CANCELLED = "Cancelled"  # nobody wants it any more
    NODE_TAKEN = "NodeTaken"  # a free node of the plan was lost or filled before the booking held it: plan again
    TIMED_OUT = "ProvisionTimeout"  # the provision deadline came first
    LAUNCH_TIMED_OUT = "LaunchTimeout"  # the cloud didn't answer all calls in time
    BOOKING_EXPIRED = "BookingExpired"  # no pod came in time
    OWNER_DONE = "OwnerDone"  # the workload finished, was evicted or deleted
    POOL_CLOSED = "PoolClosed"  # a pool to buy from was paused or deleted meanwhile: plan again
    REVOKED = "CapacityRevoked"  # nodes are lost for good; the request says so


class Owner(StrEnum):
    """Whoever stands behind the booking: the Workload of its request, or the bare request itself."""

    WAITING = "waiting"  # wants the capacity, pods not released yet
    ADMITTED = "admitted"  # Kueue let the pods go: they may come at any moment
    DONE = "done"  # finished, evicted or deleted, and that is certain
    UNKNOWN = "unknown"  # no certain answer: never taken for DONE


class Verdict(StrEnum):
    """How far a joined node is from what was promised."""

    SOUND = "Sound"
    WAITING = "Waiting"  # something is still to come: readiness, a label, a DaemonSet's pod
    DOUBTED = "Doubted"  # not Ready, as too many others
    CHECKING = "Checking"  # sound otherwise: its health check is to come, or runs as long as the pool lets it
    SHORT = "Short"  # all else is up, but devices or room are fewer than planned
    SICK = "Sick"  # its health conditions say that it is broken
    WRONG = "Wrong"  # another zone or domain than planned: no waiting will mend it


@dataclass(frozen=True, slots=True)
class SeenNode:
    """One node of the booking. `touched`: bears any label key of it; `marked`: has all that the booking sets.

    `others` names foreign bookings with keys there, `giver` the one that has yet to let go of it. `holds`: the planned pods fit
    next to all else that runs there. `busy`: pods neither of the booking nor of a DaemonSet. `launched`: Corral bought its
    machine, some day. `ready`: the Node says so. `closed`: cordoned. `unchecked`: its health check is to begin, `hindered`: it
    can't. `bare`: it offers none of some device that the pods need. `draining`: closed by us for a drain. `staying`: its cloud
    told of machine and reservation, and announces no end. `doubted`: not Ready after all was there, as too many of its pool.
    """

    name: str
    provider_id: str = ""
    touched: bool = False
    marked: bool = False
    quarantined: bool = False
    others: tuple[str, ...] = ()
    giver: str = ""
    holds: bool = True
    busy: bool = False
    launched: bool = False
    ready: bool = True
    closed: bool = False
    verdict: Verdict = Verdict.WAITING
    words: str = ""
    notice: Notice | None = None
    unchecked: bool = False
    hindered: bool = False
    bare: bool = False
    draining: bool = False
    staying: bool = False
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """The world as far as one booking is concerned. `request`: there (True), gone for certain (False), not known (None).

    `instances` by id, None when a cloud gave no answer. `nodes` by name: those the booking takes and those of its machines.
    `gone`: taken nodes that are certainly absent. `consumers` counts live pods that select the booking's label keys, by node
    name, "" for pods without a node. `readiness`: seconds by pool. `sought`: the look for others in place of lost ones. `keep`:
    purchases whose machines stay as idle nodes, `forever` those whose source lets none go. `closed`: why nothing may be bought
    for a purchase, limits for its replacements included. `claimed`: nodes that others take over; `wanted`: gangs wait that might.
    """

    owner: Owner = Owner.UNKNOWN
    words: str = ""
    request: bool | None = None
    bare: bool = False
    instances: Mapping[str, Instance] | None = None
    nodes: Mapping[str, SeenNode] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    consumers: Mapping[str, int] = field(default_factory=dict)
    readiness: Mapping[str, int] = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    forever: frozenset[str] = frozenset()
    closed: Mapping[str, str] = field(default_factory=dict)
    on_node_loss: str = "Replace"
    claimed: frozenset[str] = frozenset()
    wanted: bool = False
    sought: Sought = field(default_factory=Sought)


@dataclass(frozen=True, slots=True)
class Terms:
    """Lengths of time, in seconds.

    `settle`: from taint to second look, for bindings that were under way. `short_grace`: how long a node may lack devices when
    all else is up. `absent`: how long lists must lack a running machine before it counts as gone, `absent_ending` one that was
    told to end. `lost`: how long a node must be not Ready under its pods before it is replaced. `lost_call`: how long a call
    without an answer may still have an effect. `offer`: how long nodes of a booking that is over are offered to gangs that wait.
    `retention`: how long an ended booking is kept to be read.
    """

    settle: int = 2
    short_grace: int = 30
    absent: int = 120
    absent_ending: int = 30
    lost: int = LOST
    lost_call: int = 120
    retention: int = 60
    offer: int = 3
    retry: int = 30
    longest_retry: int = 300
    poll: int = 5
    watch: int = 60


@dataclass(frozen=True)
class View:
    """All that a rule may look at."""

    booking: Booking
    seen: Observed
    now: datetime
    terms: Terms = Terms()

    @property
    def spec(self) -> BookingSpec:
        return self.booking.spec

    @property
    def status(self) -> BookingStatus:
        return self.booking.status

    @property
    def deleted(self) -> bool:
        return self.booking.metadata.deletion_timestamp is not None

    @property
    def consumers(self) -> int:
        return sum(self.seen.consumers.values())

    @property
    def used(self) -> bool:
        """Whether the gang has come: from then on nothing is taken from under its pods."""
        return self.status.first_pod_at is not None or self.consumers > 0

    @property
    def awaited(self) -> bool:
        """Whether the gang has yet to begin, for certain: its pods were not let go, and none has come."""
        return self.seen.owner is Owner.WAITING and not self.used

    @property
    def replacing(self) -> bool:
        """Whether bad machines are replaced: until Provisioned, then until the gang begins or as the policy says, if somebody
        surely wants it: nothing is replaced for a workload that is over while its last pods leave.
        """
        wanted = self.seen.owner in (Owner.WAITING, Owner.ADMITTED) and not self.deleted
        asked = self.awaited or self.seen.on_node_loss == "Replace"
        return self.status.phase == "Joining" or (self.status.phase == "Provisioned" and asked and wanted)

    def having(self, status: BookingStatus) -> "View":
        """The same view as it will be with this status."""
        return dataclasses.replace(self, booking=structs.replace(self.booking, status=status))

    def age(self, text: str | None) -> float:
        """Seconds since an instant of the status; 0 when it is not set."""
        return (self.now - instant(text)).total_seconds() if text else 0.0

    def purchase(self, name: str) -> BookedPurchase | None:
        return next((each for each in self.spec.purchases if each.name == name), None)

    def prepaid(self, name: str) -> bool:
        found = self.purchase(name)
        return found is not None and CapacityType(found.capacity_type).prepaid

    def live(self, purchase: str) -> list[BookedInstance]:
        return [each for each in self.status.instances if each.purchase == purchase and each.state in LIVE]

    def node_of(self, instance: BookedInstance) -> SeenNode | None:
        """The node of a machine, matched by providerID alone: names can be reused."""
        return self._by_machine.get(instance.provider_id)

    @cached_property
    def _by_machine(self) -> Mapping[str, SeenNode]:
        """In reverse, so that of two nodes of one machine the first counts."""
        return {node.provider_id: node for node in reversed([*self.seen.nodes.values()]) if node.provider_id}


@dataclass(frozen=True, slots=True)
class Write:
    """Write this status, nothing else."""

    status: BookingStatus


@dataclass(frozen=True, slots=True)
class Mark:
    """Put the booking's taint, label keys and annotations on these nodes."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unmark:
    """Take the booking's marks off these nodes. Launched ones become idle nodes of their pool."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Label these nodes as bad and keep them tainted; the `silent` ones until they are back."""

    nodes: tuple[str, ...]
    silent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Buy:
    """Make the cloud call of the pending launch with this token, then write what it answered."""

    token: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the cloud to end these machines; their state says Terminating already."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckUp:
    """Begin the pool's health check on these nodes."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Close these nodes and ask the pods on them to leave, by the eviction API: of `everyone`, or of strangers alone."""

    nodes: tuple[str, ...]
    everyone: bool


@dataclass(frozen=True, slots=True)
class Reopen:
    """Open these nodes again: what was announced was called off."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is left: take the finalizer off and delete the object."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for so many seconds, unless something changes."""

    seconds: float


Step = Write | Mark | Unmark | StandIn | Quarantine | CheckUp | Buy | Terminate | Drain | Reopen | Drop | Wait
