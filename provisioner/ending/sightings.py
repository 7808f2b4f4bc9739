"""Since when things look orphaned: nothing is concluded from one look."""

from collections.abc import Iterable

APART = 30.0
"""Seconds at least between two sightings."""


class Sightings:
    """Since when each thing looks orphaned, without interruption, in the loop's time: the wall clock may be put forward between
    two looks.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def ripe(self, orphans: Iterable[str], now: float, grace: float) -> list[str]:
        """Those seen before, at least `grace` (and APART) seconds ago. Whatever isn't named this time is forgotten."""
        self._since = {each: self._since.get(each, now) for each in orphans}
        wait = max(grace, APART)
        return sorted(each for each, since in self._since.items() if now - since >= wait)
