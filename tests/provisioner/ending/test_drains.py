"""Which nodes are emptied, by whom it is announced, and how."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kube import core
from kube.meta import decode
from kube.ours import BookedInstance, BookingStatus
from provisioner import rules
from provisioner.clouds.base import Announcement, Instance, InstanceState, Reservation
from provisioner.ending import drains
from provisioner.ending.evictions import empty
from provisioner.ending.notices import Notice, notice
from provisioner.nodes.health import ailment
from provisioner.steps import Drain, Observed, SeenNode, View, Wait
from runtime.errors import NotFound, TooManyRequests
from tests.provisioner import make
from tests.provisioner.fake_api import Api, pod
from tests.provisioner.world import START, booking, purchase

NOW = int(START.timestamp())
SPOT = Notice("SpotInterruption", "spot interruption at 10:02Z", START, START + timedelta(seconds=120))
LATER = replace(SPOT, drain=START + timedelta(seconds=1))
NODE = SeenNode("n1", "sim://i1", touched=True, notice=SPOT)


def view(node: SeenNode, state: str = "Ready", **consumers: int) -> View:
    machine = BookedInstance(id="i1", purchase="od", state=state, provider_id="sim://i1")  # type: ignore[arg-type]
    booked = booking(purchases=(purchase("od", 1),), status=BookingStatus(phase="Provisioned", instances=(machine,)))
    return View(booked, Observed(nodes={node.name: node}, consumers=consumers), START)


@pytest.mark.parametrize(
    ("seen", "drain"),
    [
        pytest.param(view(NODE), Drain(("n1",), everyone=True), id="closed first"),
        pytest.param(view(replace(NODE, closed=True)), None, id="closed and empty"),
        pytest.param(view(replace(NODE, closed=True), n1=1), Drain(("n1",), everyone=True), id="our pods"),
        pytest.param(view(replace(NODE, closed=True, busy=True)), Drain(("n1",), everyone=True), id="strangers"),
        pytest.param(view(replace(NODE, notice=LATER)), None, id="not yet"),
        pytest.param(view(replace(NODE, touched=False)), None, id="another's node"),
        pytest.param(view(replace(NODE, notice=None), n1=1), None, id="no notice"),
        pytest.param(
            view(replace(NODE, notice=None, busy=True), "Terminating"), Drain(("n1",), everyone=False), id="a machine that goes"
        ),
        pytest.param(view(replace(NODE, notice=None, busy=True), "Terminating", n1=1), None, id="not while our pods hold it"),
    ],
)
def test_due(seen: View, drain: Drain | None) -> None:
    assert drains.due(seen) == drain


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        pytest.param(replace(NODE, notice=LATER), 1, id="until the drain begins"),
        pytest.param(NODE, 60, id="it has begun"),
        pytest.param(replace(NODE, notice=LATER, touched=False), 60, id="another's node"),
    ],
)
def test_a_booking_is_looked_at_when_a_drain_begins(seen: SeenNode, seconds: float) -> None:
    whole = view(seen, n1=1)
    assert rules.keep_watch(whole) == Wait(seconds)


def machine(*said: Announcement, reservation: str | None = None) -> Instance:
    return Instance("i1", "sim://i1", InstanceState.RUNNING, "h100", "z1", "t", reservation, announced=said)


BLOCK = Reservation("cr-1", "h100", "z1", "capacity-block", 4, 1, ends=NOW + 7200)
MAINTENANCE = Announcement("Maintenance", NOW + 5400, "host retirement")


@pytest.mark.parametrize(
    ("one", "reservation", "reason", "drain", "words"),
    [
        pytest.param(
            machine(Announcement("SpotInterruption", NOW + 120, "taken back")),
            None,
            "SpotInterruption",
            0,
            "taken back at 10:02Z",
            id="spot: at once",
        ),
        pytest.param(machine(MAINTENANCE), None, "Maintenance", 5400, "host retirement at 11:30Z", id="on demand: when it comes"),
        pytest.param(
            machine(MAINTENANCE, reservation="cr-1"),
            None,
            "Maintenance",
            1800,
            "host retirement at 11:30Z",
            id="drainBeforeEnd before it",
        ),
        pytest.param(
            machine(reservation="cr-1"),
            BLOCK,
            "ReservationEnds",
            3600,
            "reservation cr-1 ends at 12:00Z",
            id="the end of a block",
        ),
        pytest.param(
            machine(MAINTENANCE, reservation="cr-1"),
            BLOCK,
            "Maintenance",
            1800,
            "host retirement at 11:30Z",
            id="what comes first",
        ),
    ],
)
def test_notice(one: Instance, reservation: Reservation | None, reason: str, drain: int, words: str) -> None:
    pool = make.pool("p", make.source(drainBeforeEnd="1h", reservationIDs=["cr-1"], capacityType="capacity-block"))
    found = notice(one, pool, reservation, START)
    assert found is not None
    assert (found.reason, (found.drain - START).total_seconds(), found.words) == (reason, drain, words)


def test_nothing_is_announced() -> None:
    assert notice(machine(), None, None, START) is None


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        pytest.param([], "", id="none"),
        pytest.param([{"type": "KernelDeadlock", "status": "False"}], "", id="well"),
        pytest.param([{"type": "KernelDeadlock", "status": "True"}], "KernelDeadlock=True", id="bare"),
        pytest.param(
            [{"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "message": "GPU lost"}],
            "AcceleratedHardwareReady=False (NvidiaXID79Error: GPU lost)",
            id="a fatal Xid",
        ),
        pytest.param([{"type": "Other", "status": "True"}], "", id="not named by the pool"),
    ],
)
def test_ailment(conditions: list[dict[str, str]], words: str) -> None:
    node = decode({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, core.Node)
    assert ailment(node, make.pool()) == words


class _Evictions(Api):
    """Refuses those whose name begins with `held`, and has lost `gone`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def evict(self, name: str, namespace: str, uid: str) -> None:
        self.asked.append(f"{namespace}/{name}")
        if name.startswith("held"):
            raise TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")
        if name == "gone":
            raise NotFound(f'pods "{name}" not found')


