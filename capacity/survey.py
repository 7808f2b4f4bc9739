"""What each node and offering has for a gang, and the first thing that keeps the gang off: by columns, alike ones judged once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from capacity.alike import alike
from capacity.columns import MOST, Vector
from capacity.emptied import FAULTS
from capacity.fit import Host, barred, closed, host, is_port, lacking, needs, new_host, refusal, room, slots
from capacity.fleet import Stock, stock_of
from capacity.instants import clock
from capacity.lens import Lens
from capacity.model import HOSTNAME, Constraint, Gang, Node, Offering, PodSet, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.nodes import at
from capacity.topology import required_key

_KINDS = (
    ("booked", Constraint.BOOKED),
    ("not ready", Constraint.NOT_READY),
    ("cordoned", Constraint.CORDONED),
    ("the policy", Constraint.CAPACITY_ORDER),
    ("starts", Constraint.NOT_STARTED),
    ("ends", Constraint.ENDS_TOO_SOON),
    *((f"taint {prefix}", Constraint.NOT_READY) for prefix in FAULTS),
    ("taint", Constraint.TAINT),
    ("node selector", Constraint.NODE_SELECTOR),
    ("node affinity", Constraint.NODE_AFFINITY),
    ("a volume", Constraint.VOLUME),
    ("host port", Constraint.PORT),
)


Told = tuple[Constraint | None, str]
Where = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What keeps the pods of one pod set off a node: the first constraint that fails, None when none does.

    `whole` of them fit on the node by room if it were empty, `size` with what runs there now.
    """

    constraint: Constraint | None
    whole: int
    size: int

    @property
    def pods(self) -> int:
        return 0 if self.constraint else self.size


