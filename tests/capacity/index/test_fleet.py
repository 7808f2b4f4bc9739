"""Columns that are kept up say what freshly made ones do; a snapshot whose stock no longer holds is read afresh."""

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.index.columns import Codes, Order
from capacity.index.fleet import Fleet, stock_of, stocked
from capacity.index.nodes import Nodes, at
from capacity.model import ZONE, CapacityType, Node, Running
from capacity.requirements import LabelSelector, PodTerm, Taint
from tests.capacity.make import GPU, RACK, node, offering, snapshot

COLUMNS = (("open", ""), ("ends", ""), ("spare", ""), ("free", GPU), ("free", "cpu"))
NAMES = st.text("ab-", min_size=1, max_size=6)


@st.composite
def nodes(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> Node:
    return node(
        draw(names),
        used=draw(st.integers(0, 8)),
        labels=draw(st.sampled_from([{}, {ZONE: "a"}, {ZONE: "b", RACK: "r"}])),
        taints=draw(st.sampled_from([(), (Taint("t", "NoSchedule"),)])),
        capacity_type=draw(st.sampled_from([None, CapacityType.RESERVED])),
        ends=draw(st.sampled_from([None, 7])),
        booked_by=draw(st.sampled_from([None, "b"])),
    )


def told(fleet: Fleet) -> dict[str, Any]:
    """All that the columns say, by node."""
    stock = fleet.stock()
    columns = [fleet.column(*column).tolist() for column in COLUMNS]
    labels = [[fleet.codes(key).values[code] for code in fleet.column("label", key).tolist()] for key in (ZONE, RACK)]
    tiers = [fleet.tiers()[code] for code in fleet.column("tier").tolist()]
    rows = zip(*columns, *labels, tiers, stock.open.tolist(), strict=True)
    return {one.name: row for one, row in zip(stock.nodes, rows, strict=True)}


@given(st.lists(nodes(), max_size=8), st.lists(st.tuples(st.booleans(), st.booleans(), nodes()), max_size=12))
@settings(max_examples=200, deadline=None)
def test_kept_up_as_if_made_anew(first: list[Node], changes: list[tuple[bool, bool, Node]]) -> None:
    there = {one.name: one for one in first}
    fleet = Fleet(there.values())
    told(fleet)  # makes the columns
    fleet.column("name")
    for gone, looked_at, one in changes:
        if gone:
            fleet.remove(one.name)
            there.pop(one.name, None)
        else:
            fleet.put(one)
            there[one.name] = one
        if looked_at:
            assert told(fleet) == told(Fleet(there.values()))
    assert told(fleet) == told(Fleet(there.values()))
    assert sorted(fleet.stock().nodes, key=lambda one: one.name) == [there[name] for name in sorted(there)]
    names = fleet.column("name")
    assert [fleet.node(row).name for row in names.argsort().tolist()] == sorted(there)
    assert [fleet.node(fleet.row(name)) for name in there] == list(there.values())


@given(st.lists(st.text("ab", max_size=12), min_size=1, max_size=60))
@settings(deadline=None)
def test_numbers_sort_as_texts_do(texts: list[str]) -> None:
    order = Order(texts[:2])
    for text in texts:
        order.add(text)
    assert sorted(set(texts), key=order.number) == sorted(set(texts))


def test_numbers_are_dealt_anew_where_none_is_left() -> None:
    order = Order(["a", "z"])
    fresh = [order.add("b" + "a" * (100 - length)) for length in range(100)]  # each between "a" and the one before
    texts = sorted(["a", "z", *("b" + "a" * (100 - length) for length in range(100))])
    assert not all(fresh)
    assert sorted(texts, key=order.number) == texts


def test_new_names_between_two_old_ones_keep_the_order() -> None:
    fleet = Fleet([node("a"), node("z")])
    fleet.column("name")
    for length in range(80):
        fleet.put(node("b" + "a" * (80 - length)))
    assert [fleet.node(row).name for row in fleet.column("name").argsort().tolist()] == sorted(
        one.name for one in fleet.stock().nodes
    )


def test_codes_sort_as_values_do_and_no_value_first() -> None:
    codes = Codes()
    assert [codes.code(value) for value in ("m", "c", None, "x", "")] == [1, 2, 0, 3, 4]
    order = codes.order
    assert sorted(range(5), key=lambda code: order[code]) == [0, 4, 2, 1, 3]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda fleet: fleet.put(node("n", used=3)), id="changed"),
        pytest.param(lambda fleet: fleet.put(node("new")), id="added"),
        pytest.param(lambda fleet: fleet.remove("n"), id="removed"),
    ],
)
def test_a_stock_of_a_changed_fleet_is_not_used(change: Any) -> None:
    fleet = Fleet([node("n"), node("m")])
    stock = fleet.stock()
    here = replace(snapshot(), nodes=stock.nodes, stock=stock)
    assert stock_of(here) is stock
    change(fleet)
    assert stock_of(here) is not stock
    assert stock_of(here).nodes is here.nodes


def test_a_stock_of_other_nodes_is_not_used() -> None:
    here = stocked(snapshot(node("n")))
    assert here.stock is not None
    assert stocked(here) is here
    assert stock_of(replace(here, nodes=(node("n"),))) is not here.stock


