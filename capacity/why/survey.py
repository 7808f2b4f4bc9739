"""What each node and offering has for a gang, and the first thing that keeps the gang off: alike ones are judged once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capacity.model import Gang, Preferences, Snapshot
from capacity.why.look import Look
from capacity.why.lots import Lot, Survey
from capacity.why.sold import sold
from capacity.why.there import there


def survey(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Survey:
    """All that can be told of a gang's chances without looking at what its pods mean for each other."""
    pod_sets = tuple(pod_set for pod_set in gang.pod_sets if pod_set.count > 0)
    look = Look(replace(gang, pod_sets=pod_sets), snapshot, preferences)
    nodes, names = there(look)
    offerings = list(sold(look))
    usable = frozenset((*names, *(lot.subject.name for lot in offerings if lot.usable)))
    return Survey(pod_sets, preferences, (*nodes, *offerings), usable, tuple(_merged(nodes, offerings)))


def _merged(nodes: Sequence[Lot], offerings: Sequence[Lot]) -> Iterator[tuple[Lot, int]]:
    """Lots of offerings of one kind share their verdicts."""
    yield from ((lot, lot.count) for lot in nodes)
    first: dict[int, Lot] = {}
    counts: dict[int, int] = {}
    for lot in offerings:
        kind = id(lot.verdicts)
        first.setdefault(kind, lot)
        counts[kind] = counts.get(kind, 0) + lot.count
    yield from ((lot, counts[kind]) for kind, lot in first.items())
