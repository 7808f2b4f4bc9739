"""Which machines won't do, and which of them are given back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from kube.ours import BookedInstance, BookingStatus, Launch
from kube.times import stamp
from provisioner.ending.notices import Notice
from provisioner.repairing.repair import discarded, why_bad
from provisioner.steps import Observed, Owner, SeenNode, Verdict, View
from tests.provisioner.world import START, booking, purchase

AT = stamp(START)
NODE = SeenNode("n1", "sim://i1", touched=True, marked=True)
SPOT = Notice("SpotInterruption", "spot interruption at 10:02Z", START, START + timedelta(seconds=120))
LATER = replace(SPOT, drain=START + timedelta(hours=1))


def machine(number: int = 1, state: str = "Joined", **more: str) -> BookedInstance:
    given = {"since": AT, "launched_at": AT, "joined_at": AT, "verdict": "Waiting", "message": "not Ready", "node": "n1", **more}
    return BookedInstance(id=f"i{number}", purchase="res", state=state, provider_id=f"sim://i{number}", token="t1", **given)  # type: ignore[arg-type]


def view(*machines: BookedInstance, after: float = 0, used: bool = False, node: SeenNode | None = NODE, **more: Any) -> View:
    status = BookingStatus(
        phase="Provisioned" if used else "Joining",
        first_pod_at=AT if used else None,
        instances=machines,
        launches=more.pop("launches", ()),
    )
    booked = booking(purchases=(purchase("res", more.pop("count", 1), "reserved"),), status=status)
    nodes = {node.name: node} if node else {}
    seen = Observed(owner=Owner.ADMITTED, instances={}, nodes=nodes, readiness={"p": 300}, **more)
    return View(booked, seen, START + timedelta(seconds=after))


@pytest.mark.parametrize(
    ("each", "after", "more", "why"),
    [
        pytest.param(machine(state="Launched"), 299, {"node": None}, "", id="still joining"),
        pytest.param(machine(state="Launched"), 300, {"node": None}, "did not join within 5m", id="never joined"),
        pytest.param(machine(), 299, {}, "", id="still getting ready"),
        pytest.param(machine(), 300, {}, "not Ready after 5m", id="never ready"),
        pytest.param(machine(verdict="Wrong", message="zone is z2"), 0, {}, "zone is z2", id="in the wrong place"),
        pytest.param(machine(verdict="Sick", message="Xid 79"), 0, {}, "Xid 79", id="sick"),
        pytest.param(machine(verdict="Short", message="7 of 8"), 29, {}, "", id="devices may follow"),
        pytest.param(machine(verdict="Short", message="7 of 8"), 30, {}, "7 of 8", id="a device less"),
        pytest.param(machine(verdict="Sound"), 0, {"node": replace(NODE, notice=SPOT)}, SPOT.words, id="about to end"),
        pytest.param(machine(verdict="Sound"), 0, {"node": replace(NODE, notice=LATER)}, "", id="to end later"),
        # under a gang that has come
        pytest.param(machine(), 299, {"used": True, "node": replace(NODE, ready=False)}, "", id="not Ready for a while"),
        pytest.param(
            machine(), 300, {"used": True, "node": replace(NODE, ready=False)}, "not Ready for 5m", id="not Ready for good"
        ),
        pytest.param(machine(message="no DaemonSet"), 9999, {"used": True}, "", id="what runs is not judged"),
        pytest.param(machine(message="its node is gone"), 119, {"used": True, "node": None}, "", id="its node may come back"),
        pytest.param(
            machine(message="its node is gone"),
            120,
            {"used": True, "node": None},
            "its node is gone for 2m",
            id="its node is gone",
        ),
        pytest.param(
            machine(verdict="Sick", message="Xid 79"), 9999, {"used": True, "consumers": {"n1": 1}}, "", id="sick under its pods"
        ),
        pytest.param(machine(verdict="Sick", message="Xid 79"), 0, {"used": True}, "Xid 79", id="sick and left by its pods"),
        pytest.param(
            machine(verdict="Sound"), 0, {"used": True, "node": replace(NODE, notice=SPOT)}, SPOT.words, id="about to end, in use"
        ),
    ],
)
def test_why_bad(each: BookedInstance, after: float, more: dict[str, Any], why: str) -> None:
    assert why_bad(view(each, after=after, **more), each) == why


@pytest.mark.parametrize(
    ("fields", "each", "after", "why"),
    [
        pytest.param({"join_seconds": 60}, machine(state="Launched"), 60, "did not join within 1m", id="join by the policy"),
        pytest.param(
            {"join_seconds": 900}, machine(state="Launched"), 300, "did not join within 5m", id="the pool's comes first"
        ),
        pytest.param({"verify_seconds": 130}, machine(), 129, "", id="verify: not yet"),
        pytest.param({"verify_seconds": 130}, machine(), 130, "not Ready after 2m10s", id="verify by the policy"),
    ],
)
def test_the_policy_may_ask_for_less_time(fields: dict[str, int], each: BookedInstance, after: float, why: str) -> None:
    found = view(each, after=after)
    shorter = structs.replace(found.booking, spec=structs.replace(found.spec, **fields))
    assert why_bad(replace(found, booking=shorter), each) == why


def refused(reason: str = "ReservationCapacityExceeded", after: int = 10) -> Launch:
    at = stamp(START + timedelta(seconds=after))
    return Launch(purchase="res", token="t2", count=1, state="Failed", at=at, reason=reason)


BAD = machine(1, "Bad")
OTHER = machine(2, "Bad", node="n2")
BOTH = {"n1": NODE, "n2": replace(NODE, name="n2", provider_id="sim://i2")}


@pytest.mark.parametrize(
    ("machines", "more", "states"),
    [
        pytest.param((BAD,), {}, ["Bad"], id="kept while another slot is tried"),
        pytest.param((BAD,), {"launches": (refused(),)}, ["Terminating"], id="given back when there is none"),
        pytest.param((BAD,), {"launches": (refused("InvalidConfiguration"),)}, ["Bad"], id="not for another refusal"),
        pytest.param(
            (BAD,), {"closed": {"res": "LimitExceeded: maxNodes 1"}}, ["Terminating"], id="given back where maxNodes holds"
        ),
        pytest.param((BAD,), {"closed": {"res": "pool p is Paused"}}, ["Bad"], id="not where nothing may be bought at all"),
        pytest.param((BAD,), {"node": None}, ["Terminating"], id="without a node it keeps nothing"),
        pytest.param((BAD, OTHER), {"launches": (refused(),), "count": 1}, ["Terminating", "Bad"], id="no more than are missing"),
        pytest.param((BAD, OTHER), {"launches": (refused(),), "count": 2}, ["Terminating"] * 2, id="as many as are missing"),
        pytest.param(
            (machine(2, "Terminating"), BAD), {"launches": (refused(),)}, ["Terminating", "Bad"], id="one is on its way already"
        ),
        pytest.param(
            (BAD,), {"launches": (refused(),), "consumers": {"n1": 1}}, ["Bad"], id="never from under the pods of the gang"
        ),
    ],
)
def test_a_bad_prepaid_machine_keeps_its_slot_as_long_as_it_can(
    machines: tuple[BookedInstance, ...], more: dict[str, Any], states: list[str]
) -> None:
    found = view(*machines, after=20, **more)
    if more.get("node", NODE):
        found = replace(found, seen=replace(found.seen, nodes=BOTH))
    assert [each.state for each in discarded(found).instances] == states


def test_verdicts_are_those_that_are_stored() -> None:
    assert {"Sound", "Waiting", "Doubted", "Checking", "Short", "Wrong", "Sick"} == {each.value for each in Verdict}
