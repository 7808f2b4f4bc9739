"""One call, from its decoded parameters to its answer, and the log of all calls."""

import itertools
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from e2e.clouds.ec2 import fleet, inventory, launch, lifecycle, placement, preflight, reservations, tags, templates, topology
from e2e.clouds.ec2.account import Account, Operation
from e2e.clouds.ec2.clock import Clock
from e2e.clouds.ec2.errors import AwsError
from e2e.clouds.ec2.faults import Fault, Faults
from e2e.clouds.ec2.launch import dry_run
from e2e.clouds.ec2.rates import Rates
from e2e.clouds.ec2.wire import Answer, Call, encode, encode_error

OPERATIONS: dict[str, dict[str, Operation]] = {
    "ec2": {
        **fleet.OPERATIONS,
        **inventory.OPERATIONS,
        **launch.OPERATIONS,
        **lifecycle.OPERATIONS,
        **placement.OPERATIONS,
        **reservations.OPERATIONS,
        **tags.OPERATIONS,
        **templates.OPERATIONS,
        **topology.OPERATIONS,
    },
    "service-quotas": preflight.QUOTAS,
    "autoscaling": preflight.AUTO_SCALING,
    "sts": preflight.STS,
}


@dataclass(slots=True)
class Entry:
    """A call as the log keeps it. `outcome` is "ok" or the code of the error; `fault` what spoilt it."""

    number: int
    at: datetime
    service: str
    operation: str
    params: dict[str, Any]
    outcome: str = ""
    status: int = 0
    message: str = ""
    fault: str = ""


class Service:
    """The account behind its calls. Not thread-safe: one event loop serves it."""

    def __init__(self, account: Account, clock: Clock) -> None:
        self.account = account
        self.clock = clock
        self.faults = Faults()
        self.log: list[Entry] = []
        self._rates = Rates(account)
        self._numbers = itertools.count(1)

    def note(self, call: Call) -> Entry:
        """Every request gets an entry, whatever becomes of it."""
        entry = Entry(next(self._numbers), self.clock.now(), call.service, call.operation, call.params)
        self.log.append(entry)
        return entry

    def strike(self, call: Call) -> Fault | None:
        return self.faults.take(call)

    def perform(self, call: Call, entry: Entry, fault: Fault | None = None) -> Answer:
        """Does the call, unless its fault says that it fails, and encodes what came of it."""
        try:
            answer = encode(call, self._do(call, fault))
            entry.outcome, entry.status = "ok", answer.status
        except AwsError as error:
            answer = encode_error(call.service, error, f"{entry.number:032x}")
            entry.outcome, entry.status, entry.message = error.code, error.status, error.message
        return answer

    def _do(self, call: Call, fault: Fault | None) -> dict[str, Any]:
        now = self.clock.now()
        self._rates.take(call, now)
        if fault is not None and fault.error:
            raise AwsError(fault.error, fault.message, fault.status)
        operation = OPERATIONS[call.service].get(call.operation)
        if operation is None:
            raise AwsError("InvalidAction", f"The stand-in doesn't know {call.service} {call.operation}")
        if call.operation in self.account.settings.denied:
            raise AwsError("UnauthorizedOperation", f"You are not authorized to perform this operation: {call.operation}")
        if call.params.get("DryRun") and call.operation.startswith("Describe"):
            raise dry_run()
        self.account.advance(now)
        return operation(self.account, call.params, now)
