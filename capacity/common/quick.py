"""The best plan for the common gang, straight from the columns: one pod set whose pods don't look at other pods.

It is the plan's cost, broken levels and number of nodes that the search would find, by the same order, proven by the exact cover
of each domain that can matter. What is not such a gang, or too hard here, is left to the search.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from capacity.common.cover import Kind, TooHardError
from capacity.common.domains import Best, best
from capacity.common.goods import Goods
from capacity.common.lanes import Lane, lane
from capacity.common.pick import paths, pick
from capacity.common.recheck import stands
from capacity.index.catalogue import Sale, sale
from capacity.index.columns import MOST, Vector
from capacity.index.fleet import Fleet, Stock, stock_of
from capacity.index.nodes import at
from capacity.model import HOSTNAME, CapacityType, Gang, Offering, Plan, PodSet, Preferences, Purchase, Snapshot, Use
from capacity.place import Path, Placer
from capacity.programme.supply import Member
from capacity.topology import required_key, wider

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The best plan, proven; None where it is proven that there is none."""

    plan: Plan | None


def answer(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Settled | None:
    """The best plan in the order that capacity/plan.py documents, or that there is none; None when the gang is not for here."""
    asked = _asked(gang, snapshot, preferences)
    if asked is None:
        return None
    pod_set, stock, goods = asked
    for keys, below in _levels(pod_set, snapshot.topology_keys, preferences):
        try:
            found = best(goods, keys, below, preferences.price_ceiling)
        except TooHardError:
            return None
        if found is not None:
            plan, rows = _plan(gang, pod_set, goods, found, stock, snapshot)
            return Settled(plan) if stands(plan, rows, pod_set, stock, snapshot, preferences) else None
    return Settled(None)


def possible(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> bool | None:
    """Whether there is a plan, which isn't made; None when that can't be told here."""
    asked = None if snapshot.budgets else _asked(gang, snapshot, preferences)
    if asked is None:
        return None
    pod_set, _, goods = asked
    required = required_key(pod_set, preferences)
    try:
        return best(goods, (required,) if required else (), None, preferences.price_ceiling) is not None
    except TooHardError:
        return None


def _asked(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> tuple[PodSet, Stock, Goods] | None:
    """The pod set and what it may use; None when the gang is not for here."""
    pod_set = _own(gang, preferences)
    if pod_set is None:
        return None
    stock = stock_of(snapshot)
    known = None if _watched(pod_set, stock.fleet, snapshot) else lane(stock.fleet, pod_set)
    return None if known is None else (pod_set, stock, _goods(gang, pod_set, stock, known, snapshot, preferences))


def _own(gang: Gang, preferences: Preferences) -> PodSet | None:
    """The one pod set of a gang of which no pod minds where the others are."""
    some = [pod_set for pod_set in gang.pod_sets if pod_set.count > 0]
    if len(some) != 1 or some[0].undecidable or preferences.cross_zone_cost:
        return None
    one = some[0]
    levels = (one.required_topology, one.preferred_topology, preferences.required_topology, preferences.preferred_topology)
    if HOSTNAME in levels or one.placed_by_kueue or one.slices or one.exclusive or one.near or one.apart or one.spreads:
        return None
    return one


def _watched(pod_set: PodSet, fleet: Fleet, snapshot: Snapshot) -> bool:
    """Whether pods that run, or those of DaemonSets on nodes to be bought, keep these pods off somewhere."""
    coming = fleet.catalogues.of(snapshot.offerings, snapshot.topology_keys).apart if snapshot.offerings else ()
    known = fleet.beside
    if known is None or known[0] is not snapshot.bystanders:
        terms = [term for one in snapshot.bystanders for pod in one.pods for term in pod.apart]
        known = fleet.beside = (snapshot.bystanders, tuple(dict.fromkeys(terms)))
    return any(term.selects(pod_set.namespace, pod_set.labels) for term in (*coming, *fleet.terms(), *known[1]))


def _levels(pod_set: PodSet, topology_keys: Keys, preferences: Preferences) -> Iterator[tuple[Keys, str | None]]:
    """The keys of which one domain must hold all pods, widest first, and the level given up last: the preferred level is given
    up towards the widest.
    """
    required = required_key(pod_set, preferences)
    level = pod_set.preferred_topology or preferences.preferred_topology
    order = {key: place for place, key in enumerate(topology_keys)}
    below: str | None = None
    while level is not None:
        yield tuple(sorted({key for key in (required, level) if key}, key=lambda key: (order.get(key, -1), key))), below
        below, level = level, wider(level, topology_keys)
    yield (required,) if required else (), below


# --- what may be used -----------------------------------------------------------------------------------------------------


def _goods(gang: Gang, pod_set: PodSet, stock: Stock, lane: Lane, snapshot: Snapshot, preferences: Preferences) -> Goods:
    fleet = stock.fleet
    ranks = {kind: 2 * place for place, kind in enumerate(preferences.capacity_order)}
    tiers = fleet.tiers()
    may = np.array([kind is None or kind in ranks for _, kind in tiers], np.bool_)
    worth = [(price, 0 if kind is None else ranks.get(kind, 0)) for price, kind in tiers]
    ends = fleet.column("ends")
    usable = stock.open & (ends >= _end(gang, snapshot.now))
    if not may.all():
        usable &= may[fleet.column("tier")]
    slots = lane.slots * usable
    if lane.most > pod_set.count:
        slots = np.minimum(slots, pod_set.count)
    several = len(set(worth)) > 1
    most = min(lane.most, pod_set.count)
    sold = _sale(gang, pod_set, stock, lane, snapshot, ranks) if snapshot.offerings else None
    return Goods(fleet, pod_set.count, slots, most, fleet.column("tier") if several else None, worth, sold)


def _end(gang: Gang, now: int) -> int:
    """The earliest end of capacity that is late enough: a run time that is not known outlasts all that ends."""
    return MOST if gang.run_duration is None else now + gang.run_duration


def _sale(gang: Gang, pod_set: PodSet, stock: Stock, lane: Lane, snapshot: Snapshot, ranks: Mapping[CapacityType, int]) -> Sale:
    catalogue = stock.fleet.catalogues.of(snapshot.offerings, snapshot.topology_keys)
    slots = np.minimum(lane.sold(catalogue), pod_set.count)
    return sale(catalogue, slots, catalogue.open(snapshot.now, _end(gang, snapshot.now), ranks), ranks)


# --- nodes and purchases by name ------------------------------------------------------------------------------------------


def _plan(gang: Gang, pod_set: PodSet, goods: Goods, found: Best, stock: Stock, snapshot: Snapshot) -> tuple[Plan, Vector]:
    """The plan, and the rows of the nodes that it uses."""
    touched: set[Path] = set()
    pods = {kind.slots: {pod_set.name: kind.slots} for kind in found.found.counts}
    rows, slots = _rows(goods, found, snapshot.topology_keys, touched)
    nodes = at(stock.nodes, rows.tolist())
    held = repeat(pods.get(slots, {})) if isinstance(slots, int) else map(pods.__getitem__, slots)
    bought = _bought(found, snapshot.topology_keys, touched)
    purchases = tuple(Purchase(o, count, pods[slots]) for (_, slots), (o, count) in sorted(bought.items(), key=lambda b: b[0]))
    return Plan(gang, tuple(map(Use, nodes, held)), purchases, found.found.cost[0], found.domains), rows


def _rows(goods: Goods, found: Best, keys: Keys, touched: set[Path]) -> tuple[Vector, int | list[int]]:
    """The nodes to take by name, and how many pods each holds, one number if that is the same for all."""
    kinds = [(kind, count) for kind, count in sorted(found.found.counts.items()) if kind.rank % 2 == 0]
    taken: list[Vector] = []
    for kind, count in kinds:
        taken.append(pick(goods.fleet, _alike(goods, kind, found.rows), count, keys, touched))
        if len(found.found.counts) > 1:
            touched |= paths(goods.fleet, taken[-1], keys)
    if len(taken) <= 1:
        rows = taken[0] if taken else np.zeros(0, np.int64)
        return rows[goods.fleet.column("name")[rows].argsort()], kinds[0][0].slots if kinds else 0
    rows = np.concatenate(taken)
    order = goods.fleet.column("name")[rows].argsort()
    return rows[order], np.repeat([kind.slots for kind, _ in kinds], [count for _, count in kinds])[order].tolist()


def _alike(goods: Goods, kind: Kind, rows: "Vector | None") -> Vector:
    """The rows of one kind, of all or of those given."""
    slots, tiers = goods.slots, goods.tiers
    if rows is not None:
        slots, tiers = slots[rows], tiers[rows] if tiers is not None else None
    same = slots == kind.slots
    if tiers is not None:
        same &= np.array([worth == kind[1:] for worth in goods.worth], np.bool_)[tiers]
    found: Vector = same.nonzero()[0]
    return found if rows is None else rows[found]


def _bought(found: Best, keys: Keys, touched: set[Path]) -> dict[tuple[str, int], tuple[Offering, int]]:
    placer = Placer(keys, touched)
    bought: dict[tuple[str, int], tuple[Offering, int]] = {}
    for kind, count in sorted(found.found.counts.items()):
        if kind.rank % 2 and found.sale is not None:
            members = [Member(offering, offering.available) for offering in found.sale.of(kind)]
            for member in placer.take(members, count):
                assert isinstance(member.subject, Offering)
                bought[member.subject.name, kind.slots] = member.subject, member.limit
    return bought
