"""What a booking sets on its nodes, and the patches that set and remove it. Nobody else touches these marks.

Patches carry the node's resourceVersion: taints are one list, so a patch that rests on an older node must be refused (409).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from kube import core
from kube.bookings import Booking
from kube.meta import ObjectMeta
from kube.pools import POOL_LABEL
from kube.times import stamp
from provisioner.state import BOOKED, QUARANTINED_LABEL

KEY_SUFFIX = ".booking.corral.dev"
REQUEST = "corral.dev/request"
"""One more label, its value the booking's name: Kueue's own provisioning check can select a node by one fixed key only."""
IDLE_SINCE = "corral.dev/idle-since"
SCALE_IN = "corral.dev/scale-in"
DRAINING = "corral.dev/draining"
"""Closed by us because its machine is about to end: only then is it ours to open again."""
SILENT = "corral.dev/silent"
"""Quarantined for silence alone: it is opened again when it is back."""
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


def bookings_on(labels: Mapping[str, str]) -> set[str]:
    """The bookings that these labels name (of a node, or of a pod's node selector)."""
    found = {name for name in map(booking_of, labels) if name is not None}
    return found | ({labels[REQUEST]} if labels.get(REQUEST) else set())


def names(booking: Booking) -> frozenset[str]:
    """The bookings whose keys its nodes bear, and whose pods are its own there: itself, and earlier ones of a job that grew."""
    inherited = (booking_of(key) for each in booking.spec.pod_sets for key in each.inherited)
    return frozenset((booking.metadata.name, *filter(None, inherited)))


def labels(booking: str, keys: Iterable[str]) -> dict[str, str]:
    """The labels of a node of this booking."""
    return {REQUEST: booking, **dict.fromkeys(keys, "true")}


def tainted(node: core.Node) -> bool:
    return any(taint.key == BOOKED and taint.effect == "NoSchedule" for taint in node.spec.taints)


def launched(node: core.Node) -> bool:
    """Whether Corral bought the machine: such nodes register with their pool's label. Others are adopted."""
    return POOL_LABEL in node.metadata.labels


def marked(node: core.Node, wanted: Mapping[str, str]) -> bool:
    """Whether the node bears all that a booking with these labels sets, and nothing that says it is idle."""
    annotations = node.metadata.annotations
    guarded = all(annotations.get(key) == value for key, value in GUARD_ANNOTATIONS.items())
    return tainted(node) and guarded and IDLE_SINCE not in annotations and wanted.items() <= node.metadata.labels.items()


def guards(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that protect a node, with a list of those set by us: a user's own stay when the booking ends."""
    mine = {key for key, value in GUARD_ANNOTATIONS.items() if annotations.get(key) != value}
    mine |= set(filter(None, annotations.get(GUARDS, "").split(",")))
    return {**GUARD_ANNOTATIONS, GUARDS: ",".join(sorted(mine))}


def mark_patch(node: core.Node, wanted: Mapping[str, str], former: Collection[str] = ()) -> dict[str, Any]:
    """A merge patch that marks the node with a booking's labels, in place of those of `former` ones, and ends its idleness."""
    annotations: dict[str, str | None] = {**guards(node.metadata.annotations)}
    if IDLE_SINCE in node.metadata.annotations:
        annotations[IDLE_SINCE] = None
    gone = dict.fromkeys(key for key in node.metadata.labels if booking_of(key) in {*former})
    return _patch(node.metadata, {**gone, **wanted}, annotations, [*_other_taints(node), _TAINT])


def unmark_patch(node: core.Node, bookings: Collection[str], now: datetime) -> dict[str, Any]:
    """A merge patch that takes these bookings' keys off, and the rest of the marks when no other booking holds the node.

    A launched node becomes idle from `now` on; a quarantined one keeps its taint. One that was closed for a drain is opened,
    unless it is quarantined.
    """
    names = node.metadata.labels
    gone: dict[str, str | None] = {key: None for key, value in names.items() if bookings_on({key: value}) & {*bookings}}
    if bookings_on(names) - {*bookings}:
        return _patch(node.metadata, gone, {}, None)
    annotations = _unguarded(node.metadata.annotations)
    if launched(node):
        annotations[IDLE_SINCE] = stamp(now)
    if QUARANTINED_LABEL in names:
        return _patch(node.metadata, gone, annotations, None)
    if DRAINING not in node.metadata.annotations:
        return _patch(node.metadata, gone, annotations, _other_taints(node))
    patch = _patch(node.metadata, gone, {**annotations, DRAINING: None}, _other_taints(node))
    return {**patch, "spec": {**patch["spec"], "unschedulable": None}}


def quarantine_patch(node: core.Node, silent: bool = False) -> dict[str, Any]:
    """A merge patch that keeps a bad node out of every plan: label and taint, until an operator or its termination ends it, or,
    if it is only `silent`, until it is back.

    Closed it is as well: the pods of its own booking tolerate the taint.
    """
    note: dict[str, str | None] = {SILENT: "true" if silent else None}
    changed = note if silent or SILENT in node.metadata.annotations else {}
    patch = _patch(node.metadata, {QUARANTINED_LABEL: "true"}, changed, [*_other_taints(node), _TAINT])
    return {**patch, "spec": {**patch["spec"], "unschedulable": True}}


def restore_patch(node: core.Node) -> dict[str, Any]:
    """A merge patch that ends the quarantine of a node that no booking holds."""
    patch = _patch(node.metadata, {QUARANTINED_LABEL: None}, {SILENT: None}, _other_taints(node))
    return {**patch, "spec": {**patch["spec"], "unschedulable": None}}


def drain_patch(node: core.Node) -> dict[str, Any]:
    """A merge patch that closes a node before its pods are asked to leave."""
    return {**_patch(node.metadata, {}, {DRAINING: "true"}, None), "spec": {"unschedulable": True}}


def reopen_patch(node: core.Node) -> dict[str, Any]:
    """A merge patch that opens a node again that was closed for a drain."""
    return {**_patch(node.metadata, {}, {DRAINING: None}, None), "spec": {"unschedulable": None}}


def scale_in_patch(node: core.Node, now: datetime | None, idle: datetime | None = None) -> dict[str, Any]:
    """A merge patch that closes an idle node before its termination, or opens it again (`now` is None), idle from `idle` on. A
    quarantined one stays closed.
    """
    notes: dict[str, str | None] = {SCALE_IN: stamp(now) if now else None}
    if idle:
        notes[IDLE_SINCE] = stamp(idle)
    closed = True if now or QUARANTINED_LABEL in node.metadata.labels else None
    return {**_patch(node.metadata, {}, notes, None), "spec": {"unschedulable": closed}}


_TAINT = {"key": BOOKED, "effect": "NoSchedule"}


def _other_taints(node: core.Node) -> list[dict[str, Any]]:
    return [taint.to_json() for taint in node.spec.taints if taint.key != BOOKED]


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
