"""The simulated cloud itself, without clock, network or disk: every call takes the time and changes the memory."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from provisioner.clouds.simulated.config import Config, ConfigError, Reservation, Zone
from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.faults import Fault, FaultRequest, Target, begin, take
from provisioner.clouds.simulated.launch import launch
from provisioner.clouds.simulated.records import Announcement, Change, Machine, Memory, ReservationChange, Stock
from provisioner.clouds.simulated.room import Room
from provisioner.clouds.simulated.wire import AnnouncedView, LaunchRequest, seconds

DESCRIBED_AFTER_DEATH = timedelta(hours=1)


class World:
    """Rules of the cloud over its memory. Methods raise Refused; a refused call changes nothing but the faults it used up."""

    def __init__(self, config: Config, memory: Memory) -> None:
        self.config = config
        self.memory = memory

    def room(self, now: datetime) -> Room:
        return Room(self.config, self.memory, now)

    def seed(self, now: datetime, *, fresh: bool) -> None:
        """Takes what the memory doesn't know yet from the configuration, its faults only when fresh. Raises ConfigError."""
        for reservation in self.config.reservations:
            if reservation.id not in self.memory.reservations:
                self.memory.reservations.put(reservation.id, reservation)
        for stock in (stock for zone in self.config.zones for stock in _stock(zone)):
            if stock.key not in self.memory.stock:
                self.memory.stock.put(stock.key, stock)
        for request in self.config.faults if fresh else ():
            self._seed_fault(request, now)
        for reservation in self.memory.reservations.values():
            if problem := self.room(now).problems(reservation):
                raise ConfigError(f"reservation {reservation.id}: {problem}")

    def advance(self, now: datetime) -> None:
        """Does what is due: scheduled changes, and the end of capacity blocks."""
        for change in [change for change in self.memory.changes.values() if change.at <= now]:
            self.memory.changes.drop(change.id)
            self._apply(change, now)
        ended = {
            each.id for each in self.memory.reservations.values() if each.capacity_type == "capacity-block" and _over(each, now)
        }
        machines = list(self.memory.machines.values())
        taken = [each for each in machines if any(said.at <= now for said in each.announced)]
        self._stop([*taken, *(machine for machine in machines if machine.order.reservation in ended)], now)

    def launch(self, order: LaunchRequest, now: datetime) -> tuple[Machine, ...]:
        return launch(self.room(now), order)

    def terminate(self, ids: Sequence[str], now: datetime) -> tuple[Machine, ...]:
        """Stops machines; stopping or gone ones stay as they are. One unknown id fails the whole call, as on EC2."""
        machines = [self.memory.machines.get(each) for each in ids]
        found = [machine for machine in machines if machine is not None and machine.visible_at <= now]
        if unknown := sorted({*ids} - {machine.id for machine in found}):
            raise Refused("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(unknown)}' do not exist")
        self._stop(found, now)
        return tuple(machine for each in ids if (machine := self.memory.machines.get(each)) is not None)

    def described(self, now: datetime, *, tags: Mapping[str, str], ids: Iterable[str] = (), token: str = "") -> list[Machine]:
        """Machines that the cloud tells of, with all these tags and, if given, one of the ids and the token."""
        wanted = {*ids}
        return [
            machine
            for machine in self.memory.machines.values()
            if machine.described(now, DESCRIBED_AFTER_DEATH)
            and tags.items() <= machine.order.tags.items()
            and (not wanted or machine.id in wanted)
            and token in ("", machine.order.token)
        ]

    def progress(self, identity: str, **fields: Any) -> None:
        """Notes how far the Node of a machine is."""
        self.memory.machines.change(identity, **fields)

    # --- control -------------------------------------------------------------------------------------------------------

    def add_fault(self, request: FaultRequest, identity: str, now: datetime) -> Fault:
        fault = begin(request, identity, now)
        if request.rack is not None and request.rack not in self.config.homes:
            words = f"rack {request.rack} is not known: use one of {', '.join(self.config.homes)}"
            raise Refused("InvalidParameterValue", words)
        self.memory.faults.put(identity, fault)
        return fault

    def clear_faults(self, ids: Iterable[str], now: datetime) -> None:
        """Ends faults; terminations that one of them held back go on."""
        for identity in ids:
            if identity not in self.memory.faults:
                raise Refused("ResourceNotFound", f"there is no fault {identity}")
            self.memory.faults.drop(identity)
            for machine in [each for each in self.memory.machines.values() if each.hung_by == identity and each.occupies(now)]:
                self.memory.machines.change(machine.id, hung_by="", gone_at=now + self._termination())

    def change_reservation(self, change: ReservationChange, now: datetime) -> Reservation:
        """Raises Refused when the reservation isn't known or would not hold what is in use."""
        before = self.memory.reservations.get(change.id)
        if before is None:
            raise Refused("InvalidCapacityReservationId.NotFound", f"The capacity reservation {change.id} does not exist")
        fields = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}
        after = self.memory.reservations.change(change.id, **fields)
        if problem := self.room(now).problems(after):
            self.memory.reservations.put(change.id, before)
            raise Refused("IncorrectState", f"reservation {change.id}: {problem}")
        return after

    def announce(self, order: Announcement, now: datetime) -> tuple[Machine, ...]:
        """Tells of machines that the cloud will take back; it does so when the time comes. Raises Refused."""
        if unknown := sorted({*order.ids} - {machine.id for machine in self.memory.machines.values()}):
            raise Refused("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(unknown)}' do not exist")
        said = AnnouncedView(kind=order.kind, at=now + timedelta(seconds=seconds(order.after)), words=order.words)
        return tuple(self.memory.machines.change(each, announced=(said,)) for each in order.ids)

    def set_stock(self, stock: Stock) -> Stock:
        if self.config.zone(stock.zone) is None or self.config.shape(stock.shape) is None:
            raise Refused("InvalidParameterValue", f"zone {stock.zone} or shape {stock.shape} is not known")
        self.memory.stock.put(stock.key, stock)
        return stock

    def schedule(self, change: Change) -> Change:
        self.memory.changes.put(change.id, change)
        return change

    # --- inside --------------------------------------------------------------------------------------------------------

    def _seed_fault(self, request: FaultRequest, now: datetime) -> None:
        try:
            self.add_fault(request, f"config-{len(self.memory.faults)}", now)
        except Refused as error:
            raise ConfigError(f"faults: {error.message}") from error

    def _apply(self, change: Change, now: datetime) -> None:
        try:
            if change.reservation is not None:
                self.change_reservation(change.reservation, now)
            if change.stock is not None:
                self.set_stock(change.stock)
        except Refused:
            return  # what made it impossible came after it was scheduled; the reservation stays as it is

    def _stop(self, machines: Iterable[Machine], now: datetime) -> None:
        for machine in [machine for machine in machines if machine.stopping_at is None]:
            order = machine.order
            hang = take(
                self.memory.faults,
                ("hang-termination",),
                Target("terminate", order.shape, order.zone, order.reservation, machine.id),
                now,
            )
            gone = hang.ends if hang else now + self._termination()
            self.memory.machines.change(machine.id, stopping_at=now, gone_at=gone, hung_by=hang.id if hang else "")

    def _termination(self) -> timedelta:
        return timedelta(seconds=seconds(self.config.delays.terminate))


def _stock(zone: Zone) -> list[Stock]:
    return [Stock(zone=zone.name, **msgspec.structs.asdict(each)) for each in zone.on_demand]


def _over(reservation: Reservation, now: datetime) -> bool:
    return reservation.ends is not None and reservation.ends <= now
