"""The stand-in's own time: it runs with the wall clock, faster if asked, and can be put forward."""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Seconds of this clock are `rate` to one of the wall's."""

    def __init__(self, start: datetime | None = None, rate: float = 1.0) -> None:
        self._base = start or datetime.now(UTC)
        self._mark = time.monotonic()
        self.rate = rate

    def now(self) -> datetime:
        return self._base + timedelta(seconds=(time.monotonic() - self._mark) * self.rate)

    def advance(self, seconds: float) -> None:
        """Lets this many seconds pass at once."""
        self._base += timedelta(seconds=seconds)

    def run(self, rate: float) -> None:
        """Goes on from now at another rate; 0 stops it."""
        self._base, self._mark, self.rate = self.now(), time.monotonic(), rate
