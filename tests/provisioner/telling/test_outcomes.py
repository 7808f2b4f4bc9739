"""What outcomes mean in words. Asked at 9:00, now 10:00."""

from datetime import timedelta

import msgspec
import pytest

from capacity.model import (
    ZONE,
    Change,
    Finding,
    Gang,
    Node,
    Offering,
    Plan,
    PodSet,
    Purchase,
    Reason,
    Relaxation,
    Shortfall,
    Snapshot,
    Undecidable,
    Use,
)
from capacity.model import CapacityType as Kind
from capacity.plan import plan
from kube import ours
from provisioner.asking.parameters import terms
from provisioner.planning.room import Room
from provisioner.telling.outcomes import MOST_NODES, behind, bound, by_policy, observed, too_large, undecidable, waiting
from provisioner.telling.progress import Failed, ToPlan, Waiting
from tests.provisioner.make import H100, NOW, RACK, policy

ASKED = NOW - timedelta(hours=1)
TODO = ToPlan(NOW + timedelta(hours=20))
SHUT = Offering("p/od", "p", "od", H100.shape, Kind.ON_DEMAND, 0, 9, unavailable="InsufficientCapacity since 09:58Z")
ROOM = Room(Snapshot(0, offerings=(SHUT,)))
SHORT = Shortfall(Reason.GANG_INCOMPLETE, "2 of 4 pods can be had now")
GANG = Gang("team/job", (PodSet("main", 4, {}), PodSet("side", 1, {}, required_topology=RACK)))


@pytest.mark.parametrize(
    ("outcome", "todo", "expected"),
    [
        pytest.param(SHORT, TODO, "2 of 4 pods can be had now; gives up at 2026-09-02 06:00Z (20h left)", id="plain"),
        pytest.param(
            Shortfall(Reason.GANG_INCOMPLETE, "0 of 4", (Finding("p/od", "x"),)),
            TODO,
            "0 of 4; p/od: InsufficientCapacity since 09:58Z; gives up at 2026-09-02 06:00Z (20h left)",
            id="names-what-is-shut",
        ),
        pytest.param(
            Shortfall(
                Reason.GANG_INCOMPLETE,
                "0 of 4",
                relaxations=(Relaxation(Change.PODS, "2 pods"), Relaxation(Change.ZONE, "any zone")),
            ),
            TODO,
            "0 of 4; would fit: 2 pods | any zone; gives up at 2026-09-02 06:00Z (20h left)",
            id="names-what-would-fit",
        ),
        pytest.param(
            SHORT,
            ToPlan(NOW + timedelta(minutes=5), "InsufficientCapacity: no"),
            "2 of 4 pods can be had now; the attempt before failed: InsufficientCapacity: no; gives up at 10:05Z (5m left)",
            id="names-the-attempt-before",
        ),
    ],
)
def test_waiting(outcome: Shortfall, todo: ToPlan, expected: str) -> None:
    assert waiting(outcome, ROOM, todo, ASKED, NOW) == Waiting("GangIncomplete", expected, todo.deadline)


def test_at_the_deadline_it_fails_with_how_long_it_waited() -> None:
    found = waiting(SHORT, ROOM, ToPlan(NOW), ASKED, NOW)
    assert found == Failed("GangIncomplete", "waited 1h: 2 of 4 pods can be had now")


def test_behind_another() -> None:
    assert behind("team/head", ToPlan(NOW), NOW, ASKED, GANG) == Failed(
        "GangIncomplete", "waited 1h: 5 of 5 pods would fit, but team/head is first in turn and waits for the same capacity"
    )


def test_observed_names_pool_and_remedy() -> None:
    found = observed(Plan(GANG, (), (), cost=40_000_000), ["q", "p"], TODO, NOW)
    assert isinstance(found, Waiting)
    assert "would use 0 nodes and buy 0 at $40.00 an hour; pool p, q is in Observe: set its spec.mode to Active" in found.message


def test_undecidable() -> None:
    told = "it can't be told whether this gang would fit: a; b"
    assert undecidable(Undecidable(("a", "b"), lasting=True), TODO, NOW, NOW) == Failed("Undecidable", told)
    passing = undecidable(Undecidable(("a", "b")), TODO, NOW, NOW)
    assert isinstance(passing, Waiting)
    assert (passing.reason, passing.message.startswith(told)) == ("GangIncomplete", True)


