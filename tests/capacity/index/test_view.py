"""A stock with some nodes changed tells what one made of the changed nodes would."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.common.quick import answer
from capacity.index.fleet import Fleet
from capacity.index.view import changed
from capacity.model import ZONE, Holder, Node, Running
from capacity.plan import plan
from capacity.why.loosen import without
from tests.capacity.make import ANY, GPU, RACK, gang, node, pods, snapshot
from tests.capacity.why.test_survey import nodes

SIZE = 5
COLUMNS = (("open", ""), ("ends", ""), ("free", GPU), ("free", "cpu"), ("whole", GPU))
FEW = st.tuples(*[nodes(f"n{number}") for number in range(SIZE)])


def told(fleet: Fleet) -> list[tuple[object, ...]]:
    labels = [[fleet.codes(key).values[code] for code in fleet.column("label", key).tolist()] for key in (ZONE, RACK)]
    tiers = [fleet.tiers()[code] for code in fleet.column("tier").tolist()]
    rows = zip(*[fleet.column(*column).tolist() for column in COLUMNS], *labels, tiers, strict=True)
    return [*rows, len(fleet), *map(fleet.node, range(len(fleet)))]


@given(FEW, FEW, st.sets(st.integers(0, SIZE - 1)))
@settings(max_examples=100, deadline=None)
def test_some_nodes_are_others(first: tuple[Node, ...], second: tuple[Node, ...], rows: set[int]) -> None:
    over = {row: replace(second[row], capacity_type=first[row].capacity_type) for row in sorted(rows)}
    wanted = tuple(over.get(row, one) for row, one in enumerate(first))
    known = Fleet(first)
    before = told(known)
    found = changed(known.stock(), over)
    assert told(found.fleet) == told(Fleet(wanted))
    assert (tuple(found.nodes), found.open.tolist()) == (wanted, Fleet(wanted).stock().open.tolist())
    assert told(known) == before


def test_the_nodes_of_one_booking_are_free_again() -> None:
    held = [node(f"{name}{number}", used=8, booked_by=name, pods=(Running("", {}),)) for name in "ab" for number in range(3)]
    places = snapshot(*held, holders={"a": Holder("a"), "b": Holder("b")})
    question = without((gang(pods("w", 3)), places, ANY), "b")
    freed = [replace(one, requested={}, booked_by=None, pods=()) if one.booked_by == "b" else one for one in held]
    assert [*question[1].nodes] == freed
    assert plan(*question) == plan(question[0], snapshot(*freed, holders=places.holders), ANY)
    settled = answer(*without((gang(pods("w", 4)), places, ANY), "b"))
    assert settled is not None
    assert settled.plan is None