@dataclass(slots=True)
class Lot:
    """`count` nodes, there or to be had from one offering, that are alike to the gang but for the words; `subject` is one.

    `verdicts` has one entry for each pod set, and so has `details`: of each text why its pods don't go there the number of nodes.
    `whys` has the same for the gang, "" where some pod does go. `where` holds the domain of each key in play, None where it isn't
    known.
    """

    subject: Node | Offering
    where: Where
    verdicts: tuple[Verdict, ...]
    details: tuple[dict[str, int], ...]
    count: int = 0
    whys: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether a pod of any pod set goes there."""
        return any(one.pods for one in self.verdicts)


@dataclass(frozen=True, slots=True)
class Survey:
    """Every node and offering, once, topology apart. `usable` names those on which at least one pod of the gang could go now."""

    pod_sets: tuple[PodSet, ...]
    preferences: Preferences
    lots: tuple[Lot, ...]
    usable: frozenset[str]


def survey(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Survey:
    pod_sets = tuple(pod_set for pod_set in gang.pod_sets if pod_set.count > 0)
    look = _Look(replace(gang, pod_sets=pod_sets), snapshot, preferences)
    nodes, names = look.nodes()
    offerings = list(look.offerings())
    usable = frozenset((*names, *(lot.subject.name for lot in offerings if lot.usable)))
    return Survey(pod_sets, preferences, (*nodes, *offerings), usable)


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


class _Room:
    """What of one pod set fits on each row of a fleet: `whole` and `size` as in Verdict, and by `short` which of its needs is the
    first that isn't met, with how much of it is `left`. 0: all are; from 1 on in their order, when the node is empty, and then
    once more as it is.
    """

    def __init__(self, pod_set: PodSet, stock: Stock) -> None:
        self.needs = sorted(needs(pod_set).items())
        self.whole, none, bare = self._fit(stock, "whole")
        self.size, first, free = self._fit(stock, "free")
        small = self.whole == 0
        self.short = np.where(small, none, np.where(first > 0, first + len(self.needs), 0))
        self.left = np.where(small, bare, free)

    def _fit(self, stock: Stock, kind: str) -> tuple[Vector, Vector, Vector]:
        fit, short, left = (np.full(len(stock.nodes), start, np.int64) for start in (MOST, 0, 0))
        for place, (name, amount) in reversed(list(enumerate(self.needs, 1))):
            asked, there = min(amount, MOST + 1), stock.fleet.column(kind, name)
            lacks = there < asked
            short[lacks], left[lacks] = place, there[lacks]
            fit = np.minimum(fit, there // asked)
        return np.maximum(fit, 0), short, np.maximum(left, 0)

    def told(self, short: int, left: int) -> Told:
        """What is short in words; a port is one that is taken, for no empty node is short of one."""
        name, amount = self.needs[(short - 1) % len(self.needs)]
        empty = short <= len(self.needs)
        constraint = Constraint.TOO_SMALL if empty else Constraint.PORT if is_port(name) else Constraint.IN_USE
        return constraint, lacking(name, amount, left)


class _Look:
    """Judges each kind of node once."""

    def __init__(self, gang: Gang, snapshot: Snapshot, preferences: Preferences) -> None:
        self._gang, self._snapshot, self._preferences = gang, snapshot, preferences
        self._stock = stock_of(snapshot)
        self._lens = Lens(gang.pod_sets)
        self._neighbours = _neighbours(gang.pod_sets, snapshot, self._stock)
        self._levels = [required_key(pod_set, preferences) for pod_set in gang.pod_sets]
        self._keys = tuple(sorted(set(_keys(gang, preferences))))
        self._labels = sorted({*self._lens.labels, *self._keys, *self._neighbours.keys})

    def nodes(self) -> tuple[list[Lot], list[str]]:
        """The lots of nodes, and the names of those that are usable."""
        codes, firsts = alike(self._columns(), len(self._stock.nodes))
        kinds = [self._kind(node) for node in at(self._stock.nodes, firsts.tolist())]
        rooms = [_Room(pod_set, self._stock) for pod_set in self._gang.pod_sets]
        for index, room_ in enumerate(rooms):
            loose = np.array([kind.fixed[index][0] is None for kind in kinds], np.bool_)[codes]
            room_.short, room_.left = room_.short * loose, room_.left * loose
        columns = [column for room_ in rooms for column in (room_.whole, room_.size, room_.short)]
        members, firsts = alike([codes, *columns], len(codes))
        lots = [self._lot(kinds[codes[row]], rooms, row) for row in firsts.tolist()]
        self._tell(lots, members, [kinds[code] for code in codes[firsts].tolist()], rooms)
        usable = np.array([lot.usable for lot in lots], np.bool_)[members]
        return lots, [node.name for node in at(self._stock.nodes, usable.nonzero()[0].tolist())]

    def _columns(self) -> Iterator[Vector]:
        """All but room that a kind's nodes have in common; of those booked since, who booked them."""
        fleet, rows = self._stock.fleet, np.arange(len(self._stock.nodes))
        yield fleet.column("standing")
        yield fleet.column("taints")
        for key in self._labels:
            codes = fleet.column("label", key)
            yield np.where(codes, codes, -1 - rows) if key == HOSTNAME and key in self._keys else codes
        if self._lens.named:
            yield rows
        since = (fleet.column("open") > self._stock.open).nonzero()[0]
        if len(since):
            bookings: dict[str | None, int] = {}
            later = np.zeros(len(rows), np.int64)
            later[since] = [
                bookings.setdefault(node.booked_by, len(bookings) + 1) for node in at(self._stock.nodes, since.tolist())
            ]
            yield later

    def _kind(self, node: Node) -> _Kind:
        where = {key: node.labels.get(key, node.name if key == HOSTNAME else None) for key in self._keys}
        now, each = host(node), range(len(self._gang.pod_sets))
        bar = barred(node, self._gang, self._snapshot.now, self._preferences)
        shut = self._timely(node, bar) if bar else ""
        fixed = tuple((_constraint(bar), shut) if bar else self._kept_off(index, now, where) for index in each)
        return _Kind(node, where, shut, fixed, tuple(self._neighbours.refusal(index, now.labels) for index in each))

    def _lot(self, kind: _Kind, rooms: Sequence[_Room], row: int) -> Lot:
        verdicts = tuple(
            Verdict(self._told(kind, index, one, int(one.short[row]), 0)[0], int(one.whole[row]), int(one.size[row]))
            for index, one in enumerate(rooms)
        )
        return Lot(kind.subject, kind.where, verdicts, tuple({} for _ in rooms))

    def _told(self, kind: _Kind, index: int, room_: _Room, short: int, left: int) -> Told:
        if kind.fixed[index][0]:
            return kind.fixed[index]
        if short:
            return room_.told(short, left)
        return (Constraint.RUNNING_PODS, kind.near[index]) if kind.near[index] else (None, "")

    def _tell(self, lots: Sequence[Lot], members: Vector, kinds: Sequence[_Kind], rooms: Sequence[_Room]) -> None:
        """Counts the nodes of each lot by what is to be told of them."""
        parts, firsts = alike([members, *(one.left for one in rooms)], len(members))
        counts = np.bincount(parts, minlength=len(firsts)).tolist()
        shorts = [zip(one.short[firsts].tolist(), one.left[firsts].tolist(), strict=True) for one in rooms]
        for place, count, *cells in zip(members[firsts].tolist(), counts, *shorts, strict=True):
            told = [self._told(kinds[place], index, rooms[index], *cell)[1] for index, cell in enumerate(cells)]
            _add(lots[place], told, kinds[place].shut or self._why(told), count)

    def offerings(self) -> Iterator[Lot]:
        judged: dict[tuple[object, ...], tuple[Where, tuple[Verdict, ...], tuple[str, ...]]] = {}
        for offering in self._snapshot.offerings:
            named = offering.name if HOSTNAME in self._keys else ""
            key = (id(offering.shape), named, *map(offering.domain.get, self._labels))
            if key not in judged:
                judged[key] = self._judged(offering)
            where, verdicts, told = judged[key]
            for constraint, detail, count in self._parts(offering):
                shut = tuple(replace(one, constraint=constraint) for one in verdicts) if constraint else verdicts
                lot = Lot(offering, where, shut, tuple({} for _ in shut))
                _add(lot, (detail,) * len(told) if constraint else told, detail or self._why(told), count)
                yield lot

    def _judged(self, offering: Offering) -> tuple[Where, tuple[Verdict, ...], tuple[str, ...]]:
        """What is the same for all offerings of a shape in one place."""
        new, labels = new_host(offering, self._snapshot.topology_keys), {**offering.shape.labels, **offering.domain}
        where = {key: f"a node of {offering.name}" if key == HOSTNAME else labels.get(key) for key in self._keys}
        found = [self._verdict(index, new, where) for index in range(len(self._gang.pod_sets))]
        return where, tuple(verdict for verdict, _ in found), tuple(detail for _, detail in found)

    def _kept_off(self, index: int, where: Host, places: Where) -> Told:
        """By the filters that don't look at room, or for want of the level's label."""
        level = self._levels[index]
        if why := refusal(self._gang.pod_sets[index], where):
            return _constraint(why), why
        if level and places[level] is None:
            return Constraint.TOPOLOGY, f"{level} is not known here"
        return None, ""

    def _verdict(self, index: int, where: Host, places: Where) -> tuple[Verdict, str]:
        """Of a node to be bought: empty is how it comes."""
        asked = needs(self._gang.pod_sets[index])
        size = slots(asked, where.free)
        constraint, why = self._kept_off(index, where, places)
        short = next((name for name in sorted(asked) if room(where.free, name) < asked[name]), "")
        if not constraint and short:
            constraint, why = Constraint.TOO_SMALL, lacking(short, asked[short], room(where.free, short))
        elif not constraint and (why := self._neighbours.refusal(index, where.labels, where.unknown)):
            constraint = Constraint.RUNNING_PODS
        return Verdict(constraint, size, size), why

    def _why(self, told: Sequence[str]) -> str:
        if len(told) == 1:
            return told[0]
        return "; ".join(f"{pod_set.name}: {detail}" for pod_set, detail in zip(self._gang.pod_sets, told, strict=True))

    def _parts(self, offering: Offering) -> Iterator[tuple[Constraint | None, str, int]]:
        """The nodes of an offering by what keeps them from any gang; each limit as if nothing else took of it."""
        bar = closed(offering, self._gang, self._snapshot.now, self._preferences)
        left = max(offering.total, offering.available)
        if bar and _constraint(bar) is not Constraint.NOT_AVAILABLE:
            yield _constraint(bar), self._timely(offering, bar), left
            return
        for constraint, detail, kept in self._caps(offering):
            if kept < left:
                yield constraint, detail, left - kept
                left = kept
        if left:
            yield None, "", left

    def _caps(self, offering: Offering) -> Iterator[tuple[Constraint, str, int]]:
        """How many nodes each limit leaves."""
        yield Constraint.NOT_AVAILABLE, offering.unavailable or "in use, booked or kept spare", max(0, offering.available)
        for budget in self._snapshot.budgets:
            weight = budget.weight.get(offering.name, 0)
            if weight:
                yield Constraint.LIMIT, f"LimitExceeded: {budget.text}", max(0, budget.left) // weight
        ceiling = self._preferences.price_ceiling
        if ceiling is not None and offering.price:
            yield Constraint.PRICE_CEILING, "beyond the price ceiling", ceiling // offering.price

    def _timely(self, subject: Node | Offering, bar: str) -> str:
        """The same in words that don't change from second to second."""
        now = self._snapshot.now
        match _constraint(bar):
            case Constraint.ENDS_TOO_SOON if subject.ends is not None:
                known = "before the gang would" if self._gang.run_duration is not None else "and the gang's run time is unknown"
                return f"ends at {clock(subject.ends, now)}, {known}"
            case Constraint.NOT_STARTED if isinstance(subject, Offering) and subject.starts is not None:
                return f"starts at {clock(subject.starts, now)}"
            case _:
                return bar


