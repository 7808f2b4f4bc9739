"""What may be bought for a gang, without what is never worth its price."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from capacity.fit import closed, needs, new_host, room
from capacity.index.fleet import stock_of
from capacity.lens import Lens
from capacity.model import HOSTNAME, CapacityType, Offering, PodSet
from capacity.programme.mixes import covers
from capacity.programme.question import Question
from capacity.programme.rules import ABSENT, UNKNOWN

Amounts = tuple[int, ...]


class Ware(NamedTuple):
    """What may be bought of an offering in one place; `shape` is the number of its shape, `odd` tells that the gang minds pods
    of the DaemonSets that come with it.
    """

    offering: Offering
    limit: int
    shape: int
    odd: bool
    rank: int
    domains: tuple[str, ...]
    weights: tuple[int, ...]


def goods(asked: Question, keys: tuple[str, ...], ranks: Mapping[CapacityType, int], most: int, *, safe: bool) -> list[Ware]:
    """All that may be bought now and can matter to a plan of safe mixes, or of any; `most` is more nodes than a plan takes."""
    offered: list[Ware] = asked.remembered(("wares", keys), lambda: list(_offered(asked, keys, ranks)))
    if keys or not asked.untied:
        return [ware for ware in offered if not ware.odd] if safe else offered
    worth: list[Ware] = asked.remembered(("worth", most), lambda: worthwhile(asked, offered, most, safe=True))
    return worth if safe else worthwhile(asked, worth, most, safe=False)


def _offered(asked: Question, keys: tuple[str, ...], ranks: Mapping[CapacityType, int]) -> Iterator[Ware]:
    snapshot, minds = asked.snapshot, asked.neighbours.minds
    shapes = stock_of(snapshot).fleet.catalogues.of(snapshot.offerings, snapshot.topology_keys).shapes
    for offering, shape in zip(snapshot.offerings, shapes, strict=True):
        if not closed(offering, asked.gang, snapshot.now, asked.preferences):
            odd, rank = bool(offering.shape.pods) and minds(offering.shape.pods), ranks[offering.capacity_type] + 1
            weights = tuple([budget.weight.get(offering.name, 0) for budget in snapshot.budgets])
            for domains, limit in _where(offering, keys, snapshot.topology_keys):
                yield Ware(offering, limit, shape, odd, rank, domains, weights)


def _where(offering: Offering, keys: tuple[str, ...], topology_keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where the nodes of an offering will be. Where the host counts, one node is a domain of its own and the rest is
    elsewhere.
    """
    if not keys:
        yield (), offering.available
        return
    labels = {**offering.shape.labels, **offering.domain}
    labels.pop(HOSTNAME, None)
    known = {key: labels.get(key, UNKNOWN if key in topology_keys else ABSENT) for key in keys}
    if HOSTNAME not in keys:
        yield tuple(known.values()), offering.available
        return
    yield tuple((known | {HOSTNAME: f"new:{offering.name}"}).values()), 1
    if offering.available > 1:
        yield tuple((known | {HOSTNAME: ABSENT}).values()), offering.available - 1


def worthwhile(asked: Question, offered: Sequence[Ware], most: int, *, safe: bool) -> list[Ware]:
    """The wares without those of which any node has a stand-in, for a gang that doesn't mind where its pods are: `most` nodes,
    more than any answer takes, of one ware that costs less, lets in the same pods and has no less room.

    If mixes are to be `safe`, more room lets a role take more from the others, so each role must have as many pods on either:
    what goes then is no better by luck.
    """
    sights = _Sights(asked, safe=safe)
    roomy: dict[Hashable, set[Amounts]] = {}
    needless: set[tuple[Hashable, Amounts]] = set()
    kept: list[Ware] = []
    for _, alike in groupby(sorted(offered, key=_cost), _cost):
        seen = [(ware, sights.of(ware)) for ware in alike]
        needless.update(sight for _, sight in seen if sight not in needless and _stands_in(roomy, *sight))
        seen = [one for one in seen if one[1] not in needless]
        kept += [ware for ware, _ in seen]
        for ware, (group, free) in seen:
            if ware.limit >= most:
                roomy[group] = {free, *(one for one in roomy.get(group, ()) if not covers(free, one))}
    return kept


def _stands_in(roomy: Mapping[Hashable, Collection[Amounts]], group: Hashable, free: Amounts) -> bool:
    return any(covers(one, free) for one in roomy.get(group, ()))


def _cost(ware: Ware) -> tuple[int, int]:
    return ware.offering.price, ware.rank


class _Sights:
    """What wares are compared by: what must be equal, and the room of each resource and host port, more than the whole gang needs
    left out.
    """

    def __init__(self, asked: Question, *, safe: bool) -> None:
        pod_sets = asked.pod_sets
        self._keys = asked.snapshot.topology_keys
        self._labels = Lens(pod_sets).labels
        self._known: dict[Hashable, tuple[Hashable, Amounts]] = {}
        total: dict[str, int] = {}
        for pod_set in pod_sets:
            for name, amount in needs(pod_set).items():
                total[name] = total.get(name, 0) + amount * pod_set.count
        self._total = tuple(total.items())
        self._roles = [(one.count, _places(one, tuple(total))) for one in pod_sets] if safe else []

    def of(self, ware: Ware) -> tuple[Hashable, Amounts]:
        offering, shape = ware.offering, ware.offering.shape
        domain = [offering.domain.get(key) for key in self._labels]
        bare = tuple([key not in offering.domain and key not in shape.labels for key in self._keys])
        name = (ware.shape, bare, *domain)
        if name not in self._known:
            labels = [shape.labels.get(key) if value is None else value for key, value in zip(self._labels, domain, strict=True)]
            free = self._free(offering)
            alone = [min(count, *[free[place] // amount for place, amount in wanted]) for count, wanted in self._roles]
            self._known[name] = (shape.taints, bare, *labels, *alone), free
        group, free = self._known[name]
        return (group, ware.weights), free

    def _free(self, offering: Offering) -> Amounts:
        free = new_host(offering, self._keys).free
        return tuple([max(0, min(room(free, name), most)) for name, most in self._total])


def _places(pod_set: PodSet, names: Sequence[str]) -> list[tuple[int, int]]:
    return [(names.index(name), amount) for name, amount in needs(pod_set).items()]
