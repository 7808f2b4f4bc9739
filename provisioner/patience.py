"""How long a gang that can't fit even if all were free is kept waiting: long enough to be sure, for it holds quota. Pure."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

LOOKS = 3
"""Times that each cloud must have been asked: one odd answer fails nothing."""

Key = tuple[str, datetime]


@dataclass(slots=True)
class Patience:
    """Since when gangs have been hopeless without a break; `seconds` of that are enough. Call `on` first in each pass."""

    seconds: float = 30.0
    _since: dict[Key, datetime] = field(default_factory=dict)
    _before: dict[Key, datetime] = field(default_factory=dict)

    def on(self) -> Self:
        """For a new pass: what the pass before didn't ask for is forgotten."""
        self._before, self._since = self._since, {}
        return self

    def until(self, gang: str, asked_at: datetime, now: datetime) -> datetime:
        """When waiting ends for a gang that is hopeless now."""
        key = (gang, asked_at)
        began = self._since[key] = self._before.get(key, now)
        return began + timedelta(seconds=self.seconds)
