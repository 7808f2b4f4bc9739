from capacity.model import ZONE
from capacity.place import Placer, Unit, trim, units
from capacity.programme.supply import Member
from tests.capacity.make import RACK, node, offering

KEYS = (ZONE, RACK)


def members(prefix: str, count: int, zone: str, rack: str) -> list[Member]:
    return [Member(node(f"{prefix}{index}", labels={ZONE: zone, RACK: rack})) for index in range(count)]


def names(taken: list[Member]) -> list[str]:
    return [member.subject.name for member in taken for _ in range(member.limit)]


def test_the_smallest_domain_at_each_level() -> None:
    tree = members("a", 4, "z1", "r1") + members("b", 3, "z2", "r2") + members("c", 2, "z2", "r3")
    assert names(Placer(KEYS).take(tree, 4)) == ["a0", "a1", "a2", "a3"]
    assert names(Placer(KEYS).take(tree, 5)) == ["b0", "b1", "b2", "c0", "c1"]
    assert names(Placer(KEYS).take(tree, 2)) == ["a0", "a1"]


def test_a_domain_that_was_touched_goes_first() -> None:
    placer = Placer(KEYS)
    placer.take(members("a", 3, "z1", "r1"), 3)
    assert names(placer.take(members("b", 2, "z1", "r1") + members("c", 1, "z2", "r2"), 1)) == ["b0"]


def test_nodes_before_offerings_and_each_within_its_limit() -> None:
    places = [Member(offering("od", 3), 3), *members("n", 1, "a", "")]
    assert names(Placer(KEYS).take(places, 3)) == ["n0", "od", "od"]


def test_units_share_out_patterns() -> None:
    found = list(units([Member(offering("od", 3), 3)], [((1, 1), 1), ((0, 1), 2)]))
    assert [unit.pattern for unit in found] == [(1, 1), (0, 1), (0, 1)]


def test_trim_takes_marks_back_but_never_too_many() -> None:
    one = node("n")
    kept = trim([Unit(one, (1, 2)), Unit(one, (1, 2)), Unit(one, (0, 2))], (1, 3))
    assert sum(unit.pattern[0] for unit in kept) == 1
    assert sum(unit.pattern[1] for unit in kept) == 4
    assert trim([Unit(one, (2,)), Unit(one, (2,))], (2,)) == [Unit(one, (2,))]
