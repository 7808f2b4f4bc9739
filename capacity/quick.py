"""The best plan for the common gang, straight from the columns: one pod set whose pods don't look at other pods.

It is the plan's cost, broken levels and number of nodes that the search would find, by the same order, proven by the exact cover
of each domain that can matter. What is not such a gang, or too hard here, is left to the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from capacity.columns import MOST, Vector
from capacity.cover import Cover, Kind, TooHardError, cover
from capacity.fit import closed
from capacity.fleet import Fleet, Stock, stock_of
from capacity.lanes import Lane, lane
from capacity.model import HOSTNAME, CapacityType, Gang, Offering, Plan, PodSet, Preferences, Purchase, Snapshot, Use
from capacity.pick import paths, pick
from capacity.place import Path, Placer
from capacity.supply import Member
from capacity.topology import required_key, wider

_MOST_CELLS = 4_000_000
_MOST_COVERS = 300
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Offer:
    offering: Offering
    kind: Kind
    labels: Mapping[str, str]


@dataclass(slots=True)
class _Goods:
    """What one gang may use. `slots` has an entry for each row of the fleet, 0 for nodes that are out of the question, at most
    `demand`; `tiers` the places in `worth` (price, rank), None where all nodes are of one.
    """

    fleet: Fleet
    demand: int
    slots: Vector
    tiers: Vector | None
    worth: Sequence[tuple[int, int]]
    offers: Sequence[_Offer] = ()

    def kinds(self, counts: Vector, width: int) -> dict[Kind, int]:
        """`counts[tier * width + slots]` nodes, as limits of their kinds."""
        found: dict[Kind, int] = {}
        for place in np.flatnonzero(counts).tolist():
            tier, slots = divmod(place, width)
            if slots:
                kind = Kind(slots, *self.worth[tier])
                found[kind] = found.get(kind, 0) + int(counts[place])
        return found


@dataclass(frozen=True, slots=True)
class _Best:
    """An answer: where (a value for each key) and what of each kind."""

    found: Cover
    domain: tuple[str, ...] = ()
    rows: "Vector | None" = None
    offers: Sequence[_Offer] = field(default=())


def answer(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Plan | None:
    """The best plan in the order that capacity/plan.py documents; None when there is none, or when this is not for here."""
    pod_set = _own(gang, preferences)
    stock = stock_of(snapshot)
    if pod_set is None or _watched(pod_set, stock.fleet, snapshot):
        return None
    known = lane(stock.fleet, pod_set)
    if known is None:
        return None
    try:
        goods = _goods(gang, pod_set, stock, known, snapshot, preferences)
        for keys in _levels(pod_set, snapshot.topology_keys, preferences):
            found = _best(goods, keys, preferences.price_ceiling)
            if found is not None:
                return _plan(gang, pod_set, goods, found, keys, stock, snapshot)
    except TooHardError:
        return None
    return None


def _own(gang: Gang, preferences: Preferences) -> PodSet | None:
    """The one pod set of a gang of which no pod minds where the others are."""
    some = [pod_set for pod_set in gang.pod_sets if pod_set.count > 0]
    if len(some) != 1 or preferences.cross_zone_cost:
        return None
    one = some[0]
    levels = (one.required_topology, one.preferred_topology, preferences.required_topology, preferences.preferred_topology)
    if HOSTNAME in levels or one.placed_by_kueue or one.slices or one.exclusive or one.near or one.apart or one.spreads:
        return None
    return one


def _watched(pod_set: PodSet, fleet: Fleet, snapshot: Snapshot) -> bool:
    """Whether pods that run keep these pods off somewhere."""
    known = fleet.beside
    if known is None or known[0] is not snapshot.bystanders:
        terms = [term for one in snapshot.bystanders for pod in one.pods for term in pod.apart]
        known = fleet.beside = (snapshot.bystanders, tuple(dict.fromkeys(terms)))
    return any(term.selects(pod_set.namespace, pod_set.labels) for term in (*fleet.terms(), *known[1]))


def _levels(pod_set: PodSet, topology_keys: Keys, preferences: Preferences) -> Iterator[Keys]:
    """The keys of which one domain must hold all pods, widest first; the preferred level is given up towards the widest."""
    required = required_key(pod_set, preferences)
    level = pod_set.preferred_topology or preferences.preferred_topology
    order = {key: place for place, key in enumerate(topology_keys)}
    while level is not None:
        yield tuple(sorted({key for key in (required, level) if key}, key=lambda key: (order.get(key, -1), key)))
        level = wider(level, topology_keys)
    yield (required,) if required else ()


# --- what may be used -----------------------------------------------------------------------------------------------------


def _goods(gang: Gang, pod_set: PodSet, stock: Stock, lane: Lane, snapshot: Snapshot, preferences: Preferences) -> _Goods:
    fleet = stock.fleet
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)}
    tiers = fleet.tiers()
    may = np.array([kind is None or kind in ranks for _, kind in tiers], np.bool_)
    worth = [(price, 0 if kind is None else ranks.get(kind, 0)) for price, kind in tiers]
    ends = fleet.column("ends")
    usable = stock.open & (ends >= _end(gang, snapshot.now))
    if not may.all():
        usable &= may[fleet.column("tier")]
    slots = np.minimum(lane.slots, pod_set.count) * usable
    several = len(set(worth)) > 1
    offers = tuple(_offers(gang, pod_set, lane, snapshot, preferences, ranks)) if snapshot.offerings else ()
    return _Goods(fleet, pod_set.count, slots, fleet.column("tier") if several else None, worth, offers)


def _end(gang: Gang, now: int) -> int:
    """The earliest end of capacity that is late enough: a run time that is not known outlasts all that ends."""
    return MOST if gang.run_duration is None else now + gang.run_duration


def _offers(
    gang: Gang, pod_set: PodSet, lane: Lane, snapshot: Snapshot, preferences: Preferences, ranks: Mapping[CapacityType, int]
) -> Iterator[_Offer]:
    for offering in snapshot.offerings:
        if not closed(offering, gang, snapshot.now, preferences):
            slots = min(pod_set.count, lane.offer(offering, snapshot.topology_keys))
            if slots:
                kind = Kind(slots, offering.price, ranks[offering.capacity_type] + 1)
                yield _Offer(offering, kind, {**offering.shape.labels, **offering.domain})


# --- the best domain ------------------------------------------------------------------------------------------------------


def _best(goods: _Goods, keys: Keys, ceiling: int | None) -> _Best | None:
    if not keys:
        width = int(goods.slots.max(initial=0)) + 1
        index = goods.slots if goods.tiers is None else goods.tiers * width + goods.slots
        limits = goods.kinds(np.bincount(index), width)
        for offer in goods.offers:
            limits[offer.kind] = limits.get(offer.kind, 0) + offer.offering.available
        found = cover(limits, goods.demand)
        return _Best(found, (), None, goods.offers) if found and _within(found, ceiling) else None
    return _Domains(goods, keys).best(ceiling)


def _within(found: Cover, ceiling: int | None) -> bool:
    return ceiling is None or found.cost[0] <= ceiling


class _Domains:
    """The domains of one or two keys: a code for each combination of values."""

    def __init__(self, goods: _Goods, keys: Keys) -> None:
        self._goods = goods
        self._keys = keys
        fleet = goods.fleet
        self._places = [tuple(fleet.codes(key).code(offer.labels.get(key)) for key in keys) for offer in goods.offers]
        columns = [fleet.column("label", key) for key in keys]
        self._sizes = tuple(len(fleet.codes(key)) for key in keys)
        if int(np.prod(self._sizes)) > _MOST_CELLS:
            raise TooHardError
        self._codes = columns[0] if len(keys) == 1 else columns[0] * self._sizes[1] + columns[1]
        self._offers: dict[int, list[_Offer]] = {}
        for place, offer in zip(self._places, goods.offers, strict=True):
            if all(place):
                self._offers.setdefault(self._code(place), []).append(offer)

    def best(self, ceiling: int | None) -> _Best | None:
        rooms = self._rooms()
        fitting = np.flatnonzero(rooms >= 0)
        free = self._free()
        enough = fitting[free[fitting] >= self._goods.demand] if len(fitting) else fitting
        if len(enough):
            least = rooms[enough].min()
            return self._first(enough[rooms[enough] == least], rooms, None)
        return self._first(fitting, rooms, ceiling)

    def _code(self, place: Sequence[int]) -> int:
        return place[0] if len(place) == 1 else place[0] * self._sizes[1] + place[1]

    def _split(self, code: int) -> tuple[int, ...]:
        return (code,) if len(self._keys) == 1 else divmod(code, self._sizes[1])

    def _rooms(self) -> Vector:
        """By domain how many pods it could hold, with the wider domain's; -1 where that is too few or a value is not known."""
        goods, demand = self._goods, self._goods.demand
        inner = np.bincount(self._codes, goods.slots, int(np.prod(self._sizes))).astype(np.int64)
        for code, offers in self._offers.items():
            inner[code] += sum(offer.kind.slots * offer.offering.available for offer in offers)
        if len(self._keys) == 1:
            inner[0] = -1
            return np.where(inner >= demand, inner, -1)
        outer = np.bincount(goods.fleet.column("label", self._keys[0]), goods.slots, self._sizes[0]).astype(np.int64)
        for place, offer in zip(self._places, goods.offers, strict=True):
            outer[place[0]] += offer.kind.slots * offer.offering.available
        table = inner.reshape(self._sizes)
        fits = (table >= demand) & (outer >= demand)[:, None]
        fits[0, :] = fits[:, 0] = False
        return np.where(fits, table + outer[:, None], -1).ravel()

    def _free(self) -> Vector:
        """By domain how many pods its nodes of no price and no rank could hold."""
        goods = self._goods
        gratis = np.array([worth == (0, 0) for worth in goods.worth], np.int64)
        if goods.tiers is None:
            slots = goods.slots if gratis.any() else np.zeros(0, np.int64)
        else:
            slots = goods.slots * gratis[goods.tiers]
        size = int(np.prod(self._sizes))
        return np.bincount(self._codes, slots, size).astype(np.int64) if len(slots) else np.zeros(size, np.int64)

    def _first(self, domains: Vector, rooms: Vector, ceiling: int | None) -> _Best | None:
        """The best of these domains. Those that look alike share one cover."""
        limits = self._limits()
        memo: dict[tuple[tuple[Kind, int], ...], Cover | None] = {}
        best: tuple[tuple[int, ...], tuple[str, ...], int, Cover] | None = None
        for room, values, code in sorted((int(rooms[code]), self._values(code), code) for code in domains.tolist()):
            if best is not None and best[0][:3] < (0, 0, room):
                break
            kinds = limits(code)
            key = tuple(sorted(kinds.items()))
            if key not in memo:
                if len(memo) >= _MOST_COVERS:
                    raise TooHardError
                memo[key] = cover(kinds, self._goods.demand)
            found = memo[key]
            if found and _within(found, ceiling):
                price, rank, slots, nodes = found.cost
                one = (price, rank, room, slots, nodes), values, code, found
                best = min(best, one, key=lambda one: one[:2]) if best else one
        return self._answer(best[3], best[1], best[2]) if best else None

    def _values(self, code: int) -> tuple[str, ...]:
        known = [self._goods.fleet.codes(key).values for key in self._keys]
        return tuple(str(values[one]) for values, one in zip(known, self._split(code), strict=True))

    def _limits(self) -> "Limits":
        return Limits(self._goods, self._codes, self._offers, int(np.prod(self._sizes)))

    def _answer(self, found: Cover, values: tuple[str, ...], code: int) -> _Best:
        return _Best(found, values, np.flatnonzero(self._codes == code), self._offers.get(code, ()))


