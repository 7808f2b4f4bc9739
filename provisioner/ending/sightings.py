"""Since when things look orphaned: nothing is concluded from one look."""

from collections.abc import Iterable
from datetime import datetime

APART = 30.0
"""Seconds at least between two sightings."""


class Sightings:
    """Since when each thing looks orphaned, without interruption."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def ripe(self, orphans: Iterable[str], now: datetime, grace: float) -> list[str]:
        """Those seen before, at least `grace` (and APART) seconds ago. Whatever isn't named this time is forgotten."""
        self._since = {each: self._since.get(each, now) for each in orphans}
        wait = max(grace, APART)
        return sorted(each for each, since in self._since.items() if (now - since).total_seconds() >= wait)
