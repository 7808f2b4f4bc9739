"""JobSet, LeaderWorkerSet and StatefulSet, reduced to what they tell of their pods and a Workload's pod templates don't
(jobset.x-k8s.io/v1alpha2, leaderworkerset.x-k8s.io/v1, apps/v1). Pods that nobody makes tell it of themselves.
"""

from kube.core import TemplateMeta
from kube.levels import (
    EXCLUSIVE_SIZE,
    JOBSET,
    JOBSET_EXCLUSIVE,
    JOBSET_NODE_SELECTOR,
    LWS,
    LWS_EXCLUSIVE,
    LWS_SUBGROUP_EXCLUSIVE,
    MADE_BY,
)
from kube.meta import ObjectMeta, Record
from kube.queued_pods import Pods

STATEFUL_SET = "StatefulSet"
LEADER = "leader"
"""The pod set that Kueue makes of a LeaderWorkerSet's leader, if that has a template of its own."""


class JobCounts(Record, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None

    @property
    def pods(self) -> int:
        """How many pods run at once: `parallelism`, but no more than there are completions (Kubernetes docs, "Jobs")."""
        parallelism = 1 if self.parallelism is None else self.parallelism
        return parallelism if self.completions is None else min(parallelism, self.completions)


class JobTemplate(Record, frozen=True, kw_only=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: JobCounts = JobCounts()


class ReplicatedJob(Record, frozen=True, kw_only=True):
    name: str = ""
    template: JobTemplate = JobTemplate()


class JobSetSpec(Record, frozen=True, kw_only=True):
    replicated_jobs: tuple[ReplicatedJob, ...] = ()


class JobSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: JobSetSpec = JobSetSpec()


class TemplateHead(Record, frozen=True, kw_only=True):
    metadata: TemplateMeta = TemplateMeta()


class LeaderWorkerTemplate(Record, frozen=True, kw_only=True):
    leader_template: TemplateHead = TemplateHead()
    worker_template: TemplateHead = TemplateHead()


class LeaderWorkerSetSpec(Record, frozen=True, kw_only=True):
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()


class LeaderWorkerSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class StatefulSetSpec(Record, frozen=True, kw_only=True):
    template: TemplateHead = TemplateHead()


class StatefulSet(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: StatefulSetSpec = StatefulSetSpec()


Maker = JobSet | LeaderWorkerSet | StatefulSet | Pods


def left_out(maker: Maker, pod_set: str) -> TemplateMeta:
    """Labels and annotations of its pods that Kueue v0.17.0 leaves out of the Workload: for these kinds it copies the pod's spec
    alone (leaderworkerset_reconciler.go, statefulset_reconciler.go, pod_controller.go).

    Raises PodsMissingError and PodsDifferError.
    """
    if isinstance(maker, Pods):
        return maker.said(pod_set)
    if isinstance(maker, StatefulSet):
        return maker.spec.template.metadata
    if isinstance(maker, LeaderWorkerSet):
        parts = maker.spec.leader_worker_template
        return (parts.leader_template if pod_set == LEADER else parts.worker_template).metadata
    return TemplateMeta()


def notes(maker: Maker, pod_set: str) -> dict[str, str]:
    """Annotations for the pod template of one of its pod sets. A unit of a JobSet is one Job; of a LeaderWorkerSet, all pods of
    the gang. What a replicated job says goes before what its JobSet says (jobset_controller.go, v0.11.1).
    """
    if isinstance(maker, StatefulSet | Pods):
        return {}
    said = maker.metadata.annotations
    if isinstance(maker, LeaderWorkerSet):
        return {MADE_BY: LWS, **{key: said[key] for key in (LWS_EXCLUSIVE, LWS_SUBGROUP_EXCLUSIVE) if said.get(key)}}
    job = next((job for job in maker.spec.replicated_jobs if job.name == pod_set), ReplicatedJob())
    said = {**said, **job.template.metadata.annotations}
    found = {key: said[key] for key in (JOBSET_EXCLUSIVE, JOBSET_NODE_SELECTOR) if said.get(key)}
    size = {EXCLUSIVE_SIZE: str(job.template.spec.pods)} if JOBSET_EXCLUSIVE in found else {}
    return {MADE_BY: JOBSET, **found, **size}
