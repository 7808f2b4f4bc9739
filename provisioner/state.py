"""All that the provisioner knows at one moment: the stores of the API server's objects, and what each pool's cloud said last."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from capacity.model import Labels
from kube import autoscaling, core, kueue, ours, storage
from kube.pools import selects
from kube.slices import replaces
from kube.volumes import Volumes, gathered
from provisioner.asking.producers import workload_uid
from provisioner.buying.backoff import Backoffs
from provisioner.buying.spend import Ledger
from provisioner.clouds.base import Cloud, Instance, Inventory
from provisioner.nodes.refusals import Refusals
from provisioner.settings import ProvisionerSettings
from runtime.reflector import Store

CLASS = "gang.corral.dev"
CONTROLLER = "corral.dev/capacity"
MANAGER = "corral-provisioner"

BOOKED = "corral.dev/booked"
FINALIZER = "corral.dev/booking"
SOURCE_LABEL = "corral.dev/source"
QUARANTINED_LABEL = "corral.dev/quarantined"

TAG_INSTALLATION = "corral.dev/installation"
TAG_CLUSTER = "corral.dev/cluster"
TAG_BOOKING = "corral.dev/booking"
TAG_PURCHASE = "corral.dev/purchase"
TAG_POOL = "corral.dev/pool"
TAG_SOURCE = "corral.dev/source"

PODS_BY_NODE = "node"
REQUESTS_BY_WORKLOAD = "workload"
BOOKINGS_BY_REQUEST = "request"
BOOKINGS_BY_WORKLOAD = "workload"
BOOKINGS_BY_GIVER = "giver"
BOOKINGS_BY_NODE = "node"
WORKLOADS_BY_REPLACED = "replaced"


UNSEEN = 30.0
"""Seconds for which what was written counts though the store does not show it."""


@dataclass(frozen=True)
class Known:
    """What a pool's cloud said at `at`. `instances` were read before `inventory`, so each of them is counted in it.

    `error` holds the words of the last call when it failed: the rest is then what was known before.
    """

    inventory: Inventory
    instances: tuple[Instance, ...]
    at: datetime
    error: str = ""

    def machine(self, provider_id: str) -> Instance | None:
        """The machine of a node. Looked up in a table that is made once: a pool has thousands."""
        return self._by_provider.get(provider_id)

    @cached_property
    def _by_provider(self) -> Mapping[str, Instance]:
        return {each.provider_id: each for each in self.instances}


@dataclass(slots=True)
class State:
    """`clouds` and `known` are keyed by pool and filled by the pools controller; a pool never reached is in neither.

    `cluster` is the uid of namespace kube-system, "" where it is not known. `alarms` says why the reaper stands still in a pool.
    Whoever gives room away, to a new gang or in place of what was lost, judges and writes while `giving` is held; `replaced`
    counts what was given in place of lost nodes. `unseen` gives the bookings by name that were made and that the store
    does not show yet. `tally` counts nodes by their pools and by whether they are Ready (nodes/hung.py), and is empty after each
    change of these.
    """

    settings: ProvisionerSettings
    installation: str
    nodes: Store[core.Node]
    pods: Store[core.Pod]
    daemon_sets: Store[core.DaemonSet]
    requests: Store[autoscaling.ProvisioningRequest]
    templates: Store[core.PodTemplate]
    workloads: Store[kueue.Workload]
    checks: Store[kueue.AdmissionCheck]
    flavors: Store[kueue.ResourceFlavor]
    pools: Store[ours.CapacityPool]
    policies: Store[ours.CapacityPolicy]
    bookings: Store[ours.Booking]
    backoffs: Backoffs
    runtime_classes: Store[core.RuntimeClass] = field(default_factory=Store)
    topologies: Store[kueue.Topology] = field(default_factory=Store)
    cluster_queues: Store[kueue.ClusterQueue] = field(default_factory=Store)
    configs: Store[kueue.ProvisioningRequestConfig] = field(default_factory=Store)
    namespaces: Store[core.Namespace] = field(default_factory=Store)
    device_classes: Store[core.DeviceClass] = field(default_factory=Store)
    claims: Store[storage.PersistentVolumeClaim] = field(default_factory=Store)
    volumes: Store[storage.PersistentVolume] = field(default_factory=Store)
    storage_classes: Store[storage.StorageClass] = field(default_factory=Store)
    csi_drivers: Store[storage.CSIDriver] = field(default_factory=Store)
    csi_nodes: Store[storage.CSINode] = field(default_factory=Store)
    jobs: Store[core.Job] = field(default_factory=Store)
    refusals: Refusals = field(default_factory=Refusals)
    ledger: Ledger = field(default_factory=Ledger)
    clouds: dict[str, Cloud] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    cluster: str = ""
    alarms: dict[str, str] = field(default_factory=dict)
    giving: asyncio.Lock = field(default_factory=asyncio.Lock)
    replaced: int = 0
    written: dict[str, tuple[ours.Booking, int, float]] = field(default_factory=dict)
    unseen: Callable[[], Mapping[str, ours.Booking]] = dict
    tally: dict[tuple[str, ...], Counter[bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pods.add_index(PODS_BY_NODE, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
        self.requests.add_index(REQUESTS_BY_WORKLOAD, lambda request: [workload_uid(request)])
        self.workloads.add_index(WORKLOADS_BY_REPLACED, lambda workload: [replaces(workload)])
        self.bookings.add_index(BOOKINGS_BY_REQUEST, lambda booking: [booking.spec.request.uid])
        self.bookings.add_index(BOOKINGS_BY_GIVER, lambda booking: {each.taken_over for each in booking.spec.nodes} - {""})
        self.bookings.add_index(BOOKINGS_BY_NODE, lambda booking: {each.name for each in booking.spec.nodes})
        self.bookings.add_index(BOOKINGS_BY_WORKLOAD, lambda each: [each.spec.workload.uid] if each.spec.workload else [])
        self.nodes.on_change(lambda old, new: self.tally.clear() if _counts(old) != _counts(new) else None)
        self.pools.on_change(lambda _old, _new: self.tally.clear())

    @property
    def home(self) -> str:
        """The provisioner's own namespace, where health checks run."""
        return self.settings.leader_election.namespace

    def pool(self, name: str) -> ours.CapacityPool | None:
        return self.pools.get(("", name))

    def remember(self, booking: ours.Booking, *, answered: bool = True) -> None:
        """A booking as this process wrote it: it counts until the store shows it, or something newer. One whose write got no
        answer bears the version on which that rested, and may be in any newer one.
        """
        until = asyncio.get_running_loop().time() + UNSEEN
        self.written[booking.metadata.name] = (booking, _version(booking) + (not answered), until)

    def latest(self) -> Iterable[ours.Booking]:
        """All bookings, with what this process made and wrote last."""
        for name, (_, version, until) in [*self.written.items()]:
            stored = self.bookings.get(("", name))
            if stored is None or _version(stored) >= version or asyncio.get_running_loop().time() > until:
                del self.written[name]
        there = {each.metadata.name: self.written.get(each.metadata.name, (each,))[0] for each in self.bookings.values()}
        return {**self.unseen(), **there}.values()

    def selected(self, labels: Labels) -> bool:
        """Whether some pool has a node with these labels for its own."""
        return any(selects(pool, labels) for pool in self.pools.values())

    def checkup(self, check: ours.HealthCheck) -> core.PodTemplate | None:
        """The PodTemplate of a health check; it must be in the service's own namespace, where it may make Jobs."""
        return self.templates.get((self.home, check.pod_template_ref.name))

    def replacing(self, workload: tuple[str, str]) -> list[kueue.Workload]:
        """The Workloads that stand in for this one (namespace, name) of an elastic job."""
        return self.workloads.by(WORKLOADS_BY_REPLACED, workload)

    def pods_on(self, node: str) -> list[core.Pod]:
        """The pods bound to the node that still count there (not Succeeded or Failed)."""
        return [pod for pod in self.pods.by(PODS_BY_NODE, node) if not pod.terminal]

    def namespace_labels(self) -> Mapping[str, Labels]:
        return {each.metadata.name: each.metadata.labels for each in self.namespaces.values()}

    def known_volumes(self) -> Volumes:
        return gathered(
            self.claims.values(),
            self.volumes.values(),
            self.storage_classes.values(),
            self.csi_drivers.values(),
            self.csi_nodes.values(),
        )

    def device_resources(self) -> frozenset[str]:
        """The extended resources that DeviceClasses serve."""
        return frozenset(name for each in self.device_classes.values() if (name := each.spec.extended_resource_name))


def _version(booking: ours.Booking) -> int:
    text = booking.metadata.resource_version or ""
    return int(text) if text.isdecimal() else 0


def _counts(node: core.Node | None) -> object:
    return node and (node.metadata.labels, node.ready)
