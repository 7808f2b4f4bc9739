"""Core objects: pods, nodes, pod templates and what shapes pods, reduced to what placing a gang depends on.

Field names and meaning are those of Kubernetes 1.36 (core/v1, apps/v1, node.k8s.io/v1). Values of enumerations stay plain
strings: a newer API server may know more of them than we do.
"""

from typing import Any

from msgspec import UNSET, UnsetType, field

from kube.meta import ObjectMeta, Record
from kube.selectors import LabelSelector, NodeAffinity
from kube.storage import ClaimSource, EphemeralSource

Quantity = str | int
ResourceList = dict[str, Quantity]

# --- what a pod asks for --------------------------------------------------------------------------------------------------


class ResourceRequirements(Record, frozen=True, kw_only=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Record, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class Container(Record, frozen=True, kw_only=True):
    """`restart_policy` is Always for an init container that runs beside the others (a sidecar)."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class PodAffinityTerm(Record, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Record, frozen=True, kw_only=True):
    """Also the shape of podAntiAffinity; preferred terms never decide whether a pod fits and are not read."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Record, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Record, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Record, frozen=True, kw_only=True):
    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


class Volume(Record, frozen=True, kw_only=True):
    """The sources that the scheduler filters on. Those kept raw decide by their presence; they are UNSET when absent."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    aws_elastic_block_store: Any | UnsetType = UNSET
    gce_persistent_disk: Any | UnsetType = UNSET
    azure_disk: Any | UnsetType = UNSET
    cinder: Any | UnsetType = UNSET
    iscsi: Any | UnsetType = UNSET
    portworx_volume: Any | UnsetType = UNSET
    rbd: Any | UnsetType = UNSET
    vsphere_volume: Any | UnsetType = UNSET


class PodResourceClaim(Record, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class SchedulingGate(Record, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(Record, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    scheduler_name: str = ""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    runtime_class_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None


class TemplateMeta(Record, frozen=True, kw_only=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplateSpec(Record, frozen=True, kw_only=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Record, frozen=True, kw_only=True):
    """`template` is the raw JSON, for it is compared and hashed whole; `kube.podspec.template` decodes it."""

    metadata: ObjectMeta
    template: dict[str, Any] = {}
    api_version: str = "v1"
    kind: str = "PodTemplate"


# --- pods that are there --------------------------------------------------------------------------------------------------


class StatusCondition(Record, frozen=True, kw_only=True):
    """A condition of a Pod, Node or Job: like `meta.Condition`, but nothing except type and status is sure to be there."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class ContainerStatus(Record, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodStatus(Record, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[StatusCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    start_time: str | None = None


class Pod(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        """Whether it no longer counts on its node; a pod that is only being deleted still does."""
        return self.status.phase in ("Succeeded", "Failed")


# --- nodes ----------------------------------------------------------------------------------------------------------------


class Taint(Record, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(Record, frozen=True, kw_only=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    provider_id: str = field(default="", name="providerID")


class NodeStatus(Record, frozen=True, kw_only=True):
    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    conditions: tuple[StatusCondition, ...] = ()


class Node(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


# --- things that shape pods -----------------------------------------------------------------------------------------------


class DaemonSetSpec(Record, frozen=True, kw_only=True):
    template: PodTemplateSpec = PodTemplateSpec()
    selector: LabelSelector = LabelSelector()


class DaemonSetStatus(Record, frozen=True, kw_only=True):
    desired_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class Namespace(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta


class DeviceClassSpec(Record, frozen=True, kw_only=True):
    extended_resource_name: str = ""


class DeviceClass(Record, frozen=True, kw_only=True):
    """Serves an extended resource if it names one (resource.k8s.io/v1, KEP-5004)."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()


class RuntimeClassOverhead(Record, frozen=True, kw_only=True):
    pod_fixed: ResourceList = {}


class RuntimeClassScheduling(Record, frozen=True, kw_only=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Record, frozen=True, kw_only=True):
    """What the RuntimeClass admission plugin adds to each pod that names the class (node.k8s.io/v1)."""

    metadata: ObjectMeta
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


class JobStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[StatusCondition, ...] = ()
    active: int = 0
    failed: int = 0


class JobSpec(Record, frozen=True, kw_only=True):
    suspend: bool = False
    parallelism: int = 1


class Job(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
