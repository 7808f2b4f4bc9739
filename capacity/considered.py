"""The tree of what was considered: for each pod set what each constraint took away, by source and by topology domain."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from capacity.model import HOSTNAME, Considered, Constraint, Node, Offering, RuledOut
from capacity.survey import Lot, Survey
from capacity.topology import required_key

MOST_PLACES = 8


def considered(seen: Survey) -> tuple[Considered, ...]:
    """One tree for each pod set, of bounded size: at each place the largest `MOST_PLACES`, and the rest summed up."""
    return tuple(_tree(seen, index) for index in range(len(seen.pod_sets)))


def _tree(seen: Survey, index: int) -> Considered:
    pod_set = seen.pod_sets[index]
    level = required_key(pod_set, seen.preferences)
    sources = _split(seen.lots, index, lambda lot: _source(lot.subject), "sources", _offerings)
    domains: tuple[Considered, ...] = ()
    if level and level != HOSTNAME:
        domains = _split(seen.lots, index, lambda lot: lot.where[level] or f"{level} unknown", "domains")
    return replace(_place(pod_set.name, seen.lots, index), inside=sources, domains=domains, level=level or "")


def _offerings(lots: Sequence[Lot], index: int) -> tuple[Considered, ...]:
    """What is to be bought, by offering; one alone says no more than the source."""
    offerings = [lot for lot in lots if isinstance(lot.subject, Offering)]
    alone = len({lot.subject.name for lot in offerings}) < 2
    return () if alone else _split(offerings, index, lambda lot: lot.subject.name, "offerings")


def _split(
    lots: Sequence[Lot],
    index: int,
    name: Callable[[Lot], str],
    rest: str,
    inside: Callable[[Sequence[Lot], int], tuple[Considered, ...]] = lambda _lots, _index: (),
) -> tuple[Considered, ...]:
    """The places with most room first, then those that would have most if nothing were ruled out."""
    groups: dict[str, list[Lot]] = {}
    for lot in lots:
        groups.setdefault(name(lot), []).append(lot)
    places = [replace(_place(subject, group, index), inside=inside(group, index)) for subject, group in groups.items()]
    places.sort(key=lambda place: (-place.usable_pods, -place.pods, -place.nodes, place.subject))
    kept, others = places[:MOST_PLACES], places[MOST_PLACES:]
    if not others:
        return tuple(kept)
    left = [lot for place in others for lot in groups[place.subject]]
    return (*kept, _place(f"{len(others)} other {rest}", left, index))


def _place(subject: str, lots: Sequence[Lot], index: int) -> Considered:
    nodes, pods, details = Counter[Constraint](), Counter[Constraint](), dict[Constraint, Counter[str]]()
    for lot in lots:
        verdict = lot.verdicts[index]
        constraint = verdict.constraint or Constraint.IN_USE  # a node that is used in part has less room
        nodes[constraint] += lot.count if verdict.constraint else 0
        pods[constraint] += (verdict.whole - verdict.pods) * lot.count
        if verdict.constraint:
            details.setdefault(constraint, Counter()).update(lot.details[index])
    return Considered(
        subject=subject,
        nodes=sum(lot.count for lot in lots),
        pods=sum(lot.verdicts[index].whole * lot.count for lot in lots),
        ruled_out=tuple(
            RuledOut(one, nodes[one], pods[one], _detail(details.get(one))) for one in Constraint if nodes[one] or pods[one]
        ),
    )


def _detail(told: Counter[str] | None) -> str:
    if not told:
        return "used in part"
    first = min(told, key=lambda text: (-told[text], text))
    return f"{first} (and {len(told) - 1} more)" if len(told) > 1 else first


def _source(subject: Node | Offering) -> str:
    if isinstance(subject, Node):
        return f"nodes of pool {subject.pool}" + (f" in {subject.reservation}" if subject.reservation else "")
    return f"reservation {subject.reservation}" if subject.reservation else f"{subject.capacity_type} of pool {subject.pool}"