def _keys(gang: Gang, preferences: Preferences) -> Iterator[str]:
    """Topology keys by which nodes have to be told apart: levels, and rules between pods, those about hosts left out."""
    for pod_set in gang.pod_sets:
        if level := required_key(pod_set, preferences):
            yield level
        named = [rule.topology_key for rule in (*pod_set.apart, *pod_set.near)] + [rule.topology_key for rule in pod_set.spreads]
        named += [rule.topology_key for rule in (pod_set.slices, pod_set.exclusive) if rule]
        yield from (key for key in named if key != HOSTNAME)


def _neighbours(pod_sets: Sequence[PodSet], snapshot: Snapshot, stock: Stock) -> Neighbours:
    """Running pods are looked at one by one only where a rule of theirs, or one of the pod sets, is about the others."""
    beside = (term for one in snapshot.bystanders for pod in one.pods for term in pod.apart)
    terms = dict.fromkeys((*stock.fleet.terms(), *beside))
    ruled = any(one.near or one.apart or one.exclusive for one in pod_sets)
    if ruled or any(term.selects(one.namespace, one.labels) for term in terms for one in pod_sets):
        return Neighbours(snapshot, pod_sets)
    return Neighbours(replace(snapshot, nodes=(), bystanders=()), pod_sets)


def _add(lot: Lot, told: Sequence[str], why: str, count: int) -> None:
    """Counts nodes of which this is told for each pod set, and for the gang where nothing goes."""
    lot.count += count
    for details, detail in zip(lot.details, told, strict=True):
        details[detail] = details.get(detail, 0) + count
    why = "" if lot.usable else why
    lot.whys[why] = lot.whys.get(why, 0) + count


def _constraint(phrase: str) -> Constraint:
    """The constraint that a phrase of fit.py tells of."""
    return next((kind for start, kind in _KINDS if phrase.startswith(start)), Constraint.NOT_AVAILABLE)
