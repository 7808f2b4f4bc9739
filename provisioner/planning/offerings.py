"""What a pool can sell right now, from its cloud's inventory: offerings, how reservations are used up, and shared budgets.

Free is what the cloud says is free, minus what is on its way but not counted there yet, minus spares, and nothing at all while
the key is backed off or the pool is blocked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from capacity.model import ZONE, CapacityType, Labels, Offering, ReservationUse, Resources, Running, Shape
from kube import core, ours
from kube.pools import launched_labels
from kube.times import clock, seconds
from provisioner.buying.backoff import Key
from provisioner.clouds.base import CloudShape, Reservation
from provisioner.nodes.health import ailment
from provisioner.state import Known
from provisioner.view import ALIVE, View, in_flight, quarantined

UNTOLD = 100_000
"""How many machines an on-demand market is taken to have when the cloud doesn't tell."""


@dataclass(frozen=True, slots=True)
class Offers:
    offerings: tuple[Offering, ...] = ()
    reservations: tuple[ReservationUse, ...] = ()


@dataclass(frozen=True, slots=True)
class _Slot:
    """One place of one source: `free` and `total` machines of `shape` with `domain` labels."""

    name: str
    source: ours.Source
    shape: CloudShape
    domain: Labels
    free: int
    total: int
    reservation: Reservation | None = None


@dataclass(frozen=True)
class Market:
    """A pool as its cloud sells it. `blocked` says why nothing may be bought at all; `overhead` and `company` are of the
    DaemonSets' pods, by shape name.
    """

    view: View
    pool: ours.CapacityPool
    known: Known
    overhead: Mapping[str, Resources] = field(default_factory=dict)
    company: Mapping[str, tuple[Running, ...]] = field(default_factory=dict)
    blocked: str = ""

    @property
    def name(self) -> str:
        return self.pool.metadata.name

    def shapes(self) -> Mapping[str, CloudShape]:
        """The shapes that the pool may use; all of the cloud's when it names none."""
        wanted = set(self.pool.spec.shapes)
        return {s.shape.name: s for s in self.known.inventory.shapes if not wanted or s.shape.name in wanted}

    def labels(self, shape: Shape) -> Labels:
        """What nodes of the shape are sure to bear in this pool."""
        return {**shape.labels, **launched_labels(self.pool)}


def offers(market: Market) -> Offers:
    """All offerings of the pool, those that can't be had now included: a plan's explanation needs them."""
    found: list[Offering] = []
    uses: list[ReservationUse] = []
    for source in market.pool.spec.sources:
        slots = tuple(_slots(market, source))
        ready = _without_spares(_without_in_flight(market, slots), source.spare_nodes)
        found += [_offering(market, slot) for slot in ready]
        uses += [_use(market, source, reservation) for reservation in _reservations(market, source)]
    return Offers(tuple(found), tuple(uses))


# --- slots ----------------------------------------------------------------------------------------------------------------


def _slots(market: Market, source: ours.Source) -> Iterable[_Slot]:
    if CapacityType(source.capacity_type).prepaid:
        for reservation in _reservations(market, source):
            yield from _reserved(market, source, reservation)
    else:
        yield from _stocked(market, source)


def _reservations(market: Market, source: ours.Source) -> Iterable[Reservation]:
    shapes = market.shapes()
    for reservation in market.known.inventory.reservations:
        if reservation.id in source.reservation_ids and reservation.shape in shapes:
            yield reservation


def _reserved(market: Market, source: ours.Source, reservation: Reservation) -> Iterable[_Slot]:
    """One slot a domain when the cloud tells where its machines are, else one for the zone."""
    totals = reservation.total_by_domain or ((dict[str, str](), reservation.total),)
    if not reservation.free_by_domain:
        totals = ((dict[str, str](), reservation.total),)
    free = {_place(labels): count for labels, count in reservation.free_by_domain}
    free = free or {(): max(0, reservation.total - reservation.used)}
    shape = market.shapes()[reservation.shape]
    for labels, total in totals:
        place = _place(labels)
        name = "/".join(
            (market.name, source.name, reservation.id, reservation.zone, *(value for key, value in place if key != ZONE))
        )
        yield _Slot(name, source, shape, {ZONE: reservation.zone, **labels}, free.get(place, 0), total, reservation)


