from typing import Any

import pytest
from msgspec.structs import replace

from kube.meta import Condition
from kube.ours import BookedInstance, BookingStatus, Launch
from kube.times import stamp
from provisioner.telling.tellings import events, spans
from tests.provisioner.world import START, booking, purchase

AT = stamp(START)
PENDING = Launch(purchase="od", token="t", count=2, state="Pending", at=AT)
LEAVING = Condition(
    type="NodesEnding", status="True", reason="SpotInterruption", message="node n1: spot interruption", last_transition_time=AT
)
LAUNCHED = BookedInstance(id="i1", purchase="od", state="Launched", launched_at=AT, node="n1")
SICK = replace(LAUNCHED, state="Joined", verdict="Sound")


def change(before: dict[str, Any], after: dict[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(events as type and reason, spans as name and beginning) of a change of status."""
    old, new = BookingStatus(**before), BookingStatus(**after)
    booked = booking(purchases=(purchase("od", 2),), status=old)
    told = [(each.type, each.reason) for each in events(booked, new)]
    return told, [(each.name, each.began) for each in spans(booked, new)]


@pytest.mark.parametrize(
    ("before", "after", "told", "traced"),
    [
        pytest.param({}, {"launches": (PENDING,)}, [], [], id="a call is written down"),
        pytest.param(
            {"launches": (PENDING,)},
            {"launches": (replace(PENDING, state="Answered"),), "instances": (LAUNCHED,)},
            [("Normal", "Bought")],
            [("buy", AT)],
            id="bought",
        ),
        pytest.param(
            {"launches": (PENDING,)},
            {"launches": (replace(PENDING, state="Failed", reason="QuotaExceeded"),)},
            [("Warning", "PurchaseFailed")],
            [("buy", AT)],
            id="refused",
        ),
        pytest.param(
            {"instances": (LAUNCHED,)}, {"instances": (replace(LAUNCHED, state="Joined"),)}, [], [("joined", AT)], id="joined"
        ),
        pytest.param(
            {"instances": (LAUNCHED,)}, {"instances": (replace(LAUNCHED, state="Ready"),)}, [], [("verified", AT)], id="verified"
        ),
        pytest.param(
            {"instances": (LAUNCHED,)},
            {"instances": (replace(LAUNCHED, state="Bad"),)},
            [("Warning", "MachineBad")],
            [],
            id="bad",
        ),
        pytest.param(
            {"instances": (SICK,)}, {"instances": (replace(SICK, verdict="Sick"),)}, [("Warning", "NodeUnhealthy")], [], id="sick"
        ),
        pytest.param(
            {"instances": (replace(SICK, verdict="Sick"),)},
            {"instances": (replace(SICK, verdict="Sick", message="Xid 79"),)},
            [],
            [],
            id="still sick",
        ),
        pytest.param({"phase": "Joining"}, {"phase": "Provisioned"}, [("Normal", "CapacityProvisioned")], [], id="provisioned"),
        pytest.param({}, {"conditions": (LEAVING,)}, [("Warning", "NodesEnding")], [], id="nodes are about to end"),
        pytest.param({"conditions": (LEAVING,)}, {"conditions": (LEAVING,)}, [], [], id="which is told once"),
        pytest.param(
            {"conditions": (LEAVING,)},
            {"conditions": (replace(LEAVING, message="node n2: spot interruption"),)},
            [("Warning", "NodesEnding")],
            [],
            id="others are about to end",
        ),
        pytest.param({"conditions": (LEAVING,)}, {"conditions": (replace(LEAVING, status="False"),)}, [], [], id="no longer"),
        pytest.param(
            {"phase": "Joining"}, {"phase": "Failing", "reason": "Cancelled"}, [("Normal", "BookingFailing")], [], id="cancelled"
        ),
        pytest.param(
            {"phase": "Joining"}, {"phase": "Failing", "reason": "NodeTaken"}, [("Warning", "BookingFailing")], [], id="failing"
        ),
        pytest.param(
            {"phase": "Releasing", "phase_since": AT},
            {"phase": "Released"},
            [("Normal", "CapacityReleased")],
            [("released", AT)],
            id="released",
        ),
        pytest.param({"phase": "Joining", "message": "a"}, {"phase": "Joining", "message": "b"}, [], [], id="words alone"),
    ],
)
def test_a_change_tells(
    before: dict[str, Any], after: dict[str, Any], told: list[tuple[str, str]], traced: list[tuple[str, str]]
) -> None:
    assert change(before, after) == (told, traced)
