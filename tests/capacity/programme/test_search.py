"""Levels of several pod sets: chosen one by one, or left to the programme where there are too many to look at."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity.model import ZONE, Gang, Snapshot
from capacity.programme import fields
from capacity.programme.question import question
from capacity.programme.search import find
from tests.capacity.make import ANY, RACK, gang, node, offering, pods, snapshot

ITEM = st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(0, 3), st.integers(1, 3))
COUNTS = st.tuples(st.integers(1, 4), st.integers(1, 4))


def there(items: list[tuple[int, int, int, int]]) -> Snapshot:
    """Nodes where the price is 0, else offerings; each in one of four racks."""
    racks = [f"r{rack}" for rack, *_ in items]
    return snapshot(
        *(
            offering(f"o{place}", available, price, gpu=gpu, domain={ZONE: "a", RACK: racks[place]})
            if price
            else node(f"n{place}", gpu, labels={ZONE: "a", RACK: racks[place]})
            for place, (_, gpu, price, available) in enumerate(items)
        )
    )


def apart(counts: tuple[int, int], *, rivals: bool = True) -> Gang:
    """Two pod sets, each in one rack, which may be the same; unless they are `rivals`, neither takes what the other needs."""
    worker = pods("worker", counts[0], gpu=3, required_topology=RACK, topology_group="worker")
    size = {"gpu": 2} if rivals else {"gpu": 0, "cpu": 96_000}
    return gang(worker, pods("driver", counts[1], **size, required_topology=RACK, topology_group="driver"))


@given(st.lists(ITEM, min_size=1, max_size=7), COUNTS, st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_programme_chooses_as_well(items: list[tuple[int, int, int, int]], counts: tuple[int, int], rivals: bool) -> None:
    wanted = apart(counts, rivals=rivals)
    one_by_one = find(question(wanted, there(items), ANY))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "MAX_CHOICES", 1)
        chosen = find(question(wanted, there(items), ANY))
    assert (one_by_one and one_by_one.cost) == (chosen and chosen.cost)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), min_size=1, max_size=8), COUNTS)
@settings(max_examples=100, deadline=None)
def test_what_is_free_is_taken_as_if_chosen_one_by_one(nodes: list[tuple[int, int]], counts: tuple[int, int]) -> None:
    asked = question(apart(counts), there([(rack, gpu, 0, 1) for rack, gpu in nodes]), ANY)
    one_by_one = find(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "MAX_CHOICES", 1)
        assert find(asked) == one_by_one


def test_the_programme_takes_nodes_in_other_domains_for_the_other_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers need all nodes of the zone, workers both of one rack."""
    monkeypatch.setattr(fields, "MAX_CHOICES", 1)
    wanted = gang(pods("worker", 2, required_topology=RACK), pods("driver", 4, gpu=0, cpu=192_000, required_topology=ZONE))
    found = find(question(wanted, there([(0, 8, 1, 2), (1, 8, 1, 2)]), ANY))
    assert found is not None
    assert [(one.count, one.pods) for one in found.purchases] == [(2, {"worker": 1, "driver": 1}), (2, {"driver": 1})]


def test_no_programme_chooses_among_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(*_: object) -> None:
        raise AssertionError("left to the programme")

    monkeypatch.setattr(fields, "MAX_CHOICES", 1)
    monkeypatch.setattr("capacity.programme.solver.tie", chosen)
    found = find(question(apart((2, 4)), there([(0, 8, 0, 1), (1, 6, 0, 1), (2, 8, 0, 1), (2, 3, 0, 1)]), ANY))
    assert found is not None
    assert [use.node.name for use in found.uses] == ["n0", "n1"]  # two pods of 3 and four of 2; the rack of n2 has room for more


def test_the_smallest_racks_are_not_the_best_where_they_are_in_two_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of each of the two smallest, or both nodes of the third."""
    monkeypatch.setattr(fields, "MAX_CHOICES", 1)
    places = [("n0", "a", "r0"), ("n1", "a", "r0"), ("n2", "b", "r1"), ("n3", "c", "r2")]
    nodes = [node(name, 3, labels={ZONE: zone, RACK: rack}) for name, zone, rack in places]

    def used(cross_zone_cost: int) -> list[str]:
        found = find(question(apart((1, 1)), snapshot(*nodes), replace(ANY, cross_zone_cost=cross_zone_cost)))
        assert found is not None
        return [use.node.name for use in found.uses]

    assert used(0) == ["n2", "n3"]
    assert used(1) == ["n0", "n1"]
