"""What warm and prepaid machines save, and what idle ones cost, all at the on-demand price of their shapes.

    saved by prepaid   hours of prepaid machines under a booking, which would have cost that on demand
    saved by warm      for each machine taken idle or taken over the start of another, which is paid while it boots: the mean time
                       from launch to ready of that shape, as this process has seen it; nothing where it is prepaid
    cost of idle       hours of on-demand machines without a booking

docs/observability.md has the formula for users. Amounts are integers of micro-dollars; hours are counted look by look.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from kube import ours
from kube.times import instant
from provisioner.clouds.base import Instance
from provisioner.state import TAG_POOL, State
from provisioner.view import ALIVE, View, take
from runtime import metrics
from runtime.logging import get_logger

PERIOD = 30.0
LONGEST = 120
"""Seconds that one look may stand for: a stall or a step of the clock earns nothing."""
PREPAID, WARM, IDLE = "prepaid", "warm", "idle"
Key = tuple[str, str]  # pool, kind
_log = get_logger("savings")


def prices(view: View) -> Mapping[str, int]:
    """Micro-dollars an hour of each shape on demand."""
    shapes = (shape for known in view.known.values() for shape in known.inventory.shapes)
    return {shape.shape.name: shape.on_demand_price for shape in shapes}


def rates(view: View) -> Counter[Key]:
    """Micro-dollars an hour that machines save or cost as they stand."""
    cost, found = prices(view), Counter[Key]()
    for machine in view.instance_of.values():
        kind = _kind(view, machine)
        if kind and machine.state in ALIVE:
            found[machine.tags.get(TAG_POOL, ""), kind] += cost.get(machine.shape, 0)
    return found


def _kind(view: View, machine: Instance) -> str:
    held = machine.provider_id in view.holder
    if machine.reservation is not None:
        return PREPAID if held else ""
    return "" if held else IDLE


@contextmanager
def _counted_later(what: str) -> Iterator[None]:
    """An object with an instant or a purchase that can't be read spoils nothing but its own part."""
    try:
        yield
    except (ValueError, LookupError) as error:
        _log.warning("savings not counted this time", what=what, error=str(error))


class Savings:
    """Sums since the start of this process, while it leads."""

    def __init__(self) -> None:
        self.reused: Counter[str] = Counter()
        self._sums: Counter[Key] = Counter()  # micro-dollar seconds an hour
        self._starts: dict[str, tuple[int, int]] = {}  # shape -> seconds, machines
        self._seen: set[str] | None = None
        self._last: datetime | None = None

    def dollars(self, kind: str) -> Mapping[str, int]:
        """Micro-dollars by pool."""
        return {pool: amount // 3600 for (pool, each), amount in self._sums.items() if each == kind}

    def look(self, view: View) -> None:
        """Counts what has passed since the last look. What was ready at the first one is an earlier process' to count."""
        first, self._seen = self._seen is None, self._seen or set()
        passed = int((view.now - (self._last or view.now)).total_seconds())
        self._last = view.now
        for key, rate in rates(view).items():
            self._sums[key] += rate * max(0, min(LONGEST, passed))
        for booking in view.bookings:
            with _counted_later(booking.metadata.name):
                for start in _starts(booking):
                    self._learn(*start)
                if not first:
                    self._count(view, booking)
        there = {machine.id for booking in view.bookings for machine in booking.status.instances}
        self._seen = self._seen & there | {key for booking in view.bookings for key in _held(booking)}

    def _learn(self, machine: str, shape: str, seconds: int) -> None:
        assert self._seen is not None
        if machine not in self._seen:
            self._seen.add(machine)
            total, number = self._starts.get(shape, (0, 0))
            self._starts[shape] = (total + seconds, number + 1)

    def _count(self, view: View, booking: ours.Booking) -> None:
        assert self._seen is not None
        for key, node in _held(booking).items():
            machine = view.instance_of.get(node.provider_id)
            if machine is None or key in self._seen:
                continue
            total, number = self._starts.get(machine.shape, (0, 1))
            self.reused[node.pool] += 1
            if machine.reservation is None:
                self._sums[node.pool, WARM] += prices(view).get(machine.shape, 0) * (total // number)


def _held(booking: ours.Booking) -> Mapping[str, ours.BookedNode]:
    """By a key of its own each node that it took, those in place of lost ones too, once all was there."""
    nodes = booking.spec.nodes if booking.status.provisioned_at else ()
    return {f"{booking.metadata.uid}/{node.name}": node for node in nodes}


def _starts(booking: ours.Booking) -> Iterable[tuple[str, str, int]]:
    """Machine, shape and seconds from launch to ready, of those that are ready."""
    shapes = {each.name: each.shape for each in booking.spec.purchases}
    for each in booking.status.instances:
        if each.state == "Ready" and each.since and each.launched_at:
            yield each.id, shapes[each.purchase], int((instant(each.since) - instant(each.launched_at)).total_seconds())


class Meter:
    """Looks every few seconds, and shows the sums as metrics."""

    def __init__(self, state: State, now: Callable[[], datetime]) -> None:
        self._state, self._now, self.savings = state, now, Savings()
        metrics.counter("corral_saved_dollars", "On-demand dollars saved by prepaid and by warm machines", self._saved)
        metrics.counter("corral_idle_dollars", "On-demand dollars that idle machines cost", self._idle)
        metrics.counter("corral_reused_machines", "Machines taken warm in place of a launch", self._reused)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.turn()
            await asyncio.sleep(PERIOD)

    def turn(self) -> None:
        """One look."""
        with _counted_later("all"):
            self.savings.look(take(self._state, self._now()))

    def _saved(self) -> metrics.Series:
        return [(amount / 10**6, {"pool": pool, "by": by}) for by in (PREPAID, WARM) for pool, amount in self._sum(by)]

    def _idle(self) -> metrics.Series:
        return [(amount / 10**6, {"pool": pool}) for pool, amount in self._sum(IDLE)]

    def _reused(self) -> metrics.Series:
        return [(number, {"pool": pool}) for pool, number in sorted(self.savings.reused.items())]

    def _sum(self, kind: str) -> list[tuple[str, int]]:
        return sorted(self.savings.dollars(kind).items())
