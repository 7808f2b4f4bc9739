"""When a node that joined counts as ready: part of a CapacityPool."""

from typing import Annotated, Literal

from msgspec import Meta

from kube.fields import Duration
from kube.meta import Record

DaemonSetName = Annotated[str, Meta(pattern=r"^[-a-z0-9]+/[-a-z0-9.]+$", max_length=317)]


ConditionReason = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_,:]*\*?$", max_length=256)]


class UnhealthyCondition(Record, frozen=True, kw_only=True):
    """A condition of Nodes that speaks against them while it has this status, for one of the `reasons` if any are named; `*` at
    the end of one stands for any ending.
    """

    type: Annotated[str, Meta(min_length=1, max_length=316)]
    status: Literal["True", "False", "Unknown"] = "True"
    reasons: Annotated[tuple[ConditionReason, ...], Meta(max_length=64)] = ()


UNHEALTHY = (
    UnhealthyCondition(type="KernelDeadlock"),
    UnhealthyCondition(type="ReadonlyFilesystem"),
    UnhealthyCondition(type="AcceleratedHardwareReady", status="False"),
    UnhealthyCondition(type="GPUMissing"),
    UnhealthyCondition(type="NVLinkStatusInactive"),
    UnhealthyCondition(type="SysLogsXIDError"),
    UnhealthyCondition(type="SysLogsGPUFallenOff"),
)
"""The permanent problems of node-problem-detector 1.36's own configuration; what the EKS node monitoring agent says of GPUs that
report a fatal Xid (docs of EKS, "node health"), the detector of AKS of missing GPUs and links (docs of AKS, "GPU health
monitoring"), and NVSentinel of fatal events (its docs, "Syslog Health Monitor"). Each is of hardware that waiting won't mend.
"""


class PodTemplateRef(Record, frozen=True, kw_only=True):
    """A PodTemplate in the namespace of the provisioner."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]


class HealthCheck(Record, frozen=True, kw_only=True):
    """A Job of one pod, run on each node before it counts."""

    pod_template_ref: PodTemplateRef
    timeout: Duration = "5m"


class Readiness(Record, frozen=True, kw_only=True):
    timeout: Duration = "20m"
    required_daemon_sets: Annotated[tuple[DaemonSetName, ...], Meta(max_length=32)] = ()  # namespace/name
    unhealthy_conditions: Annotated[tuple[UnhealthyCondition, ...], Meta(max_length=64)] = UNHEALTHY
    health_check: HealthCheck | None = None