async def test_pods_are_asked_to_leave_and_those_a_budget_holds_are_named() -> None:
    api = _Evictions()
    mine: dict[str, Any] = {"selector": {"b.booking.corral.dev/main": "true"}}
    for body in (
        pod("held-1", "n1"),
        pod("gone", "n1"),
        pod("goes", "n1", **mine),
        pod("ds", "n1", owner="DaemonSet"),
        pod("x", "n2"),
    ):
        api.put("pods", body)
    assert await empty(api, "n1", home="default") == ["team/held-1"]  # type: ignore[arg-type]
    assert sorted(api.asked) == ["team/goes", "team/gone", "team/held-1"]
    api.asked.clear()
    await empty(api, "n1", {"b"}, home="default")  # type: ignore[arg-type]
    assert sorted(api.asked) == ["team/gone", "team/held-1"]


@pytest.mark.parametrize(
    ("spared", "asked"),
    [
        pytest.param((), ["team/kept", "team/other"], id="the cloud takes the machine away whatever they want"),
        pytest.param({"b"}, ["team/other"], id="the machine is ours to end, and waits"),
    ],
)
async def test_who_must_not_be_disturbed_is_asked_only_where_the_machine_goes_anyway(spared: set[str], asked: list[str]) -> None:
    api = _Evictions()
    kept = pod("kept", "n1")
    kept["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    for body in (kept, pod("other", "n1")):
        api.put("pods", body)
    staying = await empty(api, "n1", spared, home="default")  # type: ignore[arg-type]
    assert sorted(api.asked) == asked
    assert staying == ([] if "team/kept" in asked else ["team/kept"])


@pytest.mark.parametrize(("pods", "told"), [(0, False), (1, True)], ids=["left by the gang's pods", "with pods of it"])
def test_nothing_is_told_of_a_node_that_was_given_up_and_that_nobody_uses(pods: int, told: bool) -> None:
    booked = booking(nodes=("n2",), former=("n1",), status=BookingStatus(phase="Provisioned"))
    seen = View(booked, Observed(nodes={"n1": NODE}, consumers={"n1": pods}), START)
    assert (drains.words(seen), drains.reason(seen), drains.begun(seen)) == (
        (f"node n1: {SPOT.words}", "SpotInterruption", ["n1"]) if told else ("", "", [])
    )
    assert drains.due(seen) == Drain(("n1",), everyone=True), "its strangers are asked to leave all the same"
