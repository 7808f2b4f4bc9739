"""What a launch does: checks as EC2 makes them, all-or-nothing counts, one token one purchase, and the faults that strike it."""

import hashlib
from datetime import datetime, timedelta
from functools import partial

import msgspec

from provisioner.clouds.base import InstanceState
from provisioner.clouds.simulated.config import Reservation
from provisioner.clouds.simulated.errors import Refused
from provisioner.clouds.simulated.faults import Fault, Kind, Target, take
from provisioner.clouds.simulated.records import Machine, Stock, TokenUse
from provisioner.clouds.simulated.room import Room
from provisioner.clouds.simulated.wire import LaunchRequest, seconds


def launch(room: Room, order: LaunchRequest) -> tuple[Machine, ...]:
    """Machines that the order buys, or those that its token has bought before. Raises Refused."""
    if (use := room.memory.tokens.get(order.token)) is not None:
        return _bought_before(room, order, use)
    _check(room, order)
    places = _places(room, order)
    machines = tuple(_machine(room, order, number, rack) for number, rack in enumerate(places))
    for machine in machines:
        room.memory.machines.put(machine.id, machine)
    room.memory.tokens.put(order.token, TokenUse(order=order, machines=tuple(machine.id for machine in machines)))
    return machines


def _bought_before(room: Room, order: LaunchRequest, use: TokenUse) -> tuple[Machine, ...]:
    if use.order != order:
        raise Refused("IdempotentParameterMismatch", f"The token {order.token} was used before with other parameters")
    machines = tuple(machine for each in use.machines if (machine := room.memory.machines.get(each)) is not None)
    if all(machine.state(room.now) in (InstanceState.STOPPING, InstanceState.TERMINATED) for machine in machines):
        raise Refused("IdempotentInstanceTerminated", f"The instances of token {order.token} have been terminated")
    return machines


# --- checks ---------------------------------------------------------------------------------------------------------------


def _check(room: Room, order: LaunchRequest) -> None:
    if room.config.zone(order.zone) is None:
        raise Refused("InvalidParameterValue", f"Value ({order.zone}) for parameter zone is invalid")
    if room.config.shape(order.shape) is None:
        raise Refused("InvalidParameterValue", f"Value ({order.shape}) for parameter shape is invalid")
    if order.min_count is not None and order.min_count > order.count:
        raise Refused("InvalidParameterCombination", f"minCount {order.min_count} is greater than count {order.count}")
    if (order.reservation is None) != (order.capacity_type == "on-demand"):
        raise Refused("InvalidParameterCombination", f"capacity type {order.capacity_type} and reservation {order.reservation}")
    if order.reservation is None:
        _check_on_demand(room, order)
    else:
        _check_reserved(room, order, _reservation(room, order.reservation))


def _check_on_demand(room: Room, order: LaunchRequest) -> None:
    if room.memory.stock.get(f"{order.zone}/{order.shape}") is None:
        raise Refused("Unsupported", f"Your requested instance type ({order.shape}) is not supported in zone {order.zone}")
    if extra := order.domain.items() - _wide(room, order).items():
        raise Refused("InvalidParameterCombination", f"the place of on-demand capacity can't be chosen: {dict(extra)}")
    quota = room.config.quotas.get(order.shape)
    if quota is not None and len(room.on_demand_running(order.shape)) + order.count > quota:
        raise Refused(
            "InstanceLimitExceeded", f"You have requested more instances than your quota of {quota} allows for {order.shape}"
        )