class Limits:
    """By domain the kinds of its nodes and offerings, and how many there are."""

    def __init__(self, goods: _Goods, codes: Vector, offers: Mapping[int, Sequence[_Offer]], domains: int) -> None:
        self._goods = goods
        self._offers = offers
        self._width = int(goods.slots.max(initial=0)) + 1
        self._cells = self._width * (1 if goods.tiers is None else len(goods.worth))
        if domains * self._cells > _MOST_CELLS:
            raise TooHardError
        index = codes * self._cells + goods.slots
        if goods.tiers is not None:
            index += goods.tiers * self._width
        self._counts = np.bincount(index, minlength=domains * self._cells)

    def __call__(self, code: int) -> Mapping[Kind, int]:
        limits = self._goods.kinds(self._counts[code * self._cells : (code + 1) * self._cells], self._width)
        for offer in self._offers.get(code, ()):
            limits[offer.kind] = limits.get(offer.kind, 0) + offer.offering.available
        return limits


# --- nodes and purchases by name ------------------------------------------------------------------------------------------


def _plan(gang: Gang, pod_set: PodSet, goods: _Goods, best: _Best, keys: Keys, stock: Stock, snapshot: Snapshot) -> Plan | None:
    touched: set[Path] = set()
    rows, slots = _rows(goods, best, snapshot.topology_keys, touched)
    pods = {kind.slots: {pod_set.name: kind.slots} for kind in best.found.counts}
    order = np.argsort(goods.fleet.column("name")[rows])
    nodes = [stock.nodes[row] for row in rows[order].tolist()]
    held = repeat(pods[slots[0]]) if len(set(slots)) == 1 else [pods[one] for one in np.array(slots)[order].tolist()]
    uses = tuple(map(Use, nodes, held))
    bought = _bought(best, snapshot.topology_keys, touched)
    purchases = tuple(Purchase(o, count, pods[slots]) for (_, slots), (o, count) in sorted(bought.items(), key=lambda b: b[0]))
    if purchases and not _affordable(purchases, snapshot):
        return None
    return Plan(gang, uses, purchases, best.found.cost[0], dict(zip(keys, best.domain, strict=True)))


