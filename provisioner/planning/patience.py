"""How long a gang that can't fit even if all were free is kept waiting: long enough to be sure, for it holds quota. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

LOOKS = 3
"""Answers of each cloud that must agree: one odd answer fails nothing."""

Key = tuple[str, datetime]
Looks = Mapping[str, tuple[datetime, ...]]
"""Pool -> when its cloud gave the last answers that counted."""


@dataclass(slots=True)
class Patience:
    """On which answers of the clouds gangs have been hopeless without a break. Call `on` first in each pass.

    The clouds are asked every `seconds`.
    """

    seconds: float = 10.0
    _looks: dict[Key, Looks] = field(default_factory=dict)
    _before: dict[Key, Looks] = field(default_factory=dict)

    def on(self) -> Self:
        """For a new pass: what the pass before didn't ask for is forgotten."""
        self._before, self._looks = self._looks, {}
        return self

    def over(self, gang: str, asked_at: datetime, heard: Mapping[str, datetime]) -> bool:
        """Whether enough answers agree on a gang that is hopeless now. `heard`: pool -> when its cloud gave the answer that this
        rests on, for each pool that may serve the gang.
        """
        key = (gang, asked_at)
        past = self._before.get(key, {})
        looks = self._looks[key] = {pool: _with(past.get(pool, ()), at) for pool, at in heard.items()}
        return bool(looks) and all(len(each) == LOOKS for each in looks.values())

    def next_look(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.seconds)


def _with(past: tuple[datetime, ...], at: datetime) -> tuple[datetime, ...]:
    return past if at in past else (*past, at)[-LOOKS:]
