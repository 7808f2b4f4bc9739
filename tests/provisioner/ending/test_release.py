from typing import Any

import pytest

from kube.ours import BookedInstance, BookingStatus
from kube.times import stamp
from provisioner.ending.release import sorted_out, stays, to_unmark, undone
from provisioner.steps import Observed, SeenNode, View
from tests.provisioner.world import START, booking, purchase

RESERVED, OD = "reserved", "on-demand"


def machine(state: str) -> BookedInstance:
    return BookedInstance(id="i1", purchase="x", state=state, provider_id="sim://i1", since=stamp(START))  # type: ignore[arg-type]


def view(state: str, phase: str, kind: str, *, node: bool = True, busy: bool = False, **seen: Any) -> View:
    nodes = {"n1": SeenNode("n1", "sim://i1", touched=True, busy=busy)} if node else {}
    status = BookingStatus(phase=phase, phase_since=stamp(START), instances=(machine(state),))  # type: ignore[arg-type]
    booked = booking(purchases=(purchase("x", 1, kind),), status=status)
    return View(booked, Observed(instances={}, nodes=nodes, **seen), START)


KEEP = {"keep": frozenset({"x"})}
NEVER = {**KEEP, "forever": frozenset({"x"})}


@pytest.mark.parametrize(
    ("seen", "stay"),
    [
        pytest.param(view("Ready", "Releasing", OD, **KEEP), True, id="released, the source keeps idle machines"),
        pytest.param(view("Ready", "Releasing", OD), False, id="released, the source keeps none"),
        pytest.param(view("Ready", "Releasing", OD, busy=True), True, id="foreign pods run there"),
        pytest.param(view("Launched", "Releasing", OD, node=False, **KEEP), False, id="never joined"),
        pytest.param(view("Ready", "Failing", OD, **KEEP), False, id="failed, it costs extra"),
        pytest.param(view("Ready", "Failing", RESERVED, **KEEP), True, id="failed, prepaid and sound"),
        pytest.param(view("Ready", "Failing", RESERVED), False, id="failed, prepaid, but the source keeps none"),
        pytest.param(view("Joined", "Failing", RESERVED, **KEEP), False, id="failed, prepaid, not proven sound"),
        pytest.param(view("Bad", "Failing", RESERVED, **NEVER), True, id="bad, and its source lets none go"),
        pytest.param(view("Bad", "Failing", RESERVED, **KEEP), False, id="bad, and its source lets it go"),
        pytest.param(view("Bad", "Releasing", OD, **NEVER), False, id="bad, and it costs extra"),
    ],
)
def test_what_stays(seen: View, stay: bool) -> None:
    assert stays(seen, seen.status.instances[0]) is stay
    assert (sorted_out(seen).instances[0].state == "Terminating") is not stay


def test_a_node_about_to_end_keeps_its_marks() -> None:
    assert to_unmark(view("Ready", "Releasing", OD)) == ("n1",)
    assert to_unmark(view("Terminating", "Releasing", OD)) == ()


@pytest.mark.parametrize(
    ("state", "left"), [("Terminating", True), ("Ready", True), ("Bad", True), ("Gone", False), ("Transferred", False)]
)
def test_undone(state: str, left: bool) -> None:
    assert undone(view(state, "Releasing", OD)) is left
