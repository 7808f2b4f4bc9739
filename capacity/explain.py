"""Why there is no plan: one reason of the closed set, the numbers behind it, and changes that were planned again and do fit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from capacity.findings import Seen, considered, prepaid_misfits, survey, usable
from capacity.model import Gang, Preferences, Reason, ReservationUse, Shortfall, Snapshot
from capacity.quantity import dollars
from capacity.relax import cheapest, emptied, most_pods, relaxations, unbound
from capacity.search import by_luck, search
from capacity.solver import SearchLimitError
from capacity.supply import gather, safe_mixes
from capacity.topology import required_key


def explain(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Shortfall:
    """The shortfall of a gang for which `search` has found nothing.

    A level that no domain could meet even if everything were free is told by what there is in all: that reason must not
    change with what others hold at the moment.
    """
    found = most_pods(gang, snapshot, preferences)
    seen = survey(gang, snapshot, preferences)
    hopeless = _hopeless(gang, snapshot, preferences)
    levels = _unmet(gang, emptied(snapshot) if hopeless else snapshot, preferences)
    reason, message = levels or _reason(gang, snapshot, preferences, found, seen)
    competes = usable(seen)
    parts = [message, *_reservations(snapshot, competes, reason)]
    return Shortfall(
        reason=reason,
        message="; ".join(parts),
        findings=tuple(considered(seen)),
        hopeless=hopeless,
        competes=competes,
        relaxations=tuple(relaxations(gang, snapshot, preferences, found)),
    )


def _hopeless(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> bool:
    """Not even a lucky order would do if everything were free; when that can't be told, there is hope."""
    try:
        empty = emptied(snapshot)
        return search(gang, empty, preferences) is None and not by_luck(gang, empty, preferences)
    except SearchLimitError:
        return False


def _unmet(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> tuple[Reason, str] | None:
    """The gang would fit if only no level were required."""
    bound = any(required_key(pod_set, preferences) for pod_set in gang.pod_sets)
    if bound and cheapest(*unbound(gang, snapshot, preferences)):
        return Reason.TOPOLOGY_UNSATISFIED, "; ".join(_levels(gang, snapshot, preferences))
    return None


def _reason(
    gang: Gang, snapshot: Snapshot, preferences: Preferences, found: dict[str, int], seen: Sequence[Seen]
) -> tuple[Reason, str]:
    total, now = sum(pod_set.count for pod_set in gang.pod_sets), sum(found.values())
    misfits = prepaid_misfits(seen, total - now)
    if misfits:
        return Reason.RESERVATION_MISMATCH, f"{now} of {total} pods fit now; {misfits}"
    unlimited = cheapest(gang, snapshot, replace(preferences, price_ceiling=None))
    if preferences.price_ceiling is not None and unlimited is not None:
        least, ceiling = dollars(unlimited.cost), dollars(preferences.price_ceiling)
        return (
            Reason.GANG_INCOMPLETE,
            f"{now} of {total} pods can be had under the price ceiling of ${ceiling}/h; all would cost ${least}/h",
        )
    return Reason.GANG_INCOMPLETE, f"{now} of {total} pods can be had now{_missing(gang, found)}"


def _missing(gang: Gang, found: dict[str, int]) -> str:
    missing = [f"{one.count - found[one.name]} of {one.name}" for one in gang.pod_sets if found.get(one.name, 0) < one.count]
    return f"; missing {', '.join(missing)}" if len(gang.pod_sets) > 1 and missing else ""


def _levels(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Iterator[str]:
    """For each required level: how many pods it must hold, and the domain that holds most."""
    for key in sorted({key for pod_set in gang.pod_sets if pod_set.count and (key := required_key(pod_set, preferences))}):
        bound = [pod_set for pod_set in gang.pod_sets if pod_set.count and required_key(pod_set, preferences) == key]
        wanted = sum(pod_set.count for pod_set in bound)
        rooms = _rooms(replace(gang, pod_sets=tuple(bound)), snapshot, preferences, key)
        if not rooms:
            yield f"needs {wanted} pods in one {key}; nothing that can be had is known to carry that label"
            continue
        name, room = max(rooms.items(), key=lambda item: (item[1], item[0]))
        together = "" if room < wanted else ", but not for all of them together"
        yield f"needs {wanted} pods in one {key}; largest has room for {room} ({name}){together}"


def _rooms(gang: Gang, snapshot: Snapshot, preferences: Preferences, key: str) -> dict[str, int]:
    """Pods of the gang that each domain of `key` could hold, each pod set by itself."""
    slots: dict[str, list[int]] = {}
    for cell in gather(gang, gang.pod_sets, snapshot, preferences, (key,), safe_mixes):
        if (value := cell.domains[0]) is not None:
            held = [max(column) * cell.limit for column in zip(*cell.patterns, strict=True)]
            slots[value] = [old + new for old, new in zip(slots.get(value, [0] * len(held)), held, strict=True)]
    return {value: sum(min(n, one.count) for n, one in zip(held, gang.pod_sets, strict=True)) for value, held in slots.items()}


def _reservations(snapshot: Snapshot, competes: frozenset[str], reason: Reason) -> Iterator[str]:
    """How the reservations that matter are used up: those that the gang could use, or all where they don't suit it."""
    mine = {offering.reservation for offering in snapshot.offerings if offering.name in competes}
    mine |= {node.reservation for node in snapshot.nodes if node.name in competes}
    wanted = [use for use in snapshot.reservations if use.name in mine or reason is Reason.RESERVATION_MISMATCH]
    yield from (account(use) for use in _first(wanted, 3))


def _first(uses: Sequence[ReservationUse], most: int) -> list[ReservationUse]:
    return sorted(uses, key=lambda use: (-use.free, use.name))[:most]


def account(use: ReservationUse) -> str:
    """One line that adds up: `cr-0abc: 200 = 128 booked + 8 outside + 4 quarantined + 60 free, 4 kept spare`."""
    parts = ((use.booked, "booked"), (use.outside, "outside"), (use.quarantined, "quarantined"))
    shown = [f"{count} {name}" for count, name in parts if count] + [f"{use.free} free"]
    return f"{use.name}: {use.total} = {' + '.join(shown)}" + (f", {use.spare} kept spare" if use.spare else "")
