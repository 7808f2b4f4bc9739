"""What the nodes that are there have for a gang: by columns, so that those alike to it are judged once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from capacity.fit import barred, host
from capacity.index.alike import alike
from capacity.index.columns import Mask, Vector
from capacity.index.nodes import at
from capacity.model import HOSTNAME, Constraint, Node
from capacity.why.look import Look, constraint
from capacity.why.lots import Lot, Told, Verdict, Where, usable
from capacity.why.shortages import Shortages


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes alike in all but room. `shut` tells what keeps any gang off, `fixed` for each pod set what keeps it off whatever the
    room, `near` what running pods do where there is room.
    """

    subject: Node
    where: Where
    shut: str
    fixed: tuple[Told, ...]
    near: tuple[str, ...]


def there(look: Look) -> tuple[list[Lot], list[str]]:
    """The lots of all nodes, and the names of those on which a pod of some pod set goes."""
    codes, firsts = alike(_columns(look), len(look.stock.nodes))
    kinds = [_kind(look, node) for node in at(look.stock.nodes, firsts.tolist())]
    rooms = [Shortages(pod_set, look.stock) for pod_set in look.gang.pod_sets]
    for index, each in enumerate(rooms):
        each.keep(np.array([not kind.fixed[index][0] for kind in kinds], np.bool_)[codes])
    members, firsts = alike([codes, *(part for each in rooms for part in (each.whole, each.size, each.short))], len(codes))
    lots = _lots(look, [kinds[code] for code in codes[firsts].tolist()], rooms, members, firsts)
    goes: Mask = np.array([lot.usable for lot in lots], np.bool_)[members]
    return lots, [node.name for node in at(look.stock.nodes, goes.nonzero()[0].tolist())]


def _columns(look: Look) -> Iterator[Vector]:
    """All but room that the nodes of one kind have in common."""
    fleet, rows = look.stock.fleet, np.arange(len(look.stock.nodes))
    yield fleet.column("standing")
    yield fleet.column("taints")
    yield _since(look)
    for key in look.labels:
        codes = fleet.column("label", key)
        yield np.where(codes, codes, -1 - rows) if key == HOSTNAME and key in look.keys else codes
    if look.named:
        yield rows


def _since(look: Look) -> Vector:
    """A number for who has booked each node since the columns were read, 0 for nobody."""
    found = np.zeros(len(look.stock.nodes), np.int64)
    rows = (look.stock.fleet.column("open") > look.stock.open).nonzero()[0]
    known: dict[str | None, int] = {}
    found[rows] = [known.setdefault(node.booked_by, len(known) + 1) for node in at(look.stock.nodes, rows.tolist())]
    return found


def _kind(look: Look, node: Node) -> _Kind:
    where = {key: node.labels.get(key, node.name if key == HOSTNAME else None) for key in look.keys}
    now, each = host(node), range(len(look.gang.pod_sets))
    bar = barred(node, look.gang, look.snapshot.now, look.preferences)
    shut = look.timely(node, bar) if bar else ""
    fixed = tuple((constraint(bar), shut) if bar else look.kept_off(index, now, where) for index in each)
    return _Kind(node, where, shut, fixed, tuple(look.neighbours.refusal(index, now.labels) for index in each))


def _lots(look: Look, kinds: Sequence[_Kind], rooms: Sequence[Shortages], members: Vector, firsts: Vector) -> list[Lot]:
    """One lot for each class of `members`, of which `firsts` are the first rows and `kinds` the kinds."""
    lots = [_lot(kind, rooms, row) for kind, row in zip(kinds, firsts.tolist(), strict=True)]
    parts, firsts = alike([members, *(each.left for each in rooms)], len(members))
    lacks = [zip(each.short[firsts].tolist(), each.left[firsts].tolist(), strict=True) for each in rooms]
    counts = np.bincount(parts, minlength=len(firsts)).tolist()
    for place, count, *each in zip(members[firsts].tolist(), counts, *lacks, strict=True):
        told = [_told(kinds[place], index, rooms[index], *lack)[1] for index, lack in enumerate(each)]
        lots[place].add(told, kinds[place].shut or look.why(told), count)
    return lots


def _lot(kind: _Kind, rooms: Sequence[Shortages], row: int) -> Lot:
    bars = (_told(kind, index, each, int(each.short[row]), 0)[0] for index, each in enumerate(rooms))
    verdicts = tuple(Verdict(bar, int(each.whole[row]), int(each.size[row])) for bar, each in zip(bars, rooms, strict=True))
    return Lot(kind.subject, kind.where, verdicts, usable(verdicts), 0, tuple({} for _ in rooms), {})


def _told(kind: _Kind, index: int, room: Shortages, short: int, left: int) -> Told:
    if kind.fixed[index][0]:
        return kind.fixed[index]
    if short:
        return room.told(short, left)
    return (Constraint.RUNNING_PODS, kind.near[index]) if kind.near[index] else (None, "")
