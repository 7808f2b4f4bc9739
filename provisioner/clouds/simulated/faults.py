"""What goes wrong on purpose: faults are scripted by the configuration file or by POST, and used up as they strike."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta, field

from kube.ours import Duration
from provisioner.clouds.simulated.errors import CODES, Refused
from provisioner.clouds.simulated.tables import Table
from provisioner.clouds.simulated.wire import Count, Strict, seconds

Call = Literal["launch", "terminate", "instances", "inventory"]
Kind = Literal[
    "error",  # the call fails with `code`, before or after it was done
    "timeout",  # no answer for `delay`
    "lost-reply",  # done, then the connection is cut
    "stock-out",  # no capacity, for a reservation if it names one, else on demand
    "partial",  # a launch delivers `deliver` machines, whatever its minimum
    "fewer-devices",  # a machine publishes `devices` instead of its shape's
    "wrong-rack",  # a machine's node says `rack`
    "never-joins",
    "never-ready",
    "unhealthy",  # a machine's node reports `condition`
    "late",  # a machine runs `delay` later
    "invisible",  # a new machine is not described for `delay`
    "hang-termination",  # a machine stays shutting-down until the fault is over
]

TRANSPORT: tuple[Kind, ...] = ("error", "timeout", "lost-reply")
CAPACITY: tuple[Kind, ...] = ("stock-out", "partial")

_NEEDED: dict[str, frozenset[str]] = {
    "error": frozenset({"call", "code"}),
    "timeout": frozenset({"call"}),
    "lost-reply": frozenset({"call"}),
    "partial": frozenset({"deliver"}),
    "fewer-devices": frozenset({"devices"}),
    "wrong-rack": frozenset({"rack"}),
    "unhealthy": frozenset({"condition"}),
    "late": frozenset({"delay"}),
    "invisible": frozenset({"delay"}),
}
_ALLOWED: dict[str, frozenset[str]] = {
    "error": frozenset({"message", "when"}),
    "timeout": frozenset({"when", "delay"}),
    "stock-out": frozenset({"message"}),
}
_PARTICULARS = ("call", "code", "message", "when", "deliver", "devices", "rack", "delay", "condition")
OF_MACHINES: tuple[Kind, ...] = (
    *("fewer-devices", "wrong-rack", "never-joins", "never-ready", "unhealthy", "late", "invisible", "hang-termination"),
)


class NodeCondition(Strict, frozen=True, kw_only=True):
    """A condition in a Node's status."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""


class FaultRequest(Strict, frozen=True, kw_only=True):
    """One fault. It strikes what `shape`, `zone` and `reservation` name (each: any), at most `times` calls or machines, from
    `after` now on, and for as long as `for` says (default: until it is deleted); of machines one in `one_in`, by chance.
    """

    kind: Kind
    shape: str | None = None
    zone: str | None = None
    reservation: str | None = None
    times: Annotated[int, Meta(ge=1)] | None = None
    after: Duration = "0s"
    lasts: Duration | None = field(default=None, name="for")
    call: Call | None = None
    code: str | None = None
    message: str | None = None
    when: Literal["before", "after"] | None = None
    deliver: Count | None = None
    devices: dict[str, Count] | None = None
    rack: str | None = None
    delay: Duration | None = None
    condition: NodeCondition | None = None
    one_in: Annotated[int, Meta(ge=1)] | None = None


class Fault(FaultRequest, frozen=True, kw_only=True):
    """A fault at work. `left` counts what it may still strike, None: without limit."""

    id: str
    starts: datetime
    ends: datetime | None = None
    left: int | None = None

    def active(self, now: datetime) -> bool:
        return self.starts <= now and (self.ends is None or now < self.ends) and self.left != 0

    def wait(self, default: float) -> float:
        """`delay` in seconds."""
        return default if self.delay is None else seconds(self.delay)


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault may strike: a call, or one machine (its id) that is launched or terminated."""

    call: Call
    shape: str | None = None
    zone: str | None = None
    reservation: str | None = None
    machine: str = ""


def check(request: FaultRequest) -> None:
    """Raises Refused when fields and kind don't go together."""
    given = {name for name in _PARTICULARS if getattr(request, name) is not None}
    needed = _NEEDED.get(request.kind, frozenset())
    allowed = needed | _ALLOWED.get(request.kind, frozenset())
    if missing := needed - given:
        raise Refused("InvalidParameterValue", f"a fault of kind {request.kind} needs {', '.join(sorted(missing))}")
    if extra := given - allowed:
        raise Refused("InvalidParameterValue", f"a fault of kind {request.kind} has no {', '.join(sorted(extra))}")
    if request.one_in is not None and request.kind not in OF_MACHINES:
        raise Refused("InvalidParameterValue", f"oneIn is for faults of machines, not for {request.kind}")
    if request.code is not None and request.code not in CODES:
        raise Refused("InvalidParameterValue", f"code {request.code} is not known: use one of {', '.join(CODES)}")
    if request.call in ("instances", "inventory", "terminate") and (request.shape or request.zone or request.reservation):
        raise Refused("InvalidParameterValue", f"shape, zone and reservation say nothing about the call {request.call}")


def begin(request: FaultRequest, identity: str, now: datetime) -> Fault:
    """The fault that a request makes. Raises Refused."""
    check(request)
    starts = now + timedelta(seconds=seconds(request.after))
    ends = None if request.lasts is None else starts + timedelta(seconds=seconds(request.lasts))
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return Fault(**fields, id=identity, starts=starts, ends=ends, left=request.times)


def take(faults: Table[Fault], kinds: tuple[Kind, ...], target: Target, now: datetime) -> Fault | None:
    """The oldest active fault of these kinds that strikes the target; used up by one."""
    for fault in list(faults.values()):
        if fault.kind in kinds and fault.active(now) and _strikes(fault, target):
            if fault.left is not None:
                faults.change(fault.id, left=fault.left - 1)
            return fault
    return None


def _strikes(fault: Fault, target: Target) -> bool:
    if fault.call not in (None, target.call):
        return False
    if fault.kind == "stock-out" and fault.reservation != target.reservation:
        return False
    if fault.one_in is not None and int(hashlib.sha256(f"{fault.id}/{target.machine}".encode()).hexdigest(), 16) % fault.one_in:
        return False
    filters = ((fault.shape, target.shape), (fault.zone, target.zone), (fault.reservation, target.reservation))
    return all(wanted is None or wanted == there for wanted, there in filters)
