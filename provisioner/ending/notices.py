"""From what the clouds announce to notices: maintenance, spot interruptions, and the end of prepaid capacity. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kube import ours
from kube.times import clock, seconds
from provisioner.clouds.base import Announcement, Instance, Reservation


@dataclass(frozen=True, slots=True)
class Notice:
    """A machine will end, or be disturbed, at `ends`; from `drain` on its node is closed and its pods are asked to leave."""

    reason: str
    words: str
    drain: datetime
    ends: datetime

    def begun(self, now: datetime) -> bool:
        """Whether the drain has."""
        return self.drain <= now


def notice(machine: Instance, pool: ours.CapacityPool | None, reservation: Reservation | None, now: datetime) -> Notice | None:
    """The first thing that will take the machine away. Prepaid capacity that ends is drained `drainBeforeEnd` before, maintenance
    as early; a spot interruption at once, for it is minutes away.
    """
    source = _source(machine, pool)
    lead = timedelta(seconds=seconds(source.drain_before_end) if source else 0)
    found = [_announced(each, lead, now) for each in machine.announced]
    if reservation and reservation.ends is not None:
        ends = datetime.fromtimestamp(reservation.ends, UTC)
        found.append(Notice("ReservationEnds", f"reservation {reservation.id} ends at {clock(ends, now)}", ends - lead, ends))
    return min(found, key=lambda each: (each.drain, each.reason), default=None)


def _announced(each: Announcement, lead: timedelta, now: datetime) -> Notice:
    at = datetime.fromtimestamp(each.at, UTC)
    words = f"{each.words} at {clock(at, now)}"
    return Notice(each.kind, words, now if each.kind == "SpotInterruption" else at - lead, at)


def _source(machine: Instance, pool: ours.CapacityPool | None) -> ours.Source | None:
    sources = pool.spec.sources if pool else ()
    return next((each for each in sources if machine.reservation and machine.reservation in each.reservation_ids), None)
