"""How Kueue ties the slices of an elastic job: a Workload of the whole new size stands in for an older one.

As in Kueue v0.17.0 (pkg/workloadslicing).
"""

from collections.abc import Callable, Sequence

from kube.kueue import Workload

REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"

Find = Callable[[tuple[str, str]], Workload | None]
"""A Workload by (namespace, name)."""


def replaces(workload: Workload) -> tuple[str, str] | None:
    """The (namespace, name) of the Workload that this one stands in for, None for a job's first."""
    namespace, slash, name = workload.metadata.annotations.get(REPLACES, "").partition("/")
    return (namespace, name) if slash else None


def job_of(workload: Workload) -> str | None:
    """UID of the job that the Workload is of. All slices must share it: whoever writes an annotation doesn't get another's
    capacity counted.
    """
    return next((owner.uid for owner in workload.metadata.owner_references if owner.controller), None)


def before(workload: Workload, find: Find) -> Sequence[Workload]:
    """The slices of the same job that it stands in for, the newest first. Each once: anybody may write the annotation, even so
    that slices go round in a circle.
    """
    found: list[Workload] = []
    passed = {(workload.metadata.namespace, workload.metadata.name)}
    while (key := replaces(found[-1] if found else workload)) and key not in passed and (older := find(key)):
        if job_of(older) != job_of(workload):
            break
        passed.add(key)
        found.append(older)
    return found
