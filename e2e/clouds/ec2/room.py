"""Which machines a launch gets: slots of reservations and of on-demand stock. Nothing is changed here."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.catalogue import quota_of, vcpus
from e2e.clouds.ec2.errors import AwsError, conflict, no_capacity, reservation_full
from e2e.clouds.ec2.instances import Spec
from e2e.clouds.ec2.objects import PlacementGroup, Reservation, Stock

SPREAD_LIMIT = 7
"""Instances of a spread group in a zone (cloud.md 1.5)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """`source` as in Instance."""

    source: str
    nodes: tuple[str, ...]
    reservation: Reservation | None = None


def allocate(account: Account, spec: Spec, least: int, most: int, now: datetime) -> list[Slot]:
    """Slots for `least` to `most` machines, as many as there are. Raises AwsError if there are fewer than `least`."""
    group = account.placement_groups.get(spec.group)
    if group is not None and group.strategy == "spread":
        most = _spread_room(account, group, spec, least, most, now)
    if spec.target:
        return _from_target(account, spec, least, most, now)
    slots = [slot for each in _matching(account, spec, now) for slot in free_slots(account, each, now)][:most]
    if spec.preference == "capacity-reservations-only":
        if len(slots) < least:
            raise reservation_full()
        return slots
    return slots + _on_demand(account, spec, least - len(slots), most - len(slots), now)


def free_slots(account: Account, reservation: Reservation, now: datetime) -> list[Slot]:
    """What can really be had of a reservation, in the order of its places."""
    taken = account.taken(reservation.id, now)
    places = _free_places(reservation, (each.nodes for each in taken))
    count = reservation.total - reservation.outside - reservation.broken - len(taken)
    return [Slot(reservation.id, each, reservation) for each in places][: max(count, 0)]


def told_free(account: Account, reservation: Reservation, now: datetime, behind: datetime) -> int:
    """AvailableInstanceCount: as it was a moment ago, broken slots included, or a plain lie."""
    if reservation.told is not None:
        return reservation.told
    if reservation.state_at(now) != "active":
        return 0
    return max(reservation.total - reservation.outside - len(account.taken(reservation.id, behind)), 0)


def places_of(source: Stock | Reservation) -> list[tuple[str, ...]]:
    """One path of network nodes for each machine. Those without a told place stand in a rack of their own, all of a zone near."""
    total = source.count if isinstance(source, Stock) else source.total
    told = [place.nodes for place in source.places for _ in range(place.count)]
    rest = (f"{source.zone}/spine", f"{source.zone}/block", f"{source.key}/rack")
    return (told + [rest] * total)[:total]


def _from_target(account: Account, spec: Spec, least: int, most: int, now: datetime) -> list[Slot]:
    """The reservation named, or nothing (cloud.md 1.1)."""
    found = account.reservations.get(spec.target)
    if found is None:
        raise AwsError("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{spec.target}' does not exist")
    if found.state_at(now) != "active":
        text = f"The capacity reservation '{spec.target}' is in state {found.state_at(now)}"
        raise AwsError("InvalidCapacityReservationState.Unavailable", text)
    if (found.kind == "capacity-block") != (spec.market == "capacity-block"):
        raise conflict(f"MarketType {spec.market} doesn't fit the reservation '{spec.target}' of type {found.kind}")
    if not _fits(found, spec) or found.launchable is False:
        raise reservation_full()
    if _group_arn(account, spec) != found.placement_group_arn:
        raise no_capacity(spec.type, spec.zone)  # cloud.md 1.5: ICE, although the count is above zero
    slots = free_slots(account, found, now)[:most]
    if len(slots) < least:
        raise reservation_full()
    return slots


def _matching(account: Account, spec: Spec, now: datetime) -> list[Reservation]:
    """Reservations that a launch falls into without naming one, largest room first (cloud.md 1.1)."""
    if spec.preference == "none" or spec.market != "on-demand":
        return []
    arn = _group_arn(account, spec)
    found = [
        each
        for each in account.reservations.values()
        if each.kind == "default" and each.state_at(now) == "active" and _fits(each, spec) and each.placement_group_arn == arn
    ]
    named = [each for each in found if spec.target_group in each.groups]
    open_ones = [each for each in found if each.match == "open"]
    kept = named if spec.target_group else open_ones
    return sorted(kept, key=lambda each: (-len(free_slots(account, each, now)), each.id))


