"""On-demand money of the UTC day: committed when a machine is ordered, for the hours that are left of the day, and given back for
what is left when it is gone.

A booking that is deleted is settled, and the pool's status keeps the sum of the day over restarts. Machines that stay idle after
their booking keep what it had committed for its last day and count whole days from then on.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from capacity.quantity import dollars, money
from kube import ours
from kube.times import instant

DAY = timedelta(days=1)
_GONE = frozenset({"Gone"})


def day_start(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def cost(price: int, start: datetime, end: datetime) -> int:
    """Micro-dollars of one machine at `price` micro-dollars an hour, rounded up to the second's cost."""
    seconds = max(0, int((end - start).total_seconds()))
    return -(-price * seconds // 3600)


def committed(booking: ours.Booking, pool: str, now: datetime) -> int:
    """Micro-dollars that the booking's on-demand machines of `pool` cost on the UTC day of `now`, those on order included."""
    return sum(_purchase(booking, purchase, now) for purchase in booking.spec.purchases if _counts(purchase, pool))


def _counts(purchase: ours.BookedPurchase, pool: str) -> bool:
    return purchase.pool == pool and purchase.capacity_type == "on-demand"


def _purchase(booking: ours.Booking, purchase: ours.BookedPurchase, now: datetime) -> int:
    """All that were ordered and came, and while the booking still buys, those that have not come yet."""
    price, start = money(purchase.price_per_hour), day_start(now)
    machines = [machine for machine in booking.status.instances if machine.purchase == purchase.name]
    total = sum(cost(price, max(start, _launched(machine, booking)), _end(machine, now)) for machine in machines)
    standing = sum(machine.state not in ("Bad", "Terminating", "Gone") for machine in machines)
    if booking.status.phase in ("Marking", "Launching", "Joining") or booking.replacing:
        total += max(0, purchase.count - standing) * cost(price, max(start, _created(booking, now)), start + DAY)
    return total


def _launched(machine: ours.BookedInstance, booking: ours.Booking) -> datetime:
    text = machine.launched_at or booking.metadata.creation_timestamp
    return instant(text) if text else datetime.min.replace(tzinfo=UTC)


def _created(booking: ours.Booking, now: datetime) -> datetime:
    text = booking.metadata.creation_timestamp
    return instant(text) if text else now


def _end(machine: ours.BookedInstance, now: datetime) -> datetime:
    """When it stops to cost: a machine that is still there is committed to the end of the day."""
    end = day_start(now) + DAY
    return min(end, instant(machine.since)) if machine.state in _GONE and machine.since else end


Sums = dict[str, tuple[datetime, int]]  # pool (or UID of a booking) -> day, micro-dollars


@dataclass(slots=True)
class Ledger:
    """What no booking that is there accounts for: what was `settled` before this process counted, bookings that it saw `gone` by
    pool and UID, and machines that were `idle` at midnight.
    """

    settled: Sums = field(default_factory=dict)
    gone: dict[str, Sums] = field(default_factory=dict)
    idle: Sums = field(default_factory=dict)

    def settle(self, booking: ours.Booking, now: datetime) -> None:
        """Takes over the sum of a booking that was deleted. One that comes back, after an odd list, counts for itself again."""
        day = day_start(now)
        for pool in {purchase.pool for purchase in booking.spec.purchases if purchase.capacity_type == "on-demand"}:
            today = {uid: each for uid, each in self.gone.get(pool, {}).items() if each[0] == day}
            self.gone[pool] = {**today, booking.metadata.uid: (day, committed(booking, pool, now))}

    def load(self, pool: str, stored: ours.Spend | None, bookings: Iterable[ours.Booking], now: datetime) -> None:
        """Takes up what the pool's status kept of today. In it already is what the bookings that are there account for, and those
        that were seen to be deleted while another replica led.
        """
        if stored is None or stored.day != day_start(now).date().isoformat():
            return
        there = sum(committed(booking, pool, now) for booking in bookings)
        self.settled[pool] = (day_start(now), max(0, money(stored.on_demand) - there))
        self.gone.pop(pool, None)
        self.idle[pool] = (day_start(now), 0)

    def begun(self, pool: str, now: datetime) -> bool:
        """Whether `begin_day` was called for the pool today."""
        return self.idle.get(pool, (None, 0))[0] == day_start(now)

    def begin_day(self, pool: str, idle: int, now: datetime) -> None:
        """The first call of a day counts: `idle` is what the pool's idle machines cost from now to its end."""
        if not self.begun(pool, now):
            self.idle[pool] = (day_start(now), idle)

    def spent(self, pool: str, bookings: Iterable[ours.Booking], now: datetime) -> int:
        """Micro-dollars of today."""
        known = [*bookings]
        there, gone = {booking.metadata.uid for booking in known}, self.gone.get(pool, {})
        kept = sum(_today(sums, pool, now) for sums in (self.settled, self.idle))
        kept += sum(_today(gone, uid, now) for uid in gone if uid not in there)
        return kept + sum(committed(booking, pool, now) for booking in known)


def _today(sums: Sums, key: str, now: datetime) -> int:
    day, amount = sums.get(key, (None, 0))
    return amount if day == day_start(now) else 0


def status(spent: int, now: datetime) -> ours.Spend:
    return ours.Spend(day=day_start(now).date().isoformat(), on_demand=dollars(spent))
