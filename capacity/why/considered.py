"""The tree of what was considered: for each pod set what each constraint took away, by source and by topology domain."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from capacity.model import HOSTNAME, Considered, Constraint, Node, Offering, RuledOut
from capacity.topology import required_key
from capacity.why.lots import Lot, Survey

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
    order = sorted(groups, key=lambda subject: (*_rank(groups[subject], index), subject))
    kept, others = order[:MOST_PLACES], order[MOST_PLACES:]
    places = tuple(replace(_place(subject, groups[subject], index), inside=inside(groups[subject], index)) for subject in kept)
    if not others:
        return places
    left = [lot for subject in others for lot in groups[subject]]
    return (*places, _place(f"{len(others)} other {rest}", left, index))


def _rank(lots: Sequence[Lot], index: int) -> tuple[int, int, int]:
    """Usable pods, pods and nodes, the more the less."""
    usable = pods = nodes = 0
    for lot in lots:
        verdict = lot.verdicts[index]
        usable -= verdict.pods * lot.count
        pods -= verdict.whole * lot.count
        nodes -= lot.count
    return usable, pods, nodes


def _place(subject: str, lots: Sequence[Lot], index: int) -> Considered:
    nodes, pods, details = Counter[Constraint](), Counter[Constraint](), dict[Constraint, Counter[str]]()
    for lot in lots:
        verdict = lot.verdicts[index]
        constraint = verdict.constraint or Constraint.IN_USE  # a node that is used in part has less room
        pods[constraint] += (verdict.whole - verdict.pods) * lot.count
        if verdict.constraint:
            nodes[constraint] += lot.count
            details.setdefault(constraint, Counter()).update(lot.details[index])
    _, whole, there = _rank(lots, index)
    return Considered(
        subject=subject,
        nodes=-there,
        pods=-whole,
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
