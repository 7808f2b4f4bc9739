"""Pods that Kueue admits by themselves or as a group, reduced to what they say of their place and a Workload doesn't: Kueue
v0.17.0 copies their spec alone (pkg/controller/jobs/pod/pod_controller.go constructPodSet).
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from kube.core import TemplateMeta
from kube.levels import DO_NOT_DISRUPT, OURS
from kube.meta import Record

MANAGED_BY_KUEUE = "kueue.x-k8s.io/managed=true"
"""The label selector of all pods that Kueue holds: its webhook labels each to which it gives a gate, but for those of a parent
that suspends them (pod_webhook.go Default)."""
UNFINISHED = "status.phase!=Failed,status.phase!=Succeeded"
"""The field selector of pods that count: one that failed is replaced."""
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
ROLE_HASH = "kueue.x-k8s.io/role-hash"
"""A hash of parts of the pod's spec, which names its pod set; neither labels nor annotations go into it."""


class PodsMissingError(LookupError):
    """No pod of a pod set is there (yet)."""


class PodsDifferError(ValueError):
    """Pods of one pod set say different things of their place; the message names pod set, pods, annotation and remedy."""


class QueuedPodMeta(Record, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class QueuedPod(Record, frozen=True, kw_only=True):
    metadata: QueuedPodMeta

    @property
    def notes(self) -> dict[str, str]:
        """What it says of its place: `corral.dev/` annotations."""
        said = self.metadata.annotations
        return {key: said[key] for key in said if key.startswith(OURS) and key != DO_NOT_DISRUPT}

    def plays(self, pod_set: str) -> bool:
        """Whether it belongs to this pod set of its Workload: outside a group it is the only one."""
        return GROUP_NAME not in self.metadata.labels or self.metadata.annotations.get(ROLE_HASH) == pod_set


@dataclass(frozen=True, slots=True)
class Pods:
    """Those of one Workload that are seen; there may be more. `selecting` are keys of labels by which its pods select others."""

    seen: tuple[QueuedPod, ...]
    selecting: frozenset[str] = frozenset()

    def said(self, pod_set: str) -> TemplateMeta:
        """What its pods say that are there; one that is being deleted has no say. Raises PodsMissingError and PodsDifferError."""
        pods = [each for each in self.seen if each.plays(pod_set) and each.metadata.deletion_timestamp is None]
        if not pods:
            raise PodsMissingError(f'no pod of pod set "{pod_set}" is there (yet)')
        return agreed(pod_set, pods, self.selecting)


def agreed(pod_set: str, pods: Iterable[QueuedPod], selecting: Container[str]) -> TemplateMeta:
    """The annotations of all pods of a pod set (one or more), and the labels that they share.

    Raises PodsDifferError over an annotation or a label of a key in `selecting`.
    """
    first, *others = sorted(pods, key=lambda each: each.metadata.name)
    for each in others:
        _alike(pod_set, first, each, selecting)
    return TemplateMeta(labels=_shared(each.metadata.labels for each in (first, *others)), annotations=first.notes)


def _alike(pod_set: str, one: QueuedPod, other: QueuedPod, selecting: Container[str]) -> None:
    left, right = one.metadata.labels, other.metadata.labels
    differ = [("annotation", *found) for found in _differences(one.notes, other.notes)]
    differ += [("label", *found) for found in _differences(left, right) if found[0] in selecting]
    for kind, key, said, unsaid in differ:
        raise PodsDifferError(
            f'pod set "{pod_set}": {kind} {key} is {_shown(said)} on pod "{one.metadata.name}" but {_shown(unsaid)} on pod '
            f'"{other.metadata.name}", and Kueue counts both as one role: give all of them the same, or make two roles of '
            "them by different requests, node selectors or tolerations"
        )


def _differences(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, left.get(key), right.get(key)


def _shown(value: str | None) -> str:
    return "not set" if value is None else f'"{value[:80]}"'


def _shared(labels: Iterable[dict[str, str]]) -> dict[str, str]:
    return reduce(lambda left, right: {key: left[key] for key in left if right.get(key) == left[key]}, labels)