def _fits(reservation: Reservation, spec: Spec) -> bool:
    asked = (spec.type, spec.zone, spec.platform, spec.tenancy)
    return (reservation.type, reservation.zone, reservation.platform, reservation.tenancy) == asked


def _group_arn(account: Account, spec: Spec) -> str:
    return account.arn("placement-group", spec.group) if spec.group else ""


def _on_demand(account: Account, spec: Spec, least: int, most: int, now: datetime) -> list[Slot]:
    if most <= 0:
        return []
    stock = account.stock.get(f"{spec.type}/{spec.zone}")
    if stock is None:
        text = f"Your requested instance type ({spec.type}) is not supported in your requested Availability Zone ({spec.zone})."
        raise AwsError("Unsupported", text)
    most = _within_quota(account, spec.type, least, most, now)
    free = stock_places(account, stock, now)
    slots = [Slot(stock.key, each) for each in _near(account, spec, free, now)][:most]
    if len(slots) < least:
        raise no_capacity(spec.type, spec.zone, _zones_with(account, spec, least, now))
    return slots


def stock_places(account: Account, stock: Stock, now: datetime) -> list[tuple[str, ...]]:
    return _free_places(stock, (each.nodes for each in account.taken(stock.key, now)))


def _free_places(source: Stock | Reservation, taken: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    used, free = Counter(taken), []
    for each in places_of(source):
        if used[each] > 0:
            used[each] -= 1
        else:
            free.append(each)
    return free


def _near(account: Account, spec: Spec, free: list[tuple[str, ...]], now: datetime) -> list[tuple[str, ...]]:
    """A cluster group keeps to one spine, densest blocks first; without a group machines come from anywhere."""
    group = account.placement_groups.get(spec.group)
    if group is None or group.strategy != "cluster":
        return _scattered(free)
    members = [each.nodes[0] for each in account.instances.values() if each.spec.group == spec.group and each.holds(now)]
    spines = Counter(each[0] for each in free)
    home = members[0] if members else max(spines, key=lambda spine: spines[spine], default="")
    inside = [each for each in free if each[0] == home]
    return sorted(inside, key=lambda nodes: (-sum(each[:2] == nodes[:2] for each in inside), nodes))


def _scattered(free: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One machine of each rack, then another of each: nobody who asks for no nearness may count on any."""
    seen: Counter[tuple[str, ...]] = Counter()
    rounds = []
    for nodes in free:
        rounds.append((seen[nodes], nodes))
        seen[nodes] += 1
    return [nodes for _, nodes in sorted(rounds)]


def _zones_with(account: Account, spec: Spec, count: int, now: datetime) -> list[str]:
    return [
        each.zone
        for each in account.stock.values()
        if each.type == spec.type and each.zone != spec.zone and len(stock_places(account, each, now)) >= count
    ]


def _within_quota(account: Account, instance_type: str, least: int, most: int, now: datetime) -> int:
    """Machines that the vCPU quota lets through. Reservations count whether used or not (cloud.md 1.1); blocks don't."""
    quota = account.quotas.get(quota_of(instance_type))
    if quota is None:
        return most
    reserved = sum(
        vcpus(each.type) * each.total
        for each in account.reservations.values()
        if each.kind == "default" and each.owner == account.settings.account and each.state_at(now) == "active"
        if quota_of(each.type) == quota.code
    )
    running = sum(
        vcpus(each.spec.type)
        for each in account.instances.values()
        if not each.reservation and not each.block and each.lives(now) and quota_of(each.spec.type) == quota.code
    )
    room = max(quota.value - reserved - running, 0) // vcpus(instance_type)
    if room < max(least, 1):
        text = f"You have requested more vCPU capacity than your current vCPU limit of {quota.value} allows"
        raise AwsError("VcpuLimitExceeded", text)
    return min(room, most)


def _spread_room(account: Account, group: PlacementGroup, spec: Spec, least: int, most: int, now: datetime) -> int:
    there = sum(
        each.spec.group == group.name and each.spec.zone == spec.zone and each.holds(now) for each in account.instances.values()
    )
    if there + least > SPREAD_LIMIT:
        text = f"The limit of instances in this spread placement group is {SPREAD_LIMIT} in each Availability Zone"
        raise AwsError("InsufficientInstanceCapacity", text)
    return min(most, SPREAD_LIMIT - there)
