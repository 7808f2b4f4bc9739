"""One domain for each level that must be one, in all ways that can hold the pods by count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capacity.couplings import Bind
from capacity.fields import Field
from capacity.rules import ABSENT, UNKNOWN
from capacity.solver import Pattern
from capacity.supply import Cell

Mask = tuple[bool, ...]
Part = tuple[Cell, Mask]  # a cell, and the roles that may go there
Chosen = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A domain for each level in use. `inside` holds the parts in the domain chosen last, `others` all parts of roles that it
    leaves free; `room` is how many pods the chosen domains could hold: what stays larger stays whole for others.
    """

    inside: list[Part]
    others: list[Part]
    room: int
    domains: Chosen

    def parts(self) -> list[Part]:
        if not self.others:
            return self.inside
        known = {id(cell) for cell, _ in self.inside}
        return self.inside + [part for part in self.others if id(part[0]) not in known]


def _somewhere(demand: Pattern, field: Field, level: Bind) -> bool:
    """Whether any one domain of a level that the programme chooses could hold its pods by count."""
    index, wanted = field.keys.index(level.key), tuple(role in level.roles for role in range(len(demand)))
    if field.limits.lenient and any(cell.domains[index] == UNKNOWN for cell in field.cells):
        return True
    return any(_rooms(demand, inside, wanted) is not None for inside in _by_domain(everywhere(demand, field), index).values())


def everywhere(demand: Pattern, field: Field) -> list[Part]:
    """All cells, for all roles."""
    return [(cell, (True,) * len(demand)) for cell in field.cells]


def choices(demand: Pattern, field: Field) -> Iterator[Choice]:
    """Each choice of one domain for each step, without those that can't hold the pods by count alone."""
    start = everywhere(demand, field)
    steps = [(field.keys.index(bind.key), bind.key, tuple(i in bind.roles for i in range(len(demand)))) for bind in field.steps]
    levels = [rule for rule in field.limits.rules if isinstance(rule, Bind)]
    if _rooms(demand, start, (True,) * len(demand)) is not None and all(_somewhere(demand, field, rule) for rule in levels):
        yield from _choose(demand, Choice(start, [], 0, ()), steps)


def _choose(demand: Pattern, choice: Choice, steps: Sequence[tuple[int, str, Mask]]) -> Iterator[Choice]:
    if not steps:
        yield choice
        return
    (index, key, bound), *rest = steps
    parts = choice.parts()
    others = [(cell, mask) for cell, old in parts if any(mask := tuple(m and not b for m, b in zip(old, bound, strict=True)))]
    for value, inside in sorted(_by_domain(parts, index).items()):
        room = _rooms(demand, inside, bound)
        if room is not None:
            yield from _choose(demand, Choice(inside, others, choice.room + room, (*choice.domains, (key, value))), rest)


def _by_domain(parts: Sequence[Part], index: int) -> dict[str, list[Part]]:
    domains: dict[str, list[Part]] = {}
    for part in parts:
        value = part[0].domains[index]
        if value not in (ABSENT, UNKNOWN):
            domains.setdefault(value, []).append(part)
    return domains


def _rooms(demand: Pattern, parts: Sequence[Part], wanted: Mask) -> int | None:
    """Slots over all wanted roles, each as if it had the place to itself; None when one of them has too few even so."""
    total = 0
    for index, count in enumerate(demand):
        if wanted[index]:
            room = sum([cell.limit * max([p[index] for p in cell.patterns]) for cell, mask in parts if mask[index]])
            if room < count:
                return None
            total += room
    return total