def _check_reserved(room: Room, order: LaunchRequest, reservation: Reservation) -> None:
    named = (order.shape, order.zone, order.capacity_type)
    if named != (reservation.shape, reservation.zone, reservation.capacity_type):
        raise Refused(
            "InvalidParameterCombination",
            f"reservation {reservation.id} holds {(reservation.shape, reservation.zone, reservation.capacity_type)}, not {named}",
        )
    known = msgspec.structs.astuple(room.config.topology_labels)
    wide = _wide(room, order)
    if extra := {key for key, value in order.domain.items() if key not in known and wide.get(key) != value}:
        raise Refused("InvalidParameterCombination", f"reservation {reservation.id} can't be narrowed by {sorted(extra)}")
    if (reservation.starts and room.now < reservation.starts) or (reservation.ends and reservation.ends <= room.now):
        raise Refused("InvalidCapacityReservationState.Unavailable", f"The reservation {reservation.id} is not active now")


def _wide(room: Room, order: LaunchRequest) -> dict[str, str]:
    """Topology labels that hold wherever the order lands."""
    return {**room.config.place_labels(order.zone, ""), **room.config.region_labels()}


def _reservation(room: Room, identity: str) -> Reservation:
    reservation = room.memory.reservations.get(identity)
    if reservation is None:
        raise Refused("InvalidCapacityReservationId.NotFound", f"The capacity reservation {identity} does not exist")
    return reservation


# --- places ---------------------------------------------------------------------------------------------------------------


def _places(room: Room, order: LaunchRequest) -> list[str]:
    """The rack of each machine that is delivered, fewer than the minimum only by a fault."""
    if (dry := _strike(room, order, "stock-out")) is not None:
        raise _short(order, dry.message or "")
    places = _room_for(room, order)
    if len(places) < (order.min_count or order.count):
        raise _short(order, "")
    if (partial := _strike(room, order, "partial")) is not None:
        places = places[: partial.deliver]
    if not places:
        raise _short(order, "")
    return places


def _room_for(room: Room, order: LaunchRequest) -> list[str]:
    if order.reservation is not None:
        narrow = {key: value for key, value in order.domain.items() if key not in _wide(room, order)}
        return room.reserved_places(_reservation(room, order.reservation), narrow, order.count)
    stock = room.memory.stock.get(f"{order.zone}/{order.shape}")
    assert isinstance(stock, Stock), "checked before"
    return room.on_demand_places(stock, order.count, order.token)


def _short(order: LaunchRequest, words: str) -> Refused:
    if order.reservation is not None:
        text = "The requested reservation does not have sufficient compatible and available capacity for this request."
        return Refused("ReservationCapacityExceeded", words or text)
    text = f"We currently do not have sufficient {order.shape} capacity in the zone you requested ({order.zone})."
    return Refused("InsufficientInstanceCapacity", words or text)


# --- machines -------------------------------------------------------------------------------------------------------------


def _machine(room: Room, order: LaunchRequest, number: int, rack: str) -> Machine:
    shape = room.config.shape(order.shape)
    assert shape is not None, "checked before"
    identity = "i-" + hashlib.sha256(f"{order.token}/{number}".encode()).hexdigest()[:17]
    strike = partial(_strike, room, order, machine=identity)
    late, invisible, ill = strike("late"), strike("invisible"), strike("unhealthy")
    delays = room.config.delays
    running = _later(room.now, seconds(delays.launch) + (late.wait(0) if late else 0))
    fewer, wrong = strike("fewer-devices"), strike("wrong-rack")
    return Machine(
        id=identity,
        order=order,
        rack=rack,
        said_rack=wrong.rack or "" if wrong else rack,
        devices={**shape.devices, **(fewer.devices or {} if fewer else {})},
        launched_at=room.now,
        visible_at=_later(room.now, seconds(delays.visible) + (invisible.wait(0) if invisible else 0)),
        running_at=running,
        joins_at=None if strike("never-joins") else _later(running, seconds(delays.join)),
        becomes_ready=strike("never-ready") is None,
        condition=ill.condition if ill else None,
    )


def _strike(room: Room, order: LaunchRequest, kind: Kind, machine: str = "") -> Fault | None:
    target = Target("launch", order.shape, order.zone, order.reservation, machine)
    return take(room.memory.faults, (kind,), target, room.now)


def _later(start: datetime, delay: float) -> datetime:
    return start + timedelta(seconds=delay)
