from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kube.ours import BookedInstance, BookingStatus, Launch
from kube.times import stamp
from provisioner.clouds.base import Instance, InstanceState
from provisioner.nodes.verify import Expected, Facts, holds, recorded, verdict
from provisioner.steps import Observed, SeenNode, Verdict, View
from tests.provisioner.world import START, booking, purchase

ZONE = "topology.kubernetes.io/zone"
EXPECTED = Expected(
    labels={ZONE: "z1", "block": "b1"},
    devices={"nvidia.com/gpu": 8},
    daemon_sets=("kube-system/plugin",),
    room={"cpu": 4000, "pods": 1},
    taints=frozenset({("gpu", "NoSchedule")}),
)
GOOD = Facts(
    ready=True,
    labels={ZONE: "z1", "block": "b1", "other": "x"},
    allocatable={"nvidia.com/gpu": 8, "cpu": 8000, "pods": 110},
    taken={"cpu": 4000, "pods": 5},
    daemon_sets=frozenset({"kube-system/plugin"}),
    taints=frozenset({("gpu", "NoSchedule")}),
)
STARTING = frozenset({("gpu", "NoSchedule"), ("starting", "NoExecute")})


@pytest.mark.parametrize(
    ("change", "found", "words"),
    [
        pytest.param({}, Verdict.SOUND, "", id="as planned"),
        pytest.param({"ready": False}, Verdict.WAITING, "not Ready", id="not Ready"),
        pytest.param({"labels": {ZONE: "z2", "block": "b1"}}, Verdict.WRONG, f"{ZONE} is z2, not z1", id="another zone"),
        pytest.param({"labels": {ZONE: "z1", "block": "b2"}}, Verdict.WRONG, "block is b2, not b1", id="another block"),
        pytest.param(
            {"ready": False, "labels": {ZONE: "z2"}}, Verdict.WRONG, f"{ZONE} is z2, not z1", id="no need to wait for Ready"
        ),
        pytest.param({"labels": {ZONE: "z1"}}, Verdict.WAITING, "has no label block yet", id="a label to come"),
        pytest.param(
            {"daemon_sets": frozenset()}, Verdict.WAITING, "no ready pod of DaemonSet kube-system/plugin yet", id="DaemonSet"
        ),
        pytest.param({"unschedulable": True}, Verdict.WAITING, "cordoned", id="cordoned"),
        pytest.param({"taints": STARTING}, Verdict.WAITING, "still has taint starting:NoExecute", id="a startup taint"),
        pytest.param({"taints": frozenset()}, Verdict.SOUND, "", id="a taint less"),
        pytest.param(
            {"allocatable": {"nvidia.com/gpu": 7, "cpu": 8000, "pods": 110}},
            Verdict.SHORT,
            "7 of 8 nvidia.com/gpu",
            id="a device less",
        ),
        pytest.param({"allocatable": {"cpu": 8000, "pods": 110}}, Verdict.WAITING, "0 of 8 nvidia.com/gpu yet", id="no devices"),
        pytest.param(
            {"taken": {"cpu": 4001}}, Verdict.SHORT, "3999m of the planned 4 cpu is free", id="a foreign pod takes planned room"
        ),
    ],
)
def test_verdict(change: dict[str, Any], found: Verdict, words: str) -> None:
    assert verdict(EXPECTED, replace(GOOD, **change)) == (found, words)


def test_a_node_that_was_there_may_have_any_taint() -> None:
    assert verdict(replace(EXPECTED, taints=None), replace(GOOD, taints=STARTING)) == (Verdict.SOUND, "")


def test_an_unknown_shape_is_waited_for() -> None:
    assert verdict(replace(EXPECTED, devices=None), GOOD) == (Verdict.WAITING, "its shape is not known yet")


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        pytest.param({"cpu": 4000, "pods": 105}, True, id="exactly"),
        pytest.param({"cpu": 4001}, False, id="one milli-core too much"),
        pytest.param({"pods": 106}, False, id="a pod too many"),
        pytest.param({"unknown": 1}, False, id="a resource that isn't there"),
    ],
)
def test_holds(room: dict[str, int], fits: bool) -> None:
    assert holds(room, GOOD) is fits


# --- the list of machines


def machine(state: str, **more: Any) -> BookedInstance:
    more = {"since": stamp(START), "launched_at": stamp(START), **more}
    return BookedInstance(id="i1", purchase="od", state=state, provider_id="sim://i1", token="t1", **more)  # type: ignore[arg-type]


def listed(state: InstanceState = InstanceState.RUNNING) -> Mapping[str, Instance]:
    return {"i1": Instance("i1", "sim://i1", state, "h100", "z1", "t1", tags={"corral.dev/purchase": "od"})}


def node(verdict: Verdict, words: str = "") -> SeenNode:
    return SeenNode("n1", "sim://i1", touched=True, marked=True, verdict=verdict, words=words)


