"""What a booking sets on its nodes, and the patches that set and remove it. Nobody else touches these marks.

Patches carry the node's resourceVersion: taints are one list, so a patch that rests on an older node must be refused (409).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kube import core
from kube.meta import ObjectMeta
from kube.times import stamp

TAINT = "corral.dev/booked"
KEY_SUFFIX = ".booking.corral.dev"
POOL = "corral.dev/pool"
SOURCE = "corral.dev/source"
QUARANTINED = "corral.dev/quarantined"
IDLE_SINCE = "corral.dev/idle-since"
SCALE_IN = "corral.dev/scale-in"
GUARDS = "corral.dev/guards"

GUARD_ANNOTATIONS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Keep other autoscalers off a booked node (Cluster Autoscaler FAQ; Karpenter docs, "Disruption")."""


def booking_of(key: str) -> str | None:
    """The booking that a label key belongs to, None for any other key."""
    prefix, slash, _ = key.partition("/")
    return prefix.removesuffix(KEY_SUFFIX) if slash and prefix.endswith(KEY_SUFFIX) else None


def bookings_on(labels: Iterable[str]) -> set[str]:
    """The bookings whose keys are among these labels (of a node, or of a pod's node selector)."""
    return {name for name in map(booking_of, labels) if name is not None}


def tainted(node: core.Node) -> bool:
    return any(taint.key == TAINT and taint.effect == "NoSchedule" for taint in node.spec.taints)


def launched(node: core.Node) -> bool:
    """Whether Corral bought the machine: such nodes register with their pool's label. Others are adopted."""
    return POOL in node.metadata.labels


def marked(node: core.Node, keys: Iterable[str]) -> bool:
    """Whether the node bears all that a booking with these label keys sets, and nothing that says it is idle."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    guarded = all(annotations.get(key) == value for key, value in GUARD_ANNOTATIONS.items())
    return tainted(node) and guarded and IDLE_SINCE not in annotations and all(labels.get(key) == "true" for key in keys)


def guards(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that protect a node, with a list of those set by us: a user's own stay when the booking ends."""
    mine = {key for key, value in GUARD_ANNOTATIONS.items() if annotations.get(key) != value}
    mine |= set(filter(None, annotations.get(GUARDS, "").split(",")))
    return {**GUARD_ANNOTATIONS, GUARDS: ",".join(sorted(mine))}


def mark_patch(node: core.Node, keys: Iterable[str]) -> dict[str, Any]:
    """A merge patch that marks the node for a booking and ends its idleness."""
    labels = dict.fromkeys(keys, "true")
    annotations: dict[str, str | None] = {**guards(node.metadata.annotations)}
    if IDLE_SINCE in node.metadata.annotations:
        annotations[IDLE_SINCE] = None
    return _patch(node.metadata, labels, annotations, [*_other_taints(node), _TAINT])


def unmark_patch(node: core.Node, booking: str, now: datetime) -> dict[str, Any]:
    """A merge patch that takes one booking's keys off, and the rest of the marks when no other booking holds the node.

    A launched node becomes idle from `now` on; a quarantined one keeps its taint.
    """
    names = node.metadata.labels
    labels: dict[str, str | None] = {key: None for key in names if booking_of(key) == booking}
    if bookings_on(names) - {booking}:
        return _patch(node.metadata, labels, {}, None)
    annotations = _unguarded(node.metadata.annotations)
    if QUARANTINED in names:
        return _patch(node.metadata, labels, annotations, None)
    if launched(node):
        annotations[IDLE_SINCE] = stamp(now)
    return _patch(node.metadata, labels, annotations, _other_taints(node))


def quarantine_patch(node: core.Node) -> dict[str, Any]:
    """A merge patch that keeps a bad node out of every plan: label and taint, until an operator or its termination ends it."""
    return _patch(node.metadata, {QUARANTINED: "true"}, {}, [*_other_taints(node), _TAINT])


def scale_in_patch(node: core.Node, now: datetime | None) -> dict[str, Any]:
    """A merge patch that closes an idle node before its termination, or opens it again (`now` is None)."""
    patch = _patch(node.metadata, {}, {SCALE_IN: stamp(now) if now else None}, None)
    return {**patch, "spec": {"unschedulable": True if now else None}}


_TAINT = {"key": TAINT, "effect": "NoSchedule"}


def _other_taints(node: core.Node) -> list[dict[str, Any]]:
    return [taint.to_json() for taint in node.spec.taints if taint.key != TAINT]


def _unguarded(annotations: Mapping[str, str]) -> dict[str, str | None]:
    if GUARDS not in annotations:
        return {}
    mine = filter(None, annotations[GUARDS].split(","))
    return {GUARDS: None, **{key: None for key in mine if key in GUARD_ANNOTATIONS}}


def _patch(
    metadata: ObjectMeta,
    labels: Mapping[str, str | None],
    annotations: Mapping[str, str | None],
    taints: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": metadata.resource_version}
    meta |= {"labels": dict(labels)} if labels else {}
    meta |= {"annotations": dict(annotations)} if annotations else {}
    return {"metadata": meta} | ({"spec": {"taints": taints}} if taints is not None else {})