def _place(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(labels.items())


def _stocked(market: Market, source: ours.Source) -> Iterable[_Slot]:
    shapes = market.shapes()
    for stock in market.known.inventory.stock:
        if stock.shape not in shapes:
            continue
        name = "/".join((market.name, source.name, stock.shape, stock.zone))
        free = UNTOLD if stock.available is None else stock.available
        total = UNTOLD if stock.available is None else free + _running(market, stock.shape, stock.zone)
        yield _Slot(name, source, shapes[stock.shape], {ZONE: stock.zone}, free, total)


def _running(market: Market, shape: str, zone: str) -> int:
    machines = market.known.instances
    return sum(m.state in ALIVE and m.reservation is None and (m.shape, m.zone) == (shape, zone) for m in machines)


def _without_in_flight(market: Market, slots: tuple[_Slot, ...]) -> tuple[_Slot, ...]:
    """Takes off what any booking has on order here; what names no slot of today goes off the fullest of its reservation."""
    flying: dict[str, int] = {}
    for booking in market.view.live:
        for purchase in booking.spec.purchases:
            name = _slot_of(purchase, slots)
            if name:
                flying[name] = flying.get(name, 0) + in_flight(booking, purchase, market.view.seen)
    return tuple(replace(slot, free=max(0, slot.free - flying.get(slot.name, 0))) for slot in slots)


def _slot_of(purchase: ours.BookedPurchase, slots: tuple[_Slot, ...]) -> str | None:
    if any(slot.name == purchase.offering for slot in slots):
        return purchase.offering
    if not purchase.reservation_id:
        return None
    same = [slot for slot in slots if slot.reservation and slot.reservation.id == purchase.reservation_id]
    return max(same, key=lambda slot: (slot.free, slot.name)).name if same else None


def _without_spares(slots: tuple[_Slot, ...], spare: int) -> tuple[_Slot, ...]:
    """Keeps `spare` machines of the source back, out of the emptiest places first: large free domains stay whole for gangs."""
    kept: dict[str, int] = {}
    for slot in sorted(slots, key=lambda slot: (slot.free, slot.name)):
        kept[slot.name] = min(slot.free, spare)
        spare -= kept[slot.name]
    return tuple(replace(slot, free=slot.free - kept[slot.name]) for slot in slots)


# --- offerings ------------------------------------------------------------------------------------------------------------


def _offering(market: Market, slot: _Slot) -> Offering:
    reservation = slot.reservation
    unavailable = market.blocked or _backed_off(market, slot)
    kind = CapacityType(slot.source.capacity_type)
    return Offering(
        name=slot.name,
        pool=market.name,
        source=slot.source.name,
        shape=_loaded(market, slot.shape.shape),
        capacity_type=kind,
        available=0 if unavailable else slot.free,
        total=slot.total,
        price=0 if kind.prepaid else slot.shape.on_demand_price,
        domain=slot.domain,
        reservation=reservation.id if reservation else None,
        starts=reservation.starts if reservation else None,
        ends=ends(slot.source, reservation) if reservation else None,
        unavailable=unavailable,
    )


def _loaded(market: Market, shape: Shape) -> Shape:
    """The shape as its nodes are in this pool: with the pool's label, and the DaemonSets on them."""
    overhead, company = market.overhead.get(shape.name, {}), market.company.get(shape.name, ())
    return replace(shape, labels=market.labels(shape), overhead=overhead, pods=company)


def ends(source: ours.Source, reservation: Reservation) -> int | None:
    """When machines of the reservation must be empty, epoch seconds: its end less the source's drain time."""
    return None if reservation.ends is None else reservation.ends - seconds(source.drain_before_end)


def _backed_off(market: Market, slot: _Slot) -> str:
    reservation = slot.reservation.id if slot.reservation else ""
    key = Key(market.name, slot.source.name, slot.shape.shape.name, slot.domain[ZONE], reservation)
    entry = market.view.backoffs.active(key, market.view.now)
    if entry is None:
        return ""
    now = market.view.now
    return f"{entry.kind} since {clock(entry.since, now)}, next try {clock(entry.until, now)}: {entry.message}"


# --- how a reservation is used --------------------------------------------------------------------------------------------


def _use(market: Market, source: ours.Source, reservation: Reservation) -> ReservationUse:
    """total = booked + outside + quarantined + free; idle machines of ours count as free, for the next gang can have them."""
    view = market.view
    ours_there = [m for m in view.instance_of.values() if m.reservation == reservation.id and m.state in ALIVE]
    there = {machine.provider_id for machine in ours_there}
    sick = {node.spec.provider_id for node in view.nodes if node.spec.provider_id in there and barred(view, node)} | set(
        _bad(view)
    )
    bad = sum(machine.provider_id in sick for machine in ours_there)
    held = sum(machine.provider_id in view.holder and machine.provider_id not in sick for machine in ours_there)
    booked = held + sum(_ordered(view, reservation.id))
    outside = max(0, reservation.used - len(ours_there))
    free = max(0, reservation.total - booked - outside - bad)
    return ReservationUse(
        name=reservation.id,
        shape=reservation.shape,
        zone=reservation.zone,
        total=reservation.total,
        booked=booked,
        outside=outside,
        quarantined=bad,
        spare=min(free, source.spare_nodes),
        free=free,
    )


def barred(view: View, node: core.Node) -> bool:
    """Whether no plan may take the node: it is quarantined, or sick and held by nobody, so that nobody quarantines it."""
    if quarantined(node):
        return True
    pools = () if view.booked_by(node) else view.pools_of.get(node.metadata.name, ())
    return any(ailment(node, view.pools[pool]) for pool in pools)


def _bad(view: View) -> Iterable[str]:
    return (machine.provider_id for booking in view.live for machine in booking.status.instances if machine.state == "Bad")


def _ordered(view: View, reservation: str) -> Iterable[int]:
    for booking in view.live:
        for purchase in booking.spec.purchases:
            if purchase.reservation_id == reservation:
                yield in_flight(booking, purchase, view.seen)
