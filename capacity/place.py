"""From counts of alike nodes to nodes and purchases by name, doing the least damage to what is left.

Going down the tree, all that is needed of a kind goes into the smallest domain that holds it, one already touched first;
where none does, the largest is taken whole and the rest looks again. So the fewest domains are touched and the large free
ones stay whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from capacity.fragmentation import Usual, spare
from capacity.model import Node, Offering
from capacity.programme.solver import Pattern
from capacity.programme.supply import Member
from capacity.topology import path

Path = tuple[str, ...]
Slot = tuple[Member, tuple[int, ...]]


@dataclass(slots=True)
class Unit:
    """One node to be: where it comes from and what it is to hold."""

    subject: Node | Offering
    pattern: Pattern


@dataclass(slots=True)
class Placer:
    """Hands out members; remembers which domains it has touched. `usual` are the sizes of pods that others may still bring."""

    topology_keys: tuple[str, ...]
    touched: set[Path] = field(default_factory=set)
    usual: Usual = ()

    def take(self, members: Sequence[Member], count: int) -> list[Member]:
        """`count` nodes of these members (sum of limits is at least that), as members with the limits that are taken."""
        placed = [(self._path(member), member) for member in members]
        taken = list(self._descend(placed, count, 0))
        for where, _ in taken:
            self.touched.update(where[:level] for level in range(1, len(where) + 1))
        return [member for _, member in taken]

    def _path(self, member: Member) -> Path:
        subject = member.subject
        labels = subject.labels if isinstance(subject, Node) else {**subject.shape.labels, **subject.domain}
        return path(labels, self.topology_keys)

    def _descend(self, placed: list[tuple[Path, Member]], count: int, level: int) -> Iterator[tuple[Path, Member]]:
        if level == len(self.topology_keys):
            yield from _first(placed, count, self.usual)
            return
        domains: dict[Path, list[tuple[Path, Member]]] = {}
        for where, member in placed:
            domains.setdefault(where[: level + 1], []).append((where, member))
        sizes = {domain: sum(member.limit for _, member in inside) for domain, inside in domains.items()}
        for domain, taken in self._shares(sizes, count):
            yield from self._descend(domains[domain], taken, level + 1)

    def _shares(self, sizes: dict[Path, int], count: int) -> Iterator[tuple[Path, int]]:
        """How many to take of which domains."""
        left = sorted(sizes, key=lambda domain: (-sizes[domain], domain))
        for place, domain in enumerate(left):
            if sizes[domain] >= count:
                holding = [one for one in left[place:] if sizes[one] >= count]
                yield min(holding, key=lambda one: (one not in self.touched, sizes[one], one)), count
                return
            yield domain, sizes[domain]
            count -= sizes[domain]


def trim(units: list[Unit], demand: Sequence[int], tied: frozenset[int] = frozenset()) -> list[Unit]:
    """Take back what is more than needed: a node is not marked for a pod set that has room enough elsewhere.

    Each pattern stays safe, since a part of a safe mix is safe. Nodes that are left with nothing are not taken at all. Roles that
    are `tied` to domains stay as they are.
    """
    for index, wanted in enumerate(demand):
        if index in tied:
            continue
        surplus = sum(unit.pattern[index] for unit in units) - wanted
        for unit in sorted(units, key=lambda unit: -sum(1 for count in unit.pattern if count)):
            count = unit.pattern[index]
            if 0 < count <= surplus:
                unit.pattern = (*unit.pattern[:index], 0, *unit.pattern[index + 1 :])
                surplus -= count
    return [unit for unit in units if any(unit.pattern)]


def units(members: Sequence[Member], patterns: Sequence[tuple[Pattern, int]]) -> Iterator[Unit]:
    """Give each node of `members` one pattern, as often as each is wanted; both come to the same number."""
    subjects = [member.subject for member in members for _ in range(member.limit)]
    wanted = [pattern for pattern, count in patterns for _ in range(count)]
    yield from (Unit(subject, pattern) for subject, pattern in zip(subjects, wanted, strict=True))


def _first(placed: list[tuple[Path, Member]], count: int, usual: Usual) -> Iterator[tuple[Path, Member]]:
    for where, member in sorted(placed, key=lambda one: _order(one[1], usual)):
        taken = min(count, member.limit)
        if taken:
            yield where, Member(member.subject, taken)
            count -= taken


def _order(member: Member, usual: Usual) -> tuple[int, int, str]:
    """Nodes before offerings; of alike nodes the one of which the least is lost, so that emptier ones stay whole."""
    subject = member.subject
    if isinstance(subject, Offering):
        return 1, 0, subject.name
    return 0, spare(usual, subject), subject.name
