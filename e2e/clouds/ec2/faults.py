"""Faults on demand: the nth call of an operation from now is refused, slowed down, cut off before or after it was done."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from e2e.clouds.ec2.objects import Seconds
from e2e.clouds.ec2.wire import Call
from provisioner.clouds.simulated.wire import Strict


class Fault(Strict, frozen=True, kw_only=True):
    """Strikes calls number `nth` to `nth + times - 1` of the operation that have these `match` parameters.

    `error`: answered with this code, nothing done. `drop`: the connection ends without an answer, before or after the call
    was done. `delay` comes first, in seconds of the wall clock; alone it only slows the call down, with `drop` "before" it is
    a timeout.
    """

    operation: str
    nth: Annotated[int, Meta(ge=1)] = 1
    times: Annotated[int, Meta(ge=1)] = 1
    error: str = ""
    message: str = "An error was asked for"
    status: int | None = None
    delay: Seconds = 0
    drop: Literal["", "before", "after"] = ""
    match: dict[str, Any] = {}


class Faults:
    """Pending faults."""

    def __init__(self) -> None:
        self.pending: list[Fault] = []

    def take(self, call: Call) -> Fault | None:
        """The fault that strikes this call; every fault of the operation counts it."""
        struck = None
        for fault in [each for each in self.pending if _is_meant(each, call)]:
            self.pending.remove(fault)
            if fault.nth > 1:
                self.pending.append(msgspec.structs.replace(fault, nth=fault.nth - 1))
                continue
            struck = struck or fault
            if fault.times > 1:
                self.pending.append(msgspec.structs.replace(fault, times=fault.times - 1))
        return struck


def _is_meant(fault: Fault, call: Call) -> bool:
    return fault.operation == call.operation and _within(fault.match, call.params)


def _within(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    for key, value in wanted.items():
        found = there.get(key)
        if isinstance(value, dict) and isinstance(found, dict):
            if not _within(value, found):
                return False
        elif found != value:
            return False
    return True
