"""One domain for each level that must be one, in all ways that can hold the pods by count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from capacity.programme.couplings import Bind
from capacity.programme.fields import Field
from capacity.programme.rules import ABSENT, UNKNOWN
from capacity.programme.solver import Pattern
from capacity.programme.supply import Cell

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


def by_room(demand: Pattern, field: Field, levels: Sequence[Bind]) -> Iterator[Choice]:
    """Each choice of one domain for each of these levels, which bind one role each and all of them; the smallest come first."""
    options = [_rooms_of(demand, field, level) for level in levels]
    waiting = [_entry(options, (0,) * len(options))] if all(options) else []
    known = {places for _, _, places in waiting}
    while waiting:
        room, _, places = heappop(waiting)
        masks: dict[int, Part] = {}
        for cell, mask in (part for option, place in zip(options, places, strict=True) for part in option[place][2]):
            _, old = masks.get(id(cell), (cell, mask))
            masks[id(cell)] = cell, tuple([a or b for a, b in zip(old, mask, strict=True)])
        domains = tuple((level.key, option[place][1]) for level, option, place in zip(levels, options, places, strict=True))
        yield Choice(list(masks.values()), [], room, domains)
        for index, place in enumerate(places):
            following = (*places[:index], place + 1, *places[index + 1 :])
            if place + 1 < len(options[index]) and following not in known:
                known.add(following)
                heappush(waiting, _entry(options, following))


Option = tuple[int, str, list[Part]]
"""Room in a domain, its name, what is there for the roles of a level."""


def _rooms_of(demand: Pattern, field: Field, level: Bind) -> list[Option]:
    """The domains that can hold a level's pods by count, the smallest first."""
    wanted = tuple([role in level.roles for role in range(len(demand))])
    parts = [(cell, wanted) for cell in field.cells]
    found = _by_domain(parts, field.keys.index(level.key)).items()
    options = [(room, value, inside) for value, inside in found if (room := _rooms(demand, inside, wanted)) is not None]
    return sorted(options, key=lambda option: option[:2])


def _entry(options: Sequence[Sequence[Option]], places: tuple[int, ...]) -> tuple[int, tuple[str, ...], tuple[int, ...]]:
    chosen = [option[place] for option, place in zip(options, places, strict=True)]
    return sum(room for room, _, _ in chosen), tuple([value for _, value, _ in chosen]), places


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
