"""The records of the capacity model: what a gang asks for and what hardware there is or can be had.

All records are frozen. Amounts are integers: `cpu` in milli-cores, every other resource in its base unit (bytes, devices,
pods). Money is integer micro-dollars an hour. Instants are integer seconds since the Unix epoch, durations integer seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from capacity.requirements import HostPort, LabelSelector, NodeSelectorTerm, PodTerm, Spread, Taint, Toleration

if TYPE_CHECKING:
    from capacity.index.fleet import Stock

Resources = Mapping[str, int]
Labels = Mapping[str, str]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class CapacityType(StrEnum):
    """How an offering is paid for; `reserved` and `capacity-block` are prepaid and add no cost to a plan."""

    RESERVED = "reserved"
    CAPACITY_BLOCK = "capacity-block"
    ON_DEMAND = "on-demand"
    QUEUED = "queued"

    @property
    def prepaid(self) -> bool:
        return self in (CapacityType.RESERVED, CapacityType.CAPACITY_BLOCK)


@dataclass(frozen=True, slots=True)
class Slices:
    """The pods come in slices of `size`, each of which must be within one domain of `topology_key` (Kueue's
    podset-slice-required-topology and podset-slice-size).
    """

    topology_key: str
    size: int


@dataclass(frozen=True, slots=True)
class Exclusive:
    """The pods come in units of `size`, each alone in one domain of `topology_key`: the exclusive topology of JobSet and LWS.

    A size of 0 makes one unit of all pods of the pod sets that share the topology group. `rivals` selects, in all namespaces, the
    running pods that keep a domain from being exclusive.
    """

    topology_key: str
    rivals: LabelSelector
    size: int = 0


@dataclass(frozen=True, slots=True)
class PodSet:
    """Identical pods of a gang, in the form in which the API server admits them.

    `requests` counts one pod as kube-scheduler does, `pods: 1` included. `affinity` holds the required node affinity terms
    (OR of terms), None when the pod has none; an empty tuple matches nothing; `volumes` the node affinity of each bound volume,
    all of which must match, too. `near` and `apart` are the required inter-pod terms. `required_topology` is the node label key
    whose one value must hold all pods of the gang's pod sets that name the same key and the same `topology_group`.
    `placed_by_kueue`: topology-aware scheduling pins each pod to a host, by the `levels` of its Topology, the widest first and
    the host included; without any they are the snapshot's. kube-scheduler has no choice then. `pinned` are the hosts, by
    hostname, to which that many pods are pinned already. `undecidable` lists what
    this planner does not model about the pod (a resource claim, another scheduler, …), `awaits` what isn't there yet of what the
    pod names (its volume's claim, …), each a short phrase for people.
    """

    name: str
    count: int
    requests: Resources
    node_selector: Labels = field(default_factory=dict)
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    required_topology: str | None = None
    preferred_topology: str | None = None
    undecidable: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    volumes: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    topology_group: str = ""
    slices: Slices | None = None
    exclusive: Exclusive | None = None
    placed_by_kueue: bool = False
    levels: tuple[str, ...] = ()
    pinned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gang:
    """All pods of one workload that must start together. `run_duration` is None when unknown. `one_mark`: pods can't be steered
    by pod set, all may come to any node of the plan.
    """

    name: str
    pod_sets: tuple[PodSet, ...]
    run_duration: int | None = None
    one_mark: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """An instance type as kube-scheduler will see its nodes once they are ready.

    `labels` and `taints` are those that each node of the shape carries for good; start-up taints that go away by
    themselves are not here. `overhead` is what the DaemonSets that will run there ask for, `pods` included: it is taken
    off `allocatable`; `pods` are those pods, one by one.
    """

    name: str
    allocatable: Resources
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    overhead: Resources = field(default_factory=dict)
    pods: "tuple[Running, ...]" = ()


@dataclass(frozen=True, slots=True)
class Offering:
    """A shape that can be had, in one place, from one source.

    `name` is unique in a snapshot and stable over time. `domain` holds the topology labels that a node bought here is
    known to carry (a key that is absent is not known before launch, so no required level on it can be met here).
    `available` is how many nodes can be had now, limits, spares and other bookings already taken off; `total` how many
    there would be if nothing else used them. `price` is what one node adds to the bill in micro-dollars an hour: 0 for
    prepaid types. `ends` is when the capacity goes away (drain margin taken off).
    """

    name: str
    pool: str
    source: str
    shape: Shape
    capacity_type: CapacityType
    available: int
    total: int
    price: int = 0
    domain: Labels = field(default_factory=dict)
    reservation: str | None = None
    starts: int | None = None
    ends: int | None = None
    unavailable: str = ""  # why `available` is 0, for people: "InsufficientCapacity since 10:02, next try 10:05"


@dataclass(frozen=True, slots=True)
class Running:
    """What about a pod that runs, or is to run for a booking, decides where other pods may go: `apart` are its own required
    anti-affinity terms. One that is `terminating` counts for all but spreads. `requests` as in PodSet, empty where not known: no
    filter looks at them, they tell what pods are usual here.
    """

    namespace: str
    labels: Labels
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    terminating: bool = False
    requests: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bystander:
    """A node that no gang may be given, there or to come; its pods and its place count for affinity and spread all the same."""

    name: str
    labels: Labels
    pods: tuple[Running, ...] = ()
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A managed node that is there: launched by us and idle, or adopted. `requested` sums all pods on it, `pods` included.

    `booked_by` names the booking that holds it whole, None when it is free for a gang. `price` is what keeping it adds
    (0: prepaid or adopted). `pods` are those of `requested`, one by one, with those still to come for a booking.
    """

    name: str
    pool: str
    allocatable: Resources
    requested: Resources
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    booked_by: str | None = None
    capacity_type: CapacityType | None = None
    reservation: str | None = None
    ends: int | None = None
    price: int = 0
    pods: tuple[Running, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that offerings share: `weight` is what a node of each takes of it (1, or micro-dollars of the day), by name.

    `left` is what may still be taken, `whole` the limit itself; `text` names it for people. `same`: nobody set it, the offerings
    are the same machines.
    """

    text: str
    weight: Mapping[str, int]
    left: int
    whole: int
    same: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """A booking as others see it: its gang's name for people, and when it ends at the latest, None when that is not known."""

    gang: str
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class ReservationUse:
    """How one reservation's count is made up, for explanations. All are numbers of nodes."""

    name: str
    shape: str
    zone: str
    total: int
    booked: int
    outside: int
    quarantined: int
    spare: int
    free: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a plan may rest on, at one instant (`now`). `topology_keys` run from the widest level to the narrowest,
    host excluded. `holders` tells of the bookings that `booked_by` names. `stock` is an index of `nodes`, used while it is of
    that very sequence; without one the planner makes its own.
    """

    now: int
    nodes: Sequence[Node] = ()
    offerings: tuple[Offering, ...] = ()
    topology_keys: tuple[str, ...] = (ZONE,)
    reservations: tuple[ReservationUse, ...] = ()
    bystanders: tuple[Bystander, ...] = ()
    budgets: tuple[Budget, ...] = ()
    holders: Mapping[str, Holder] = field(default_factory=dict)
    stock: "Stock | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the CapacityPolicy asks of a plan. `price_ceiling` is in micro-dollars an hour for the whole gang.

    `cross_zone_cost` is what a node outside the gang's main zone counts for, in micro-dollars an hour, when plans are compared;
    it is no part of a plan's cost.
    """

    capacity_order: tuple[CapacityType, ...] = (
        CapacityType.RESERVED,
        CapacityType.CAPACITY_BLOCK,
        CapacityType.ON_DEMAND,
    )
    required_topology: str | None = None
    preferred_topology: str | None = None
    price_ceiling: int | None = None
    cross_zone_cost: int = 0


@dataclass(frozen=True, slots=True)
class Purchase:
    """`count` nodes to be bought of one offering, each to hold at most `pods` of each pod set named (pod set name ->
    pods a node).
    """

    offering: Offering
    count: int
    pods: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Use:
    """An existing node to be booked, to hold at most `pods` of each pod set named."""

    node: Node
    pods: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a whole gang goes. `cost` is the added micro-dollars an hour; `domains` the chosen value of each required
    topology key. `gap` is by how many micro-dollars an hour a better plan might be cheaper at most: 0 when this is proven best.
    """

    gang: Gang
    uses: tuple[Use, ...]
    purchases: tuple[Purchase, ...]
    cost: int
    domains: Labels = field(default_factory=dict)
    gap: int = 0


class Reason(StrEnum):
    """The closed set of reasons for waiting (design.md), the same in conditions, events, metrics, traces and the CLI."""

    QUOTA_INSUFFICIENT = "QuotaInsufficient"
    CAPACITY_PROVISIONING = "CapacityProvisioning"
    TOPOLOGY_UNSATISFIED = "TopologyUnsatisfied"
    RESERVATION_MISMATCH = "ReservationMismatch"
    GANG_INCOMPLETE = "GangIncomplete"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was considered and what it ruled out: `subject` an offering, node class or domain; `detail` with
    numbers.
    """

    subject: str
    detail: str
    pods: int = 0  # how many pods of the gang it could hold


class Constraint(StrEnum):
    """What can keep pods off a node; each node is ruled out by the first that fails, in this order."""

    BOOKED = "booked"
    NOT_READY = "not-ready"
    CORDONED = "cordoned"
    CAPACITY_ORDER = "capacity-order"
    NOT_STARTED = "not-started"
    ENDS_TOO_SOON = "ends-too-soon"
    NOT_AVAILABLE = "not-available"
    LIMIT = "limit"
    PRICE_CEILING = "price-ceiling"
    TAINT = "taint"
    NODE_SELECTOR = "node-selector"
    NODE_AFFINITY = "node-affinity"
    VOLUME = "volume"
    TOPOLOGY = "topology"  # the label of a required level is not there, or not known before launch
    TOO_SMALL = "too-small"
    PORT = "port"
    IN_USE = "in-use"
    RUNNING_PODS = "running-pods"  # affinity and spread with respect to pods that run already


@dataclass(frozen=True, slots=True)
class RuledOut:
    """What one constraint takes away at one place: `nodes` whole, and room for `pods`, on these and on nodes that stay usable.

    `detail` is what most of these nodes show, for people.
    """

    constraint: Constraint
    nodes: int
    pods: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Considered:
    """A place where one pod set was tried. It has `nodes`, there or to be had, with room for `pods` of the pod set if they were
    empty and nothing forbade it; what `ruled_out` leaves of both is usable.

    `inside` splits the place by source, `domains` by domain of `level`, the one that the pod set requires; each adds up to the
    place.
    """

    subject: str
    nodes: int
    pods: int
    ruled_out: tuple[RuledOut, ...] = ()
    inside: tuple["Considered", ...] = ()
    domains: tuple["Considered", ...] = ()
    level: str = ""

    @property
    def usable_nodes(self) -> int:
        return self.nodes - sum(one.nodes for one in self.ruled_out)

    @property
    def usable_pods(self) -> int:
        return self.pods - sum(one.pods for one in self.ruled_out)


class Change(StrEnum):
    """What a relaxation changes."""

    PODS = "pods"
    LEVEL = "level"
    PLACEMENT = "placement"  # a rule between pods: anti-affinity, spread, slices, exclusive domains
    ZONE = "zone"
    MODEL = "model"
    SELECTOR = "selector"
    TOLERATION = "toleration"
    RUN_TIME = "run-time"
    START = "start"
    PRICE_CEILING = "price-ceiling"
    LIMIT = "limit"
    CAPACITY_ORDER = "capacity-order"
    HOLDER = "holder"


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A change that was planned again and fits."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why there is no plan. `hopeless`: it would not fit even if everything now booked or in use were free, so waiting
    can't help.

    `competes` names the offerings and nodes that the gang could use at least in part: a later gang must not take them
    while this one waits its turn. `considered` has one tree for each pod set, named by it.
    """

    reason: Reason
    message: str
    findings: tuple[Finding, ...] = ()
    hopeless: bool = False
    competes: frozenset[str] = frozenset()
    relaxations: tuple[Relaxation, ...] = ()
    considered: tuple[Considered, ...] = ()


@dataclass(frozen=True, slots=True)
class Undecidable:
    """The planner can't tell, and says why; it is never a guess. `lasting`: it lies in the gang, whatever capacity there is."""

    reasons: tuple[str, ...]
    lasting: bool = False


Outcome = Plan | Shortfall | Undecidable
