"""Who stands where: free machines of reservations and on demand, counted from configuration and records."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from provisioner.clouds.simulated.config import Config, Reservation
from provisioner.clouds.simulated.records import Machine, Memory, Stock


@dataclass(frozen=True, slots=True)
class Room:
    """A view of the cloud at one instant. Rack "" is the place of machines whose zone has no racks for their shape."""

    config: Config
    memory: Memory
    now: datetime

    def reserved_used(self, reservation: Reservation) -> Counter[str]:
        """Everybody's machines in the reservation, by rack."""
        ours = Counter(machine.rack for machine in self._occupying() if machine.order.reservation == reservation.id)
        return ours + Counter(reservation.outside)

    def reserved_free(self, reservation: Reservation) -> dict[str, int]:
        used = self.reserved_used(reservation)
        return {rack: total - used[rack] for rack, total in reservation.room().items()}

    def on_demand_running(self, shape: str, zone: str | None = None) -> list[Machine]:
        machines = (
            machine for machine in self._occupying() if machine.order.reservation is None and machine.order.shape == shape
        )
        return [machine for machine in machines if zone in (None, machine.order.zone)]

    def unreserved(self, zone: str, shape: str) -> dict[str, int]:
        """Slots by rack that neither a reservation holds nor an on-demand machine occupies."""
        left = Counter(self.config.slots(zone, shape))
        for reservation in self.memory.reservations.values():
            if (reservation.zone, reservation.shape) == (zone, shape):
                left.subtract(reservation.room())
        left.subtract(machine.rack for machine in self.on_demand_running(shape, zone))
        return {rack: left[rack] for rack in self.config.slots(zone, shape)}

    def on_demand_free(self, stock: Stock) -> int:
        """How many more the cloud would sell on demand."""
        limits = []
        if stock.count is not None:
            limits.append(stock.count - len(self.on_demand_running(stock.shape, stock.zone)))
        if self.config.slots(stock.zone, stock.shape):
            limits.append(sum(self.unreserved(stock.zone, stock.shape).values()))
        return max(0, min(limits, default=0))

    def on_demand_places(self, stock: Stock, count: int, token: str) -> list[str]:
        """Racks of up to `count` new machines, scattered over the zone as luck (the token) will have it."""
        count = min(count, self.on_demand_free(stock))
        if not self.config.slots(stock.zone, stock.shape):
            return [""] * count
        slots = [(rack, number) for rack, free in self.unreserved(stock.zone, stock.shape).items() for number in range(free)]
        slots.sort(key=lambda slot: hashlib.sha256(f"{token}/{slot}".encode()).digest())
        return [rack for rack, _ in slots[:count]]

    def reserved_places(self, reservation: Reservation, domain: dict[str, str], count: int) -> list[str]:
        """Racks of up to `count` new machines inside `domain`, emptiest rack first."""
        free = sorted(self.reserved_free(reservation).items(), key=lambda item: (-item[1], item[0]))
        places: list[str] = []
        for rack, number in free:
            if domain.items() <= self.config.place_labels(reservation.zone, rack).items():
                places += [rack] * number
        return places[:count]

    def problems(self, reservation: Reservation) -> str:
        """Why the reservation can't be as it stands, "" if it can: what is in use fits in it, and it in its zone's racks."""
        zone = self.config.zone(reservation.zone)
        if zone is None:
            return f"zone {reservation.zone} is not known"
        if reservation.count is not None and (reservation.racks or self.config.slots(reservation.zone, reservation.shape)):
            return f"zone {zone.name} has racks for {reservation.shape}: give racks instead of count"
        used, room = self.reserved_used(reservation), reservation.room()
        for rack in sorted({*used, *room}):
            if used[rack] > room.get(rack, 0):
                return f"rack {rack or '(none)'} has {used[rack]} machines in use and {room.get(rack, 0)} reserved"
        return self._oversold(reservation)

    def _oversold(self, reservation: Reservation) -> str:
        slots = self.config.slots(reservation.zone, reservation.shape)
        for rack in sorted(reservation.racks):
            if rack not in slots:
                return f"rack {rack} has no slot for {reservation.shape} in zone {reservation.zone}"
            if (left := self.unreserved(reservation.zone, reservation.shape)[rack]) < 0:
                return f"rack {rack} lacks {-left} slots: its {slots[rack]} are reserved or in use on demand"
        return ""

    def _occupying(self) -> list[Machine]:
        return [machine for machine in self.memory.machines.values() if machine.occupies(self.now)]