def _rows(goods: _Goods, best: _Best, keys: Keys, touched: set[Path]) -> tuple[Vector, list[int]]:
    """The nodes to take, and how many pods each holds."""
    kinds = [(kind, count) for kind, count in sorted(best.found.counts.items()) if kind.rank % 2 == 0]
    taken: list[Vector] = [np.zeros(0, np.int64)]
    slots: list[int] = []
    for kind, count in kinds:
        taken.append(pick(goods.fleet, _alike(goods, kind, best.rows), count, keys, touched))
        slots += [kind.slots] * count
        if len(best.found.counts) > 1:
            touched |= paths(goods.fleet, taken[-1], keys)
    return np.concatenate(taken), slots


def _alike(goods: _Goods, kind: Kind, rows: "Vector | None") -> Vector:
    """The rows of one kind, of all or of those given."""
    slots, tiers = goods.slots, goods.tiers
    if rows is not None:
        slots, tiers = slots[rows], tiers[rows] if tiers is not None else None
    same = slots == kind.slots
    if tiers is not None:
        same &= np.array([worth == kind[1:] for worth in goods.worth], np.bool_)[tiers]
    found = np.flatnonzero(same)
    return found if rows is None else rows[found]


def _bought(best: _Best, keys: Keys, touched: set[Path]) -> dict[tuple[str, int], tuple[Offering, int]]:
    placer = Placer(keys, touched)
    bought: dict[tuple[str, int], tuple[Offering, int]] = {}
    for kind, count in sorted(best.found.counts.items()):
        if kind.rank % 2:
            members = [Member(offer.offering, offer.offering.available) for offer in best.offers if offer.kind == kind]
            for member in placer.take(members, count):
                assert isinstance(member.subject, Offering)
                bought[member.subject.name, kind.slots] = member.subject, member.limit
    return bought


def _affordable(purchases: Sequence[Purchase], snapshot: Snapshot) -> bool:
    """Whether the limits that offerings share don't matter: the best plan without them keeps them all."""
    return all(
        sum(one.count * budget.weight.get(one.offering.name, 0) for one in purchases) <= budget.left
        for budget in snapshot.budgets
    )
