"""Objects of group `kueue.x-k8s.io/v1beta2` (Kueue 0.17), reduced to what Corral reads; it writes only parts of status.

Those are `AdmissionCheck.status.conditions`, and of Workloads its own entries in `status.admissionChecks` and two conditions.
"""

from typing import Any

from kube.core import Quantity, ResourceList, StatusCondition, Taint, Toleration
from kube.meta import ObjectMeta, Record
from kube.selectors import LabelSelector

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"


# --- Workload -------------------------------------------------------------------------------------------------------------


class TopologyRequest(Record, frozen=True, kw_only=True):
    """`required` and `preferred` are node label keys; pod sets of one `pod_set_group_name` are placed together. Slices within
    slices stay raw: only their presence matters.
    """

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: tuple[Any, ...] = ()


class WorkloadPodSet(Record, frozen=True, kw_only=True):
    """`template` is the raw JSON of a PodTemplateSpec, for it is written out again whole; `kube.podspec.template` decodes it."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: dict[str, Any] = {}
    topology_request: TopologyRequest | None = None


class PriorityClassRef(Record, frozen=True, kw_only=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Record, frozen=True, kw_only=True):
    pod_sets: tuple[WorkloadPodSet, ...] = ()
    queue_name: str = ""
    active: bool = True
    priority: int | None = None
    priority_class_ref: PriorityClassRef | None = None
    maximum_execution_time_seconds: int | None = None


class PodSetAssignment(Record, frozen=True, kw_only=True):
    """`flavors` maps each resource to the ResourceFlavor that holds its quota. `topology_assignment` stays raw: only its
    presence matters."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: ResourceList = {}
    count: int | None = None
    topology_assignment: dict[str, Any] | None = None
    delayed_topology_request: str | None = None


class Admission(Record, frozen=True, kw_only=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class PodSetUpdate(Record, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class AdmissionCheckState(Record, frozen=True, kw_only=True):
    """`state` is Pending, Ready, Retry or Rejected. `retry_count`: evictions that its Retry has led to."""

    name: str
    state: str
    message: str
    last_transition_time: str
    pod_set_updates: tuple[PodSetUpdate, ...] = ()
    requeue_after_seconds: int | None = None
    retry_count: int | None = None


class RequeueState(Record, frozen=True, kw_only=True):
    count: int | None = None
    requeue_at: str | None = None


class ReclaimablePod(Record, frozen=True, kw_only=True):
    """How many pods of the pod set `name` are over, so that no quota is needed for them any more."""

    name: str
    count: int = 0


class WorkloadStatus(Record, frozen=True, kw_only=True):
    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()
    requeue_state: RequeueState | None = None
    cluster_name: str | None = None
    nominated_cluster_names: tuple[str, ...] = ()
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()


class Workload(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "Workload"

    def condition(self, type_: str) -> StatusCondition | None:
        return next((c for c in self.status.conditions if c.type == type_), None)

    def is_true(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"

    @property
    def priority_class(self) -> str:
        """The name of its priority class, Kueue's or Kubernetes'; "" if it has none."""
        return self.spec.priority_class_ref.name if self.spec.priority_class_ref else ""

    @property
    def quota_reserved(self) -> bool:
        return self.is_true("QuotaReserved")

    @property
    def admitted(self) -> bool:
        return self.is_true("Admitted")

    @property
    def evicted(self) -> bool:
        return self.is_true("Evicted")

    @property
    def finished(self) -> bool:
        return self.is_true("Finished")


# --- AdmissionCheck and its parameters ------------------------------------------------------------------------------------


class ParametersReference(Record, frozen=True, kw_only=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Record, frozen=True, kw_only=True):
    controller_name: str = ""
    parameters: ParametersReference | None = None


class AdmissionCheckStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[StatusCondition, ...] = ()


class AdmissionCheck(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class RetryStrategy(Record, frozen=True, kw_only=True):
    backoff_limit_count: int | None = 3
    backoff_base_seconds: int | None = 60
    backoff_max_seconds: int | None = 1800


class NodeSelectorUpdate(Record, frozen=True, kw_only=True):
    key: str
    value_from_provisioning_class_detail: str


class ConfigPodSetUpdates(Record, frozen=True, kw_only=True):
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class ProvisioningRequestConfigSpec(Record, frozen=True, kw_only=True):
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: tuple[str, ...] = ()
    retry_strategy: RetryStrategy | None = None
    pod_set_updates: ConfigPodSetUpdates | None = None
    pod_set_merge_policy: str | None = None


class ProvisioningRequestConfig(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: ProvisioningRequestConfigSpec = ProvisioningRequestConfigSpec()


# --- queues and flavors ---------------------------------------------------------------------------------------------------


class CheckRule(Record, frozen=True, kw_only=True):
    """A check and the flavors it applies to; none named means all."""

    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Record, frozen=True, kw_only=True):
    admission_checks: tuple[CheckRule, ...] = ()


class ResourceQuota(Record, frozen=True, kw_only=True):
    name: str
    nominal_quota: Quantity = "0"
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Record, frozen=True, kw_only=True):
    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Record, frozen=True, kw_only=True):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class ClusterQueueSpec(Record, frozen=True, kw_only=True):
    resource_groups: tuple[ResourceGroup, ...] = ()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    namespace_selector: LabelSelector | None = None
    cohort_name: str = ""
    stop_policy: str = ""


class ResourceUsage(Record, frozen=True, kw_only=True):
    name: str
    total: Quantity = "0"
    borrowed: Quantity = "0"


class FlavorUsage(Record, frozen=True, kw_only=True):
    name: str
    resources: tuple[ResourceUsage, ...] = ()


class ClusterQueueStatus(Record, frozen=True, kw_only=True):
    """`flavors_reservation` is the quota that reserved workloads hold, admitted or not."""

    flavors_reservation: tuple[FlavorUsage, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0


class ClusterQueue(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()

    @property
    def checks(self) -> tuple[CheckRule, ...]:
        strategy = self.spec.admission_checks_strategy
        return strategy.admission_checks if strategy else ()

    @property
    def flavors(self) -> frozenset[str]:
        """Names of those that it has quota of."""
        return frozenset(each.name for group in self.spec.resource_groups for each in group.flavors)


class LocalQueueSpec(Record, frozen=True, kw_only=True):
    cluster_queue: str = ""
    stop_policy: str = ""


class LocalQueue(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: LocalQueueSpec = LocalQueueSpec()


class ResourceFlavorSpec(Record, frozen=True, kw_only=True):
    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class ResourceFlavor(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Record, frozen=True, kw_only=True):
    node_label: str


class TopologySpec(Record, frozen=True, kw_only=True):
    levels: tuple[TopologyLevel, ...] = ()


class Topology(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()


class WorkloadPriorityClass(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    value: int = 0
