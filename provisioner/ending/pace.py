"""A budget of terminations a minute, shared by all that ends machines on its own account."""

from collections import deque
from datetime import datetime, timedelta


class Pace:
    """At most `limit` in any minute."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: deque[datetime] = deque()

    def left(self, now: datetime) -> int:
        """How many more may be ended now."""
        while self._taken and self._taken[0] <= now - timedelta(minutes=1):
            self._taken.popleft()
        return self._limit - len(self._taken)

    def take(self, now: datetime) -> bool:
        """Whether one more may be ended now; counts it if so."""
        if self.left(now) <= 0:
            return False
        self._taken.append(now)
        return True
