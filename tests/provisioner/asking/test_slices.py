"""Slices of elastic jobs. Their shapes are those that the real Kueue 0.17.0 makes (e2e/test_elastic.py); capacity was booked at
10:00.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from kube.kueue import Workload
from kube.meta import decode
from kube.slices import before
from provisioner.asking.slices import after, lives_on

BOOKED = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
EARLIER, LATER = "2026-09-01T09:59:00Z", "2026-09-01T10:05:00Z"


def slice_(name: str, *conditions: str, replaces: str = "", job: str = "j", evicted: tuple[str, str] | None = None) -> Workload:
    """`evicted`: status and time of that condition."""
    found = [{"type": each, "status": "True", "lastTransitionTime": LATER} for each in conditions]
    found += [{"type": "Evicted", "status": evicted[0], "lastTransitionTime": evicted[1]}] if evicted else []
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"{name}-uid",
        "ownerReferences": [{"kind": "Job", "name": "x", "uid": job, "controller": True}],
        "annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": f"team/{replaces}"} if replaces else {},
    }
    return decode({"metadata": meta, "status": {"conditions": found}}, Workload)


HELD, ADMITTED, FINISHED = "QuotaReserved", "Admitted", "Finished"
FIRST = slice_("a", HELD, ADMITTED, FINISHED)
SECOND = slice_("b", HELD, replaces="a")


def newer(workload: Workload, *there: Workload) -> Sequence[Workload]:
    def naming(key: tuple[str, str]) -> list[Workload]:
        wanted = "/".join(key)
        return [w for w in there if w.metadata.annotations.get("kueue.x-k8s.io/workload-slice-replacement-for") == wanted]

    return after(workload, naming)


@pytest.mark.parametrize(
    ("first", "there", "lives"),
    [
        pytest.param(FIRST, [SECOND], True, id="its pods run on under the new slice"),
        pytest.param(FIRST, [], False, id="over for good"),
        pytest.param(
            slice_("a", HELD, ADMITTED), [slice_("b", replaces="a")], False, id="not replaced yet: it speaks for itself"
        ),
        pytest.param(slice_("a", HELD, FINISHED), [SECOND], False, id="never admitted: its pods never were let go"),
        pytest.param(FIRST, [slice_("b", HELD, ADMITTED, FINISHED, replaces="a")], False, id="the job is over"),
        pytest.param(FIRST, [slice_("b", replaces="a")], None, id="the new slice has no quota yet, or none for now"),
        pytest.param(FIRST, [slice_("b", FINISHED, replaces="a")], False, id="the new slice was given up"),
        pytest.param(
            slice_("a", HELD, FINISHED), [slice_("b", replaces="a")], False, id="never admitted, and the new one has no quota yet"
        ),
        pytest.param(
            FIRST, [slice_("b", replaces="a", evicted=("True", LATER))], False, id="the new slice was evicted, the job is stopped"
        ),
        pytest.param(FIRST, [slice_("b", HELD, replaces="a", job="k")], False, id="of another job"),
        pytest.param(FIRST, [slice_("b", HELD, replaces="c")], False, id="instead of another slice"),
        pytest.param(FIRST, [slice_("b", HELD, FINISHED, replaces="a"), slice_("c", HELD, replaces="b")], True, id="two later"),
        pytest.param(FIRST, [slice_("b", FINISHED, replaces="a"), slice_("c", HELD, replaces="a")], True, id="one was given up"),
        pytest.param(
            FIRST, [slice_("b", HELD, replaces="a", evicted=("False", LATER))], False, id="stopped since, has quota again"
        ),
        pytest.param(
            FIRST, [slice_("b", HELD, replaces="a", evicted=("False", EARLIER))], True, id="stopped before it was booked"
        ),
        pytest.param(
            slice_("a", HELD, ADMITTED, FINISHED, evicted=("False", LATER)), [SECOND], False, id="stopped itself, booked anew"
        ),
        pytest.param(
            FIRST,
            [slice_("b", HELD, FINISHED, replaces="a", evicted=("False", LATER)), slice_("c", HELD, replaces="b")],
            False,
            id="stopped between",
        ),
    ],
)
def test_whether_capacity_of_a_slice_is_still_used(first: Workload, there: list[Workload], *, lives: bool | None) -> None:
    assert lives_on(first, newer(first, *there), BOOKED) is lives


def test_slices_that_name_each_other_end_the_search() -> None:
    one, two = slice_("a", FINISHED, replaces="b"), slice_("b", FINISHED, replaces="a")
    assert newer(one, one, two) == [two]
    assert before(one, {("team", "b"): two, ("team", "a"): one}.get) == [two]


def test_the_slices_before() -> None:
    third, stranger = slice_("c", HELD, replaces="b"), slice_("a", HELD, job="k")
    known = {("team", each.metadata.name): each for each in (FIRST, SECOND)}
    assert before(third, known.get) == [SECOND, FIRST]
    assert before(third, {**known, ("team", "a"): stranger}.get) == [SECOND]
    assert before(FIRST, known.get) == []