def later(
    before: BookedInstance, seen: Mapping[str, Instance] | None, after: int, *nodes: SeenNode, phase: str = "Joining"
) -> BookedInstance:
    """What becomes of the machine `after` seconds from START. Its pool gives 300 s for joining."""
    launch = Launch(purchase="od", token="t1", count=1, state="Answered", at=stamp(START))
    status = BookingStatus(phase=phase, phase_since=stamp(START), launches=(launch,), instances=(before,))  # type: ignore[arg-type]
    observed = Observed(instances=seen, nodes={each.name: each for each in nodes}, readiness={"p": 300})
    view = View(booking(purchases=(purchase("od", 1),), status=status), observed, START + timedelta(seconds=after))
    return recorded(view).instances[0]


SHORT = {"node": "n1", "verdict": "Short", "message": "7 of 8 nvidia.com/gpu"}
WAITING = {"node": "n1", "verdict": "Waiting", "message": "not Ready"}


@pytest.mark.parametrize(
    ("before", "seen", "after", "nodes", "state"),
    [
        pytest.param(machine("Launched"), listed(), 10, [], "Launched", id="on its way"),
        pytest.param(machine("Launched"), listed(), 10, [node(Verdict.WAITING, "not Ready")], "Joined", id="joins"),
        pytest.param(machine("Launched"), listed(), 10, [node(Verdict.SOUND)], "Ready", id="joins sound"),
        pytest.param(machine("Joined", **WAITING), listed(), 90, [node(Verdict.SOUND)], "Ready", id="becomes sound"),
        pytest.param(
            machine("Ready", node="n1", verdict="Sound"), listed(), 90, [node(Verdict.WAITING)], "Joined", id="no longer Ready"
        ),
        pytest.param(machine("Ready", node="n1", verdict="Sound"), listed(), 90, [], "Joined", id="its node is gone"),
        pytest.param(machine("Launched"), listed(), 299, [], "Launched", id="late"),
        pytest.param(machine("Launched"), listed(), 300, [], "Bad", id="never joined"),
        pytest.param(
            machine("Joined", **SHORT), listed(), 29, [node(Verdict.SHORT, "7 of 8 nvidia.com/gpu")], "Joined", id="devices come"
        ),
        pytest.param(
            machine("Joined", **SHORT),
            listed(),
            30,
            [node(Verdict.SHORT, "7 of 8 nvidia.com/gpu")],
            "Bad",
            id="a device is lacking",
        ),
        pytest.param(
            machine("Launched"), listed(), 10, [node(Verdict.WRONG, "zone is z2, not z1")], "Bad", id="in another place"
        ),
        pytest.param(
            machine("Joined", **WAITING), listed(), 300, [node(Verdict.WAITING, "not Ready")], "Bad", id="not Ready in time"
        ),
        pytest.param(machine("Launched"), listed(InstanceState.TERMINATED), 10, [], "Gone", id="ended by the cloud"),
        pytest.param(machine("Launched"), listed(InstanceState.STOPPING), 10, [], "Terminating", id="being ended by the cloud"),
        pytest.param(machine("Launched"), {}, 10, [], "Launched", id="missing once"),
        pytest.param(machine("Ready", node="n1", missing_since=stamp(START)), {}, 120, [], "Gone", id="missing for two minutes"),
        pytest.param(
            machine("Ready", node="n1", missing_since=stamp(START)),
            {},
            999,
            [node(Verdict.SOUND)],
            "Ready",
            id="but its node is there",
        ),
        pytest.param(
            machine("Terminating", missing_since=stamp(START)), {}, 30, [node(Verdict.SOUND)], "Gone", id="told to end, missing"
        ),
        pytest.param(
            machine("Terminating", missing_since=stamp(START), since=stamp(START + timedelta(seconds=60))),
            {},
            89,
            [],
            "Terminating",
            id="missing before it was told to end",
        ),
        pytest.param(machine("Gone"), listed(), 10, [], "Launched", id="listed again"),
        pytest.param(machine("Gone"), listed(InstanceState.TERMINATED), 10, [], "Gone", id="still ended"),
        pytest.param(machine("Transferred"), listed(), 10, [], "Transferred", id="not ours any more"),
        pytest.param(machine("Joined", **SHORT), None, 999, [node(Verdict.SHORT)], "Joined", id="no answer of the cloud"),
    ],
)
def test_machines(
    before: BookedInstance, seen: Mapping[str, Instance] | None, after: int, nodes: list[SeenNode], state: str
) -> None:
    assert later(before, seen, after, *nodes).state == state


def test_a_machine_that_comes_back_after_the_end_is_ended() -> None:
    assert later(machine("Gone"), listed(), 10, phase="Failing").state == "Terminating"


def test_nothing_is_judged_bad_while_a_booking_ends() -> None:
    assert later(machine("Launched"), listed(), 999, phase="Releasing").state == "Launched"


def test_the_time_of_a_verdict_stands_while_its_words_change() -> None:
    before = machine("Joined", node="n1", verdict="Short", message="0 of 8 nvidia.com/gpu")

    found = later(before, listed(), 20, node(Verdict.SHORT, "4 of 8 nvidia.com/gpu"))

    assert (found.message, found.since) == ("4 of 8 nvidia.com/gpu", stamp(START))
