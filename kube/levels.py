"""The annotations of a pod template that say how its pods lie in the topology: slices, exclusive domains, groups.

Corral's own come first; those of Kueue, JobSet and LeaderWorkerSet are read where they stand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from capacity.model import Exclusive, Labels, Slices
from capacity.requirements import Expression, LabelSelector
from kube.requests import PodSpecError

OURS = "corral.dev/"
REQUIRED_TOPOLOGY = "corral.dev/required-topology"
PREFERRED_TOPOLOGY = "corral.dev/preferred-topology"
TOPOLOGY_GROUP = "corral.dev/topology-group"
SLICE_TOPOLOGY = "corral.dev/slice-topology"
SLICE_SIZE = "corral.dev/slice-size"
EXCLUSIVE_TOPOLOGY = "corral.dev/exclusive-topology"
EXCLUSIVE_SIZE = "corral.dev/exclusive-size"
DO_NOT_DISRUPT = "corral.dev/do-not-disrupt"
"""Says nothing of the place: it holds the node on which the pod runs (provisioner/ending/disruption.py)."""
PLACED_BY_KUEUE = "corral.dev/placed-by-kueue"
MADE_BY = "corral.dev/made-by"

KUEUE = "kueue.x-k8s.io/podset-"
JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOBSET_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"

UNTOLD = "?"
"""The value of a label that the template does not tell; no valid one, so that only Exists and NotIn match it."""

_KNOWN = (
    REQUIRED_TOPOLOGY,
    PREFERRED_TOPOLOGY,
    TOPOLOGY_GROUP,
    SLICE_TOPOLOGY,
    SLICE_SIZE,
    EXCLUSIVE_TOPOLOGY,
    EXCLUSIVE_SIZE,
    DO_NOT_DISRUPT,
    PLACED_BY_KUEUE,
    MADE_BY,
)
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)

JOBSET, LWS = "JobSet", "LeaderWorkerSet"
_KEYS = {JOBSET: JOB_KEY, LWS: GROUP_KEY}

Notes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Levels:
    """Names and meaning as in `capacity.model.PodSet`."""

    required: str | None
    preferred: str | None
    group: str
    slices: Slices | None
    exclusive: Exclusive | None
    placed_by_kueue: bool


def levels(pod_set: str, notes: Notes) -> Levels:
    """Of a pod set with these annotations on its pods. Raises PodSpecError for one of ours that isn't known and for a value that
    can't be, naming the annotation.
    """
    _known(notes)
    return Levels(
        required=_key(notes, REQUIRED_TOPOLOGY, KUEUE + "required-topology"),
        preferred=_key(notes, PREFERRED_TOPOLOGY, KUEUE + "preferred-topology"),
        group=_group(pod_set, notes),
        slices=_slices(notes),
        exclusive=_exclusive(notes),
        placed_by_kueue=notes.get(PLACED_BY_KUEUE) == "true",
    )


def given_labels(notes: Notes) -> Labels:
    """The label by which JobSets and LeaderWorkerSets keep their domains exclusive, of a pod that one of them will make."""
    key = _KEYS.get(notes.get(MADE_BY, "")) or (_KEYS[_rival(notes)] if _exclusive_key(notes) else None)
    return {key: UNTOLD} if key else {}


def unplanned(notes: Notes) -> Iterator[str]:
    """Ways to place the pods that the planner doesn't model."""
    if notes.get(LWS_SUBGROUP_EXCLUSIVE):
        yield f"annotation {LWS_SUBGROUP_EXCLUSIVE} keeps the subgroups of a group in domains of their own"
    if notes.get(JOBSET_NODE_SELECTOR):
        yield f"annotation {JOBSET_NODE_SELECTOR} makes its pods select nodes that somebody labels for each Job"


def _known(notes: Notes) -> None:
    for note in sorted(notes):
        if note.startswith(OURS) and note not in _KNOWN:
            raise PodSpecError(f"annotation {note} is not known: correct or remove it; known are {', '.join(_KNOWN[:-2])}")


def _said(notes: Notes, *names: str) -> str:
    """The first of the annotations that says something, else the first of all."""
    return next((name for name in names if notes.get(name)), names[0])


def _key(notes: Notes, *names: str) -> str | None:
    """The node label key that the first of the annotations names."""
    said = _said(notes, *names)
    key = notes.get(said) or None
    if key and not _LABEL_KEY.fullmatch(key):
        raise PodSpecError(
            f'annotation {said} is "{key[:40]}": write the key of a node label, such as topology.kubernetes.io/zone'
        )
    return key


def _group(pod_set: str, notes: Notes) -> str:
    """Kueue places each pod set by itself unless a group names several; ours share a domain unless told otherwise."""
    if group := notes.get(_said(notes, TOPOLOGY_GROUP, KUEUE + "group-name")):
        return group
    theirs = any(notes.get(KUEUE + key) for key in ("required-topology", "preferred-topology"))
    ours = any(notes.get(key) for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY))
    return pod_set if theirs and not ours else ""


def _slices(notes: Notes) -> Slices | None:
    key = _key(notes, SLICE_TOPOLOGY, KUEUE + "slice-required-topology")
    sized = _said(notes, SLICE_SIZE, KUEUE + "slice-size")
    size = notes.get(sized)
    if not key and not size:
        return None
    if not key or not size:
        there, missing = (sized, SLICE_TOPOLOGY) if size else (SLICE_TOPOLOGY, SLICE_SIZE)
        raise PodSpecError(f"annotation {there} needs {missing} beside it: add it, or remove {there}")
    return Slices(key, _number(sized, size, least=1))


def _exclusive(notes: Notes) -> Exclusive | None:
    key, size = _exclusive_key(notes), notes.get(EXCLUSIVE_SIZE)
    if not key:
        if size:
            raise PodSpecError(f"annotation {EXCLUSIVE_SIZE} needs {EXCLUSIVE_TOPOLOGY} beside it: add it, or remove the size")
        return None
    rivals = LabelSelector((Expression(_KEYS[_rival(notes)], "Exists"),))
    return Exclusive(key, rivals, _number(EXCLUSIVE_SIZE, size, least=0) if size else 0)


def _exclusive_key(notes: Notes) -> str | None:
    return _key(notes, EXCLUSIVE_TOPOLOGY, JOBSET_EXCLUSIVE, LWS_EXCLUSIVE)


def _rival(notes: Notes) -> str:
    """Whose pods keep a domain from being exclusive: others of the same kind."""
    return LWS if notes.get(LWS_EXCLUSIVE) or notes.get(MADE_BY) == LWS else JOBSET


def _number(annotation: str, text: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise PodSpecError(f'annotation {annotation} is "{text[:40]}": write a whole number of {least} or more')
    return int(text)
