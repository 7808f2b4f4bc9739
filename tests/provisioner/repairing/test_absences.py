"""Nodes that were given up for lost, and that are there."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kube.ours import BookingStatus
from kube.times import stamp
from provisioner.ending.notices import Notice
from provisioner.nodes import marks
from provisioner.nodes.inspecting import Inspector
from provisioner.repairing import absences
from provisioner.steps import Observed, SeenNode, Verdict, View
from tests.provisioner import fake_api
from tests.provisioner.fake_api import START, Api
from tests.provisioner.world import booking

ENDS = Notice("ReservationEnds", "reservation cr-1 ends at 12:00Z", START + timedelta(hours=1), START + timedelta(hours=2))
WELL = SeenNode("a", "sim://a", touched=True, marked=True, verdict=Verdict.SOUND)


@pytest.mark.parametrize(
    ("node", "minutes", "free"),
    [
        pytest.param(WELL, 0, True, id="well again"),
        pytest.param(replace(WELL, notice=ENDS), 59, True, id="its reservation ends some day, as each capacity block does"),
        pytest.param(replace(WELL, notice=ENDS), 60, False, id="it is about to end: it is emptied first"),
        pytest.param(replace(WELL, notice=ENDS, quarantined=True), 60, True, id="nobody comes there any more"),
        pytest.param(replace(WELL, verdict=Verdict.SICK), 0, False, id="sick"),
        pytest.param(replace(WELL, touched=False), 0, False, id="let go of"),
    ],
)
def test_who_is_let_go_of(node: SeenNode, minutes: int, free: bool) -> None:
    given = booking(nodes=("b",), former=("a",), status=BookingStatus(phase="Provisioned"))
    view = View(given, Observed(nodes={"a": node}), START + timedelta(minutes=minutes))
    assert absences.released(view) == (("a",) if free else ())


def test_no_health_check_begins_on_a_node_that_was_given_up() -> None:
    """It would keep the booking from all that comes after it in the row, for nothing is made for such a node."""
    api = Api()
    state = fake_api.state(api)
    pool: dict[str, Any] = fake_api.pool()
    pool["spec"]["readiness"] = {"healthCheck": {"podTemplateRef": {"name": "nccl"}}}
    api.put("capacitypools", pool)
    api.put("nodes", fake_api.node("a", labels=marks.labels("b", ["b.booking.corral.dev/main"])))
    given = booking(nodes=("b",), former=("a",), status=BookingStatus(phase="Provisioned", provisioned_at=stamp(START)))

    seen = Inspector(state, lambda: START).nodes(given, {})["a"]
    assert (seen.verdict, seen.unchecked, seen.hindered) == (Verdict.SOUND, False, False)
