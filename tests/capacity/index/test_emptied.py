"""An emptied snapshot is a view that tells what copies of all its records would."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.index.emptied import emptied
from capacity.index.fleet import Fleet, stock_of
from capacity.model import ZONE, Budget, Bystander, Gang, Node, Running
from capacity.plan import plan
from capacity.requirements import HostPort, Taint
from capacity.why.survey import survey
from tests.capacity.make import ANY, GPU, gang, node, offering, pods, snapshot
from tests.capacity.why.test_survey import PORT, nodes

FAULT, TAINT = Taint("node.kubernetes.io/unreachable", "NoExecute"), Taint("t", "NoSchedule")
WANTED = [gang(pods("w", 3)), gang(pods("w", 2, ports=PORT, required_topology=ZONE)), gang(pods("w", 1), pods("l", 2, gpu=2))]


def by_hand(one: Node) -> Node:
    free = replace(one, requested={}, pods=(), booked_by=None, ready=True, unschedulable=False)
    return replace(free, taints=tuple(taint for taint in one.taints if "node.kubernetes.io" not in taint.key))


@given(st.tuples(*[nodes(f"n{number}") for number in range(4)]), st.sampled_from(WANTED))
@settings(max_examples=100, deadline=None)
def test_a_view_is_as_good_as_copies(found: tuple[Node, ...], wanted: Gang) -> None:
    view, copies = emptied(snapshot(*found)), snapshot(*map(by_hand, found))
    assert tuple(view.nodes) == tuple(copies.nodes)
    assert plan(wanted, view, ANY) == plan(wanted, copies, ANY)
    assert survey(wanted, view, ANY).usable == survey(wanted, copies, ANY).usable


def test_nothing_is_copied_before_it_is_looked_at() -> None:
    fleet = Fleet([node(f"n{number}", used=8) for number in range(100)])
    stock = fleet.stock()
    view = emptied(replace(snapshot(), nodes=stock.nodes, stock=stock))
    assert stock_of(view) is view.stock
    assert stock_of(view).fleet.column("free", GPU).tolist() == [8] * 100
    assert view.nodes[7] is view.nodes[7] == node("n7", requested={})


def test_faults_go_and_taints_stay() -> None:
    view = emptied(snapshot(node("n", taints=(FAULT, TAINT)), node("m", taints=(TAINT,)), node("o", taints=(FAULT,))))
    assert [one.taints for one in view.nodes] == [(TAINT,), (TAINT,), ()]
    first, second, third = stock_of(view).fleet.column("taints").tolist()
    assert first == second != third


def test_all_else_is_free_as_well() -> None:
    running = Running("", {}, (HostPort(80),))
    view = emptied(
        snapshot(
            replace(offering("o", 1, total=3), starts=9),
            offering("p", 2),
            budgets=(Budget("b", {"o": 1}, 0, 5),),
            bystanders=(Bystander("x", {}, (running,)),),
        )
    )
    assert [(one.available, one.starts) for one in view.offerings] == [(3, None), (2, None)]
    assert view.budgets[0].left == 5
    assert view.bystanders[0].pods == ()


def test_what_is_free_already_stays_the_very_same() -> None:
    places = snapshot(offering("o", 1))
    assert emptied(places) is places
