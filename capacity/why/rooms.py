"""How many pods go somewhere by count alone, each pod set as if it had the place to itself: bounds for what can be at all."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from capacity.model import HOSTNAME, Constraint, Node
from capacity.topology import required_key
from capacity.why.lots import Lot, Survey

_PASSING = {
    Constraint.BOOKED,
    Constraint.NOT_READY,
    Constraint.CORDONED,
    Constraint.NOT_STARTED,
    Constraint.NOT_AVAILABLE,
    Constraint.LIMIT,
    Constraint.PORT,
    Constraint.IN_USE,
    Constraint.RUNNING_PODS,
}
"""What time alone may mend."""

Slots = Callable[[Lot, int], int]


def now(lot: Lot, index: int) -> int:
    """Pods of the pod set that go on one node of the lot as things are."""
    return lot.verdicts[index].pods


def but_for(*constraints: Constraint) -> Slots:
    """Pods that would go there at most if it weren't for these constraints."""

    def slots(lot: Lot, index: int) -> int:
        verdict = lot.verdicts[index]
        return verdict.size if verdict.constraint in constraints else verdict.pods

    return slots


def at_best(lot: Lot, index: int) -> int:
    """Pods that would go there at most if everything were free."""
    verdict = lot.verdicts[index]
    return verdict.whole if verdict.constraint is None or verdict.constraint in _PASSING else 0


def by_domain(seen: Survey, index: int, key: str | None, slots: Slots = now) -> dict[str, int]:
    """Room for one pod set in each domain of `key` that has any; all in one, "", without a key."""
    found: dict[str, int] = {}
    most = seen.pod_sets[index].count
    for lot, count in seen.alike:
        where = lot.where[key] if key else ""
        held = min(most, slots(lot, index))
        if where is not None and held:
            new_host = key == HOSTNAME and count > 1  # each node to be bought is a host of its own
            found[where] = max(found.get(where, 0), held) if new_host else found.get(where, 0) + held * count
    return found


def together(seen: Survey, indexes: Iterable[int], key: str) -> dict[str, int]:
    """Room for several pod sets in each domain of `key`, of each no more than it has pods."""
    found: dict[str, int] = {}
    for index in indexes:
        for where, room in by_domain(seen, index, key).items():
            found[where] = found.get(where, 0) + min(room, seen.pod_sets[index].count)
    return found


def most(seen: Survey, index: int, slots: Slots = now) -> int:
    """How many pods of one pod set could go, in one domain of its level."""
    pod_set = seen.pod_sets[index]
    rooms = by_domain(seen, index, required_key(pod_set, seen.preferences), slots)
    return min(pod_set.count, max(rooms.values(), default=0))


def enough(seen: Survey, slots: Slots = now) -> bool:
    """Whether each pod set alone would have room: what fails here needs no planning."""
    return all(most(seen, index, slots) >= pod_set.count for index, pod_set in enumerate(seen.pod_sets))


def holding_enough(seen: Survey) -> set[str]:
    """The bookings of which one alone has to go for each pod set alone to have room."""
    held: dict[str, list[Lot]] = {}
    for lot in seen.lots:
        if isinstance(lot.subject, Node) and lot.subject.booked_by:
            held.setdefault(lot.subject.booked_by, []).append(lot)
    found = set(held)
    for index, pod_set in enumerate(seen.pod_sets):
        key = required_key(pod_set, seen.preferences)
        rooms = by_domain(seen, index, key, but_for(Constraint.RUNNING_PODS))  # whose pods these are isn't known here
        if max(rooms.values(), default=0) < pod_set.count:
            found = {name for name in found if _with(rooms, held[name], index, key) >= pod_set.count}
    return found


def _with(rooms: Mapping[str, int], lots: Sequence[Lot], index: int, key: str | None) -> int:
    """The most room in one domain once these lots are free."""
    more: dict[str, int] = {}
    for lot in lots:
        where = lot.where[key] if key else ""
        if where is not None:
            more[where] = more.get(where, rooms.get(where, 0)) + lot.verdicts[index].whole * lot.count
    return max(more.values(), default=0)


def enough_scattered(seen: Survey) -> bool:
    """Whether each pod set alone would have room without its level and the rules among pods."""
    anywhere = but_for(Constraint.TOPOLOGY, Constraint.RUNNING_PODS)
    rooms = (by_domain(seen, index, None, anywhere) for index in range(len(seen.pod_sets)))
    return all(room.get("", 0) >= pod_set.count for room, pod_set in zip(rooms, seen.pod_sets, strict=True))