def test_what_does_not_change_leaves_the_stock_as_it_is() -> None:
    one = node("n")
    fleet = Fleet([one])
    stock = fleet.stock()
    fleet.put(one)
    fleet.remove("other")
    assert stock.holds(stock.nodes)


def test_closed_nodes_are_booked_in_the_stock_alone() -> None:
    fleet = Fleet([node("n"), node("m")])
    stock = fleet.stock()
    booked = stock.closed(["m"], "bk")
    assert [one.booked_by for one in booked.nodes] == [None, "bk"]
    assert booked.open.tolist() == [True, False]
    assert stock.open.tolist() == [True, True]
    assert booked.holds(booked.nodes)
    assert not booked.holds(stock.nodes)


def test_a_fleet_remembers_what_changed_for_a_while() -> None:
    fleet = Fleet([node("n")])
    start = fleet.version
    fleet.put(node("n", used=1))
    fleet.put(node("m"))
    assert fleet.changed(start) == [0, 1]
    for turn in range(5000):
        fleet.put(node("n", used=turn % 8))
    assert fleet.changed(start) is None
    assert fleet.version > start + 5000


def test_a_column_not_asked_for_through_more_changes_than_are_remembered() -> None:
    fleet = Fleet([node("n"), node("m")])
    assert fleet.column("free", GPU).tolist() == [8, 8]
    for turn in range(5000):
        fleet.put(node("n", used=turn % 8))
    fleet.remove("m")
    assert fleet.column("free", GPU).tolist() == [1]


def test_what_is_gone_is_forgotten_between_plans() -> None:
    """Codes of names, taints and bookings that were there once; what is for sale still has those of the others."""
    fleet, offers = Fleet([node("n"), node("m", labels={RACK: "a"})]), (offering("o", 1, domain={RACK: "a"}),)
    for number in range(5000):
        fleet.put(node("n", labels={RACK: f"r{number}"}, taints=(Taint(f"t{number}", "NoSchedule"),), booked_by=f"b{number}"))
        if number % 100 == 0:
            fleet.stock()
        codes = [fleet.column("label", RACK).tolist(), fleet.column("taints").tolist(), fleet.column("standing").tolist()]
        assert all(one != other for one, other in codes)
        sold = fleet.catalogues.of(offers, (RACK,)).places(RACK, fleet.codes(RACK)).tolist()
        assert [fleet.codes(RACK).values[code] for code in (*codes[0], *sold)] == [f"r{number}", "a", "a"]
    assert max(map(max, codes)) < 2500


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    fleet, term = Fleet([node("n")]), PodTerm(RACK, LabelSelector(()), None)
    size = (("pods", 1),)
    fleet.usual()
    before = sys.getrefcount(term)
    fleet.put(node("n", pods=(Running("", {}, apart=(term, term), requests=dict(size)), Running("", {}, apart=(term,)))))
    assert (fleet.terms(), fleet.usual()) == ([term], ((5, size),))
    fleet.put(node("n"))
    assert (fleet.terms(), fleet.usual()) == ([], ())
    assert sys.getrefcount(term) == before


def test_a_stock_of_no_nodes_holds() -> None:
    here = stocked(snapshot(offering("o", 1)))
    assert stocked(here) is here


def test_whoever_looks_at_the_nodes_keeps_them_as_they_were() -> None:
    fleet = Fleet([node("n"), node("m")])
    stock = fleet.stock()
    booked = stock.closed(["n"], "bk")
    fleet.put(node("n", used=5))
    fleet.remove("m")
    assert stock.nodes == (node("n"), node("m"))
    assert booked.nodes == (node("n", booked_by="bk"), node("m"))
    assert fleet.stock().nodes == (node("n", used=5),)


@given(st.lists(nodes(), min_size=1, max_size=6), st.lists(st.tuples(st.booleans(), st.booleans(), nodes()), max_size=12))
@settings(max_examples=200, deadline=None)
def test_every_stock_shows_the_nodes_of_its_time(first: list[Node], changes: list[tuple[bool, bool, Node]]) -> None:
    fleet = Fleet([*{one.name: one for one in first}.values()])
    taken = []
    for gone, asked, one in changes:
        if asked:
            stock = fleet.stock()
            booked = stock.closed([stock.nodes[-1].name], "bk") if len(fleet) else stock
            taken += [(each.nodes, tuple(each.nodes)) for each in (stock, booked)]
        if gone:
            fleet.remove(one.name)
        else:
            fleet.put(one)
    for nodes_, then in taken:
        assert nodes_ == then
        assert [nodes_[place] for place in range(-len(then), len(then))] == [*then, *then]
        assert at(nodes_, range(len(then))) == list(then)


def test_nodes_read_as_a_tuple_does() -> None:
    plain = tuple(node(name) for name in "abc")
    over = Nodes(plain).changed({1: node("x")})
    assert len(over) == 3
    assert [over[0], over[1], over[-1], over[-2]] == [plain[0], node("x"), plain[2], node("x")]
    assert over[1:] == (node("x"), plain[2])
    assert list(over) == over.at([0, 1, 2]) == at((plain[0], node("x"), plain[2]), [0, 1, 2])
    assert over == (plain[0], node("x"), plain[2])
    assert over != plain
    assert repr(over) == repr((plain[0], node("x"), plain[2]))
