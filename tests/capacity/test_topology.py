from dataclasses import replace

import pytest

from capacity.model import HOSTNAME, ZONE, PodSet, Preferences
from capacity.topology import Levels, path, ways, wider
from tests.capacity.make import ANY, RACK, pods

KEYS = (ZONE, "block", RACK)


def keys(pod_sets: list[PodSet], preferences: Preferences = ANY) -> list[tuple[tuple[tuple[str, ...], ...], int]]:
    """For each way, the keys that each pod set is bound by, the widest first."""
    return [
        (tuple(tuple(key for key in KEYS if bound(one, key, index)) for index in range(len(pod_sets))), one.broken)
        for one in ways(pod_sets, KEYS, preferences)
    ]


def bound(levels: Levels, key: str, index: int) -> bool:
    return any(bind.key == key and index in bind.roles for bind in levels.binds)


def test_pod_sets_of_other_groups_are_bound_apart() -> None:
    apart = [pods("a", 1, required_topology=RACK, topology_group="x"), pods("b", 1, required_topology=RACK, topology_group="y")]
    (one,) = ways(apart, KEYS, ANY)
    assert [bind.roles for bind in one.binds] == [{0}, {1}]
    (one,) = ways([replace(each, topology_group="") for each in apart], KEYS, ANY)
    assert [bind.roles for bind in one.binds] == [{0, 1}]


def test_no_wish_is_one_way() -> None:
    assert keys([pods("w", 1)]) == [(((),), 0)]


def test_required_stays_whatever_is_preferred() -> None:
    assert keys([pods("w", 1, required_topology=ZONE, preferred_topology=RACK)]) == [
        (((ZONE, RACK),), 0),
        (((ZONE, "block"),), 1),
        (((ZONE,),), 2),
        (((ZONE,),), 3),
    ]


def test_fewest_broken_levels_come_first_over_all_pod_sets() -> None:
    found = keys([pods("a", 1, preferred_topology="block"), pods("b", 1, preferred_topology=RACK)])
    assert [broken for _, broken in found] == sorted(broken for _, broken in found)
    assert found[0] == ((("block",), (RACK,)), 0)
    assert found[-1] == (((), ()), 5)


def test_policy_wishes_hold_for_pod_sets_without_their_own() -> None:
    policy = Preferences(required_topology=ZONE, preferred_topology="block")
    assert keys([pods("a", 1), pods("b", 1, required_topology=RACK)], policy)[0] == (((ZONE, "block"), ("block", RACK)), 0)


@pytest.mark.parametrize(
    ("key", "expected"),
    [(RACK, "block"), ("block", ZONE), (ZONE, None), (HOSTNAME, RACK), ("other", None)],
)
def test_wider(key: str, expected: str | None) -> None:
    assert wider(key, KEYS) == expected


def test_path() -> None:
    assert path({ZONE: "a", RACK: "r"}, KEYS) == ("a", "", "r")