@pytest.mark.parametrize(
    ("cross", "labels", "expected"),
    [
        pytest.param("Forbid", {ZONE: "east"}, [ZONE, RACK], id="one-zone"),
        pytest.param("Forbid", {}, [None, RACK], id="zones-are-not-known"),
        pytest.param("Allow", {ZONE: "east"}, [None, RACK], id="may-cross"),
    ],
)
def test_cross_zone(cross: str, labels: dict[str, str], expected: list[str | None]) -> None:
    agreed = terms({}, lambda _: policy(crossZone={"policy": cross}))
    room = Room(Snapshot(0, nodes=(Node("n", "p", {}, {}, labels),)))
    assert [ps.required_topology for ps in bound(GANG, agreed, room.snapshot).pod_sets] == expected


def test_groups_that_prefer_a_level_share_the_zone_all_the_same() -> None:
    """Kueue's preferred level gives each pod set a group of its own."""
    alone = tuple(PodSet(name, 1, {"cpu": 1}, preferred_topology=RACK, topology_group=name) for name in ("a", "b"))
    snapshot = Snapshot(0, nodes=(Node("n", "p", {}, {}, {ZONE: "east"}),))
    found = bound(Gang("g", alone), terms({}, lambda _: policy()), snapshot)
    assert [(one.required_topology, one.topology_group) for one in found.pod_sets] == [(ZONE, ""), (ZONE, "")]


def test_a_level_that_the_policy_requires_takes_the_place_of_the_zone() -> None:
    snapshot = Snapshot(0, nodes=(Node("n", "p", {}, {}, {ZONE: "east"}),))
    assert bound(GANG, terms({}, lambda _: policy(topology={"required": RACK})), snapshot) == GANG


@pytest.mark.parametrize(
    ("own", "told", "remedy"),
    [
        pytest.param(None, f"one {ZONE} (the policy's crossZone.policy is Forbid);", "with crossZone.policy Allow", id="policy"),
        pytest.param(ZONE, f"one {ZONE};", f"without {ZONE} as a required level", id="its own"),
    ],
)
def test_a_zone_that_only_the_policy_asks_for_is_told_so(own: str | None, told: str, remedy: str) -> None:
    gang, room = Gang("g", (PodSet("w", 2, {"cpu": 1, "pods": 1}, required_topology=own),)), {"cpu": 1, "pods": 9}
    snapshot = Snapshot(0, nodes=tuple(Node(zone, "p", room, {}, {ZONE: zone}) for zone in ("east", "west")))
    agreed = terms({}, lambda _: policy())
    asked = bound(gang, agreed, snapshot)
    outcome = by_policy(plan(asked, snapshot, agreed.preferences), gang, asked)
    assert isinstance(outcome, Shortfall)
    assert f"needs 2 pods in {told} largest has room for 1" in outcome.message
    assert any(one.text.startswith(remedy) for one in outcome.relaxations)


@pytest.mark.parametrize(("nodes", "refused"), [pytest.param(1500, False, id="full"), pytest.param(1501, True, id="one-over")])
def test_a_plan_that_no_booking_can_hold_is_refused(nodes: int, refused: bool) -> None:
    """Its object would pass 512 KiB once each machine stands in its status."""
    there = Use(Node("n", "p", {}, {}), {"main": 1})
    found = too_large(Plan(GANG, (there,), (Purchase(SHUT, nodes - 1, {"main": 1}),), 0))
    assert (found is not None) is refused
    assert found is None or "takes 1501 nodes" in found.message


def test_a_full_booking_stays_under_its_size() -> None:
    stamp = "2026-09-01T10:00:00Z"
    machine = ours.BookedInstance(
        id="i-0123456789abcdef0",
        purchase="p0",
        state="Ready",
        node="ip-10-128-100-100.us-east-1.compute.internal",
        provider_id="aws:///us-east-1a/i-0123456789abcdef0",
        token="t" * 32,
        since=stamp,
        launched_at=stamp,
    )
    assert len(msgspec.json.encode(machine)) * MOST_NODES < 512 * 1024
