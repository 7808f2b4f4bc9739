"""What is told as lost where nothing is replaced, and what follows."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kube.ours import BookedInstance, BookingStatus
from kube.times import stamp
from provisioner.repairing.losses import noted, overdue
from provisioner.steps import Observed, Owner, SeenNode, View
from tests.provisioner.world import START, booking, purchase

AT = stamp(START)
N1, N2 = (SeenNode(f"n{i}", f"sim://i{i}", touched=True, marked=True) for i in (1, 2))
SILENT = replace(N1, ready=False)


def machine(number: int, state: str = "Ready", **more: str) -> BookedInstance:
    given = {"since": AT, "launched_at": AT, "joined_at": AT, "node": f"n{number}", **more}
    return BookedInstance(id=f"i{number}", purchase="od", state=state, provider_id=f"sim://i{number}", token="t1", **given)  # type: ignore[arg-type]


UNREADY = machine(1, "Joined", verdict="Waiting", message="not Ready")
VANISHED = machine(1, "Joined", verdict="Waiting", message="its node is gone")


def view(first: BookedInstance, after: float, node: SeenNode | None, policy: str, used: bool) -> View:
    """Two machines of which the first is in question, so many seconds after the start."""
    machines = (first, machine(2, verdict="Sound"))
    told = BookingStatus(phase="Provisioned", provisioned_at=AT, first_pod_at=AT if used else None, instances=machines)
    nodes = {each.name: each for each in (node, N2) if each}
    seen = Observed(owner=Owner.ADMITTED, instances={}, nodes=nodes, readiness={"p": 1200}, on_node_loss=policy)
    return View(booking(purchases=(purchase("od", 2),), status=told), seen, START + timedelta(seconds=after))


@pytest.mark.parametrize("used", [True, False], ids=["after the first pod", "before it"])
@pytest.mark.parametrize(
    ("first", "after", "node", "words"),
    [
        pytest.param(UNREADY, 299, SILENT, "", id="not Ready for a while"),
        pytest.param(UNREADY, 300, SILENT, "1 of 2 h100 are lost: n1 not Ready for 5m", id="not Ready for good"),
        pytest.param(VANISHED, 119, None, "", id="its node may come back"),
        pytest.param(VANISHED, 120, None, "1 of 2 h100 are lost: n1 its node is gone for 2m", id="its node is gone"),
        pytest.param(machine(1, "Joined", message="cordoned"), 9999, N1, "", id="what runs is not judged"),
        pytest.param(machine(1, "Gone"), 0, None, "1 of 2 h100 are lost", id="the machine is gone"),
        pytest.param(machine(1, verdict="Sound"), 9999, N1, "", id="nothing"),
    ],
)
def test_a_machine_that_nobody_replaces_is_lost_when_no_pod_can_run_there(
    first: BookedInstance, after: float, node: SeenNode | None, words: str, used: bool
) -> None:
    left = noted(view(first, after, node, "Leave", used))
    assert [(each.type, each.status, each.message) for each in left.conditions] == (
        [("NodeLost", "True", words)] if words else []
    )
    assert left.reason == ""
    revoked = noted(view(first, after, node, "Revoke", used))
    assert (revoked.reason, revoked.message) == (("CapacityRevoked", words) if words else ("", ""))


def test_where_machines_are_replaced_their_own_rules_give_them_up() -> None:
    """Though nobody replaces any while it isn't known who wants them."""
    here = view(UNREADY, 300, SILENT, "Replace", False)
    assert noted(replace(here, seen=replace(here.seen, owner=Owner.UNKNOWN))).conditions == ()


def test_what_was_ordered_before_the_gang_was_admitted_is_not_lost_after() -> None:
    """A machine went, Kueue let the pods go while the one in its place was on its way, and the policy says Revoke."""
    gone = view(machine(1, "Gone"), 0, None, "Revoke", False)
    waits = replace(gone, seen=replace(gone.seen, owner=Owner.WAITING))
    lost = noted(waits)
    assert ([(each.status, each.message) for each in lost.conditions], lost.reason) == ([("True", "1 of 2 h100 are lost")], "")

    fresh = machine(3, "Launched", launched_at=stamp(START + timedelta(seconds=9)))
    coming = noted(gone.having(structs.replace(lost, instances=(*lost.instances, fresh))))

    words = "1 of 2 nodes are still to come in place of lost ones"
    assert ([(each.status, each.message) for each in coming.conditions], coming.reason) == ([("True", words)], "")


@pytest.mark.parametrize("policy", ["Leave", "Revoke", "Replace"])
def test_machines_of_a_gang_that_waits_are_given_up_by_the_rules_of_those_that_are_replaced(policy: str) -> None:
    here = view(UNREADY, 300, SILENT, policy, False)
    assert noted(replace(here, seen=replace(here.seen, owner=Owner.WAITING))).conditions == ()


def test_one_that_comes_back_is_not_lost_any_more() -> None:
    lost = noted(view(UNREADY, 300, SILENT, "Leave", True))
    back = view(machine(1, verdict="Sound"), 400, N1, "Leave", True)
    found = noted(back.having(structs.replace(back.status, conditions=lost.conditions)))
    assert [(each.status, each.message) for each in found.conditions] == [("False", "all nodes are there")]


def test_nodes_that_others_brought_are_given_back_late_as_well() -> None:
    told = BookingStatus(phase="Releasing", phase_since=AT)
    late = View(booking(nodes=("n1",), status=told), Observed(instances={}, nodes={"n1": N1}), START + timedelta(seconds=1800))
    (found,) = overdue(late).conditions
    assert (found.type, found.status, found.message) == ("ReleaseOverdue", "True", "1 machines are not given back after 30m: n1")
    assert overdue(replace(late, seen=Observed(instances={}))).conditions == ()
