"""What failed lately and is left alone for a while: one record per offering key, shared by all requests, kept over restarts.

Only a lack of capacity backs off. A wrong configuration or a user's mistake is the error of one request or pool and must not
keep others from offerings that are sound; throttling and lost replies say nothing about capacity.

Installations that share a reservation may have failed at the same moment, each holding what the other lacked. They would do so
again after the same wait: on a reservation each waits up to half as long again.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kube import ours
from kube.times import instant, stamp
from provisioner.clouds.base import ErrorKind

FIRST = timedelta(seconds=30)
LONGEST = timedelta(minutes=15)
CAPACITY_KINDS = frozenset({ErrorKind.CAPACITY, ErrorKind.RESERVATION_FULL, ErrorKind.QUOTA})
_MESSAGE = 512


@dataclass(frozen=True, slots=True)
class Key:
    """What a backoff holds for. `reservation` is "" for on-demand capacity."""

    pool: str
    source: str
    shape: str
    zone: str
    reservation: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """`failures` in a row, the first at `since`; nothing is tried before `until`."""

    key: Key
    kind: ErrorKind
    message: str
    since: datetime
    until: datetime
    failures: int = 1


class Backoffs:
    """`changed` is called with the pool's name after each change, so that somebody writes it to the pool's status. `installation`
    tells the waits on reservations from those of others.
    """

    def __init__(self, changed: Callable[[str], None] = lambda _: None, installation: str = "") -> None:
        self._entries: dict[Key, Entry] = {}
        self._installation = installation
        self.changed = changed

    def record(
        self,
        pool: str,
        source: str,
        shape: str,
        zone: str,
        reservation: str | None,
        kind: ErrorKind,
        message: str,
        now: datetime,
    ) -> None:
        """Notes a failed purchase. The wait doubles from 30 s to 15 min as long as failures follow each other; on a reservation
        up to half of it is added.

        A failure while the key is backed off already (calls that ran side by side) does not double the wait. The series ends when
        the key stayed quiet for 15 minutes after its wait, or by `clear`.
        """
        if kind not in CAPACITY_KINDS:
            return
        key = Key(pool, source, shape, zone, reservation or "")
        self._entries[key] = self._next(key, kind, message[:_MESSAGE], now)
        self.changed(pool)

    def _next(self, key: Key, kind: ErrorKind, message: str, now: datetime) -> Entry:
        old = self._entries.get(key)
        if old is None or now >= old.until + LONGEST:
            return Entry(key, kind, message, since=now, until=now + self._wait(key, 0))
        if now < old.until:
            return Entry(key, kind, message, old.since, old.until, old.failures)
        return Entry(key, kind, message, old.since, now + self._wait(key, old.failures), old.failures + 1)

    def _wait(self, key: Key, failures: int) -> timedelta:
        """After so many failures before this one, in whole seconds."""
        wait: timedelta = min(LONGEST, FIRST * 2 ** min(failures, 10))
        if not key.reservation:
            return wait
        mark = hashlib.sha256("\0".join((self._installation, key.reservation, str(failures))).encode()).hexdigest()
        return wait + timedelta(seconds=int(mark, 16) % (wait // timedelta(seconds=2) + 1))

    def clear(self, pool: str, source: str, shape: str, zone: str, reservation: str | None) -> None:
        """A purchase succeeded: the key is sound again."""
        if self._entries.pop(Key(pool, source, shape, zone, reservation or ""), None):
            self.changed(pool)

    def active(self, key: Key, now: datetime) -> Entry | None:
        """The backoff that holds for `key` now, None when it may be tried."""
        entry = self._entries.get(key)
        return entry if entry and entry.until > now else None

    def of_pool(self, pool: str, now: datetime) -> tuple[ours.Backoff, ...]:
        """The pool's backoffs as its status keeps them; a series that has ended is forgotten here."""
        for key in [k for k, e in self._entries.items() if now >= e.until + LONGEST]:
            del self._entries[key]
        found = sorted((e for k, e in self._entries.items() if k.pool == pool), key=lambda e: _order(e.key))
        return tuple(_stored(entry) for entry in found)

    def load(self, pool: str, stored: Iterable[ours.Backoff]) -> None:
        """Takes up what the status of a pool kept from an earlier run; what this run recorded itself stands."""
        for item in stored:
            entry = _loaded(pool, item)
            if entry is not None:
                self._entries.setdefault(entry.key, entry)

    def next_end(self, now: datetime) -> datetime | None:
        """When the first of the active backoffs ends, so that waiting requests can be planned again then."""
        return min((e.until for e in self._entries.values() if e.until > now), default=None)


def _order(key: Key) -> tuple[str, ...]:
    return (key.source, key.shape, key.zone, key.reservation)


def _stored(entry: Entry) -> ours.Backoff:
    key = entry.key
    return ours.Backoff(
        source=key.source,
        shape=key.shape,
        zone=key.zone,
        reservation_id=key.reservation,
        reason=entry.kind.value,
        message=entry.message,
        since=stamp(entry.since),
        until=stamp(entry.until),
        failures=entry.failures,
    )


def _loaded(pool: str, item: ours.Backoff) -> Entry | None:
    """None for a record that this version can't read: a forgotten backoff costs one more try, no harm."""
    try:
        kind, since, until = ErrorKind(item.reason), instant(item.since), instant(item.until)
    except ValueError:
        return None
    key = Key(pool, item.source, item.shape, item.zone, item.reservation_id)
    return Entry(key, kind, item.message, since, until, item.failures)
