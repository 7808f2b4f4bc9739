from datetime import UTC, datetime

import pytest

from kube import core
from kube.meta import ObjectMeta
from provisioner.nodes import marks

NOW = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
WANTED = marks.labels("b", ["b.booking.corral.dev/main"])
TAINT = {"key": "corral.dev/booked", "effect": "NoSchedule"}
GUARDED = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
    "corral.dev/guards": "cluster-autoscaler.kubernetes.io/scale-down-disabled,karpenter.sh/do-not-disrupt",
}


def node(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, taints: tuple[core.Taint, ...] = ()
) -> core.Node:
    meta = ObjectMeta(name="n", resource_version="7", labels=labels or {}, annotations=annotations or {})
    return core.Node(metadata=meta, spec=core.NodeSpec(taints=taints))


def patched(before: core.Node, patch: dict) -> core.Node:
    """What a merge patch makes of the node."""
    meta, spec = patch["metadata"], patch.get("spec", {})
    assert meta["resourceVersion"] == "7", "a patch of taints must be guarded"
    labels = {**before.metadata.labels, **meta.get("labels", {})}
    annotations = {**before.metadata.annotations, **meta.get("annotations", {})}
    taints = spec.get("taints")
    return node(
        {key: value for key, value in labels.items() if value is not None},
        {key: value for key, value in annotations.items() if value is not None},
        before.spec.taints if taints is None else tuple(core.Taint(**taint) for taint in taints),
    )


@pytest.mark.parametrize(
    ("labels", "bookings"),
    [
        pytest.param({"b.booking.corral.dev/main": "true"}, {"b"}, id="a key"),
        pytest.param({"b.booking.corral.dev/x": "true", "c.booking.corral.dev/x": "true"}, {"b", "c"}, id="two bookings"),
        pytest.param({"corral.dev/request": "b"}, {"b"}, id="the one key of Kueue's own check"),
        pytest.param({"booking.corral.dev/main": "true", "b.booking.corral.dev": "x", "a/b": "c"}, set(), id="others"),
    ],
)
def test_bookings_on(labels: dict[str, str], bookings: set[str]) -> None:
    assert marks.bookings_on(labels) == bookings


def test_a_mark_and_its_removal_leave_an_adopted_node_as_it_was() -> None:
    before = node({"team": "train"}, {"note": "x"}, (core.Taint(key="gpu", effect="NoSchedule", value="yes"),))

    marked = patched(before, marks.mark_patch(before, WANTED))
    after = patched(marked, marks.unmark_patch(marked, {"b"}, NOW))

    assert not marks.marked(before, WANTED)
    assert marks.marked(marked, WANTED)
    assert [taint.key for taint in marked.spec.taints] == ["gpu", "corral.dev/booked"]
    assert marked.metadata.annotations == {"note": "x", **GUARDED}
    assert after == before


def test_a_users_own_guard_stays() -> None:
    before = node(annotations={"karpenter.sh/do-not-disrupt": "true"})

    marked = patched(before, marks.mark_patch(before, WANTED))
    again = patched(marked, marks.mark_patch(marked, WANTED))

    assert again == marked
    assert patched(again, marks.unmark_patch(again, {"b"}, NOW)) == before


def test_a_launched_node_becomes_idle_and_a_booking_ends_that() -> None:
    before = node({"corral.dev/pool": "p", **WANTED}, dict(GUARDED), (core.Taint(**TAINT),))

    idle = patched(before, marks.unmark_patch(before, {"b"}, NOW))
    taken = patched(idle, marks.mark_patch(idle, WANTED))

    assert idle.metadata.annotations == {"corral.dev/idle-since": "2026-09-01T10:00:00Z"}
    assert idle.metadata.labels == {"corral.dev/pool": "p"}
    assert not idle.spec.taints
    assert taken == before


def test_another_booking_keeps_the_taint() -> None:
    before = node(
        {"b.booking.corral.dev/main": "true", "c.booking.corral.dev/main": "true"}, dict(GUARDED), (core.Taint(**TAINT),)
    )

    after = patched(before, marks.unmark_patch(before, {"b"}, NOW))

    assert after.metadata.labels == {"c.booking.corral.dev/main": "true"}
    assert marks.tainted(after)
    assert after.metadata.annotations == GUARDED


def test_a_quarantined_node_keeps_its_taint_and_nobody_holds_it() -> None:
    before = node({"corral.dev/pool": "p", **WANTED}, dict(GUARDED), (core.Taint(**TAINT),))

    bad = patched(before, marks.quarantine_patch(before))
    after = patched(bad, marks.unmark_patch(bad, {"b"}, NOW))

    assert after.metadata.labels == {"corral.dev/pool": "p", "corral.dev/quarantined": "true"}
    assert marks.tainted(after)
    assert after.metadata.annotations == {"corral.dev/idle-since": "2026-09-01T10:00:00Z"}


@pytest.mark.parametrize(
    ("bad", "opened"), [pytest.param(False, True, id="sound"), pytest.param(True, False, id="quarantined stays closed")]
)
def test_a_node_that_was_closed_for_a_drain_is_open_after_its_booking(bad: bool, opened: bool) -> None:
    """When a host was rebooted or its end called off only later, nobody else would open it again."""
    labels = {**WANTED, **({"corral.dev/quarantined": "true"} if bad else {})}
    closed = node(labels, {**GUARDED, "corral.dev/draining": "true"})
    patch = marks.unmark_patch(closed, {"b"}, NOW)
    assert (patch.get("spec", {}).get("unschedulable", "untouched") is None) is opened
    assert ("corral.dev/draining" not in patched(closed, patch).metadata.annotations) is opened
    assert "unschedulable" not in marks.unmark_patch(node(WANTED, GUARDED), {"b"}, NOW)["spec"]


def test_closing_and_opening_for_scale_in() -> None:
    closed = marks.scale_in_patch(node(), NOW)
    opened = marks.scale_in_patch(node(), None)

    assert closed["spec"] == {"unschedulable": True}
    assert closed["metadata"]["annotations"] == {"corral.dev/scale-in": "2026-09-01T10:00:00Z"}
    assert opened["spec"] == {"unschedulable": None}
    assert opened["metadata"]["annotations"] == {"corral.dev/scale-in": None}


def test_a_quarantined_node_is_not_opened_by_scale_in() -> None:
    bad = node({"corral.dev/quarantined": "true"}, {"corral.dev/scale-in": "x"})
    patch = marks.scale_in_patch(bad, None)
    assert patch["spec"] == {"unschedulable": True}
    assert "corral.dev/scale-in" not in patched(bad, patch).metadata.annotations
