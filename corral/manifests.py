"""The gangs that workload manifests stand for."""

from collections.abc import Collection, Mapping, Sequence

from admission.gang import WorkloadMistakeError, levelled
from capacity.model import Gang, PodSet
from corral.files import InputError, Object, named, view
from corral.known import Known
from kube import makers, podcheck, podrules, podspec
from kube.kueue import Workload
from kube.queued_pods import GROUP_NAME, ROLE_HASH, PodsDifferError, QueuedPod, agreed
from kube.requests import PodSpecError

_JOB_LABELS = ("job-name", "batch.kubernetes.io/job-name")
MOST_PODS = 16_384
"""Pods that a gang may have; the provisioner holds to the same."""


def gangs(items: Sequence[Object], there: Known) -> list[Gang]:
    """One gang for each Job, JobSet, Workload and pod group among the objects, in order. Raises InputError."""
    reader = _Reader(items, there)
    found: dict[str, Gang] = {}
    for item in items:
        gang = reader.gang(item)
        if gang:
            found.setdefault(gang.name, gang)
    return list(found.values())


class _CountError(ValueError):
    """A number of pods that can't be; the text names it."""


class _Reader:
    """Reads gangs with what all the objects together tell of their cluster."""

    def __init__(self, items: Sequence[Object], there: Known) -> None:
        self._items, self._there = items, there

    def gang(self, item: Object) -> Gang | None:
        try:
            pod_sets = self._pod_sets(item)
            name = _gang_name(item) if pod_sets else ""
        except (PodSpecError, WorkloadMistakeError, PodsDifferError, _CountError) as error:
            raise InputError(f"{named(item)}: {error}") from None
        except KeyError as error:
            raise InputError(f"{named(item)}: {error.args[0]} is missing: add it") from None
        except (AttributeError, TypeError):
            kind = item["kind"].lower()
            raise InputError(f"{named(item)}: a field has another form than its kind takes: see kubectl explain {kind}") from None
        names = [pod_set.name for pod_set in pod_sets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{named(item)}: two pod sets are named {twice}: rename one")
        wanted = tuple(pod_set for pod_set in pod_sets if pod_set.count)
        if pod_sets and not wanted:
            raise InputError(f"{named(item)}: asks for no pod at all: ask for 1 to {MOST_PODS}")
        return Gang(name, wanted) if wanted else None

    def _pod_sets(self, item: Object) -> list[PodSet]:
        match item["kind"]:
            case "Job":
                return [self._pod_set(item, "main", _job_count(item["spec"]), _named_by(item))]
            case "JobSet":
                return [self._replicated(item, job) for job in item["spec"]["replicatedJobs"]]
            case "Workload":
                return [self._pod_set(item, p.name, p.count, levelled(p)) for p in view(item, Workload).spec.pod_sets]
            case "Pod" if not item["spec"].get("nodeName"):
                return self._group(item)
            case _:
                return []

    def _pod_set(self, item: Object, name: str, count: int, template: Object) -> PodSet:
        if not 0 <= count <= MOST_PODS:
            raise _CountError(f"pod set {name} has {count} pods: ask for 1 to {MOST_PODS}")
        typed = podspec.template(template)
        made = podspec.pod_set(
            name,
            count,
            typed,
            namespace=item["metadata"].get("namespace") or "default",
            runtime_classes=self._there.runtime_classes,
            namespaces=self._there.namespaces,
            volumes=self._there.volumes,
            device_resources=self._there.device_resources,
        )
        podcheck.check(typed.spec)
        if not set(made.requests) - {"pods"} and not typed.spec.resource_claims:
            raise PodSpecError(f"pod set {name} requests nothing: set requests for cpu, memory or a device")
        return made

    def _replicated(self, item: Object, job: Object) -> PodSet:
        """The pods of a replicated job; what the JobSet says of their domains goes to their template."""
        spec = job["template"]["spec"]
        count = _number(job, "replicas", 1) * _job_count(spec)
        template = _with(spec["template"], "annotations", makers.notes(view(item, makers.JobSet), job["name"]))
        return self._pod_set(item, job["name"], count, template)

    def _group(self, item: Object) -> list[PodSet]:
        """The pods of the item's group by role (Kueue's annotation), else by equal requests; a pod alone is a gang of one."""
        group = (item["metadata"].get("labels") or {}).get(GROUP_NAME)
        members = [other for other in self._items if group and _member(other, group)] or [item]
        roles: dict[str, list[Object]] = {}
        for pod in members:
            role = (pod["metadata"].get("annotations") or {}).get(ROLE_HASH)
            roles.setdefault(role or str(pod["spec"]), []).append(pod)
        names = {key: key if len(key) < 64 else f"role-{number}" for number, key in enumerate(roles)}
        selecting = {key for pod in members for key in podrules.selecting(podspec.template(pod).spec)}
        return [self._pod_set(item, names[key], len(pods), _alike(names[key], pods, selecting)) for key, pods in roles.items()]


def _alike(role: str, pods: Sequence[Object], selecting: Collection[str]) -> Object:
    """The template of a role: what all of its pods say, as the admission check takes it. Raises PodsDifferError."""
    said = agreed(role, (view(pod, QueuedPod) for pod in pods), selecting)
    return {**pods[0], "metadata": {**pods[0]["metadata"], "labels": said.labels}}


def _gang_name(item: Object) -> str:
    meta = item["metadata"]
    group = (meta.get("labels") or {}).get(GROUP_NAME)
    if item["kind"] == "Pod" and group:
        return f"podgroup/{group}"
    return f"{item['kind'].lower()}/{meta.get('name', '')}"


def _named_by(job: Object) -> Object:
    """The template of a Job with the labels that name it: the API server adds them when it takes the Job (batch/v1)."""
    name = job["metadata"].get("name")
    return _with(job["spec"]["template"], "labels", dict.fromkeys(_JOB_LABELS, name) if name else {})


def _with(template: Object, kind: str, more: Mapping[str, str]) -> Object:
    """The template with more labels or annotations; what it says itself comes first."""
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, kind: {**more, **(metadata.get(kind) or {})}}}


def _number(spec: Object, field: str, default: int) -> int:
    value = spec.get(field)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise _CountError(f"{field} is {str(value)[:40]!r}: write a whole number of 0 or more")
    return default if value is None else value


def _job_count(spec: Object) -> int:
    """How many pods run at once: `parallelism`, but no more than there are completions (Kubernetes docs, "Jobs")."""
    parallelism = _number(spec, "parallelism", 1)
    return min(parallelism, _number(spec, "completions", parallelism))


def _member(item: Object, group: str) -> bool:
    return item["kind"] == "Pod" and (item["metadata"].get("labels") or {}).get(GROUP_NAME) == group
