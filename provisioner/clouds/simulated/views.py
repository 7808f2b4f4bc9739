"""What the cloud tells of itself, built from its memory."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from provisioner.clouds.simulated.config import Config, Reservation, Shape
from provisioner.clouds.simulated.records import Machine, Stock
from provisioner.clouds.simulated.room import Room
from provisioner.clouds.simulated.wire import DomainCount, InstanceView, InventoryView, ReservationView, ShapeView, StockView


def provider_id(machine: Machine) -> str:
    return f"simulated:///{machine.order.zone}/{machine.id}"


def instance(config: Config, machine: Machine, now: datetime) -> InstanceView:
    """`domain` is where it stands in truth, whatever its Node says."""
    order = machine.order
    return InstanceView(
        id=machine.id,
        provider_id=provider_id(machine),
        node=machine.id,
        state=machine.state(now),
        shape=order.shape,
        zone=order.zone,
        capacity_type=order.capacity_type,
        token=order.token,
        launched_at=machine.launched_at,
        reservation=order.reservation,
        domain=config.place_labels(order.zone, machine.rack),
        tags=order.tags,
        announced=machine.announced,
    )


def inventory(room: Room) -> InventoryView:
    """Shapes that can be had somewhere, reservations, and on-demand stock."""
    reservations, stock = list(room.memory.reservations.values()), list(room.memory.stock.values())
    offered = {each.shape for each in reservations} | {each.shape for each in stock}
    return InventoryView(
        shapes=tuple(shape_view(room.config, shape) for shape in room.config.shapes if shape.name in offered),
        reservations=tuple(reservation_view(room, each) for each in reservations),
        stock=tuple(_stock(room, each) for each in stock),
    )


def shape_view(config: Config, shape: Shape) -> ShapeView:
    return ShapeView(
        name=shape.name,
        allocatable=shape.allocatable | {name: str(count) for name, count in shape.devices.items()},
        labels=config.shape_labels(shape),
        taints=shape.taints,
        startup_taints=shape.startup_taints,
        price_per_hour=shape.price_per_hour,
    )


def reservation_view(room: Room, reservation: Reservation) -> ReservationView:
    total, free = reservation.room(), room.reserved_free(reservation)
    return ReservationView(
        id=reservation.id,
        shape=reservation.shape,
        zone=reservation.zone,
        capacity_type=reservation.capacity_type,
        total=sum(total.values()),
        used=sum(total.values()) - sum(free.values()),
        total_by_domain=_by_domain(room.config, reservation, total),
        free_by_domain=_by_domain(room.config, reservation, free),
        starts=reservation.starts,
        ends=reservation.ends,
    )


def _by_domain(config: Config, reservation: Reservation, counts: Mapping[str, int]) -> tuple[DomainCount, ...]:
    racks: Iterable[tuple[str, int]] = ((rack, count) for rack, count in counts.items() if rack)
    return tuple(DomainCount(domain=config.place_labels(reservation.zone, rack), count=count) for rack, count in racks)


def _stock(room: Room, stock: Stock) -> StockView:
    available = room.on_demand_free(stock) if stock.told else None
    return StockView(shape=stock.shape, zone=stock.zone, available=available)
