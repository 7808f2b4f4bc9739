"""Health checks that the API server would not begin: what is said of them, and when they are tried again. Kept in memory alone: a
new process tries at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.errors import ApiError, Conflict, TooManyRequests, TransportError, Unauthorized

FIRST, LONGEST = timedelta(seconds=10), timedelta(minutes=5)
_LONGEST_WORDS = 300
_PASSING = (Conflict, TooManyRequests, Unauthorized)
"""Answers that say nothing of the Job."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Of the Job made of this version of the check and its PodTemplate. `reason` is "" for what passes by itself."""

    version: str
    reason: str
    words: str
    failures: int
    until: datetime


class Refusals:
    """The last of each pool: its nodes share one PodTemplate, and one quota. `changed` is called with a pool that has news."""

    def __init__(self) -> None:
        self._of: dict[str, Refusal] = {}
        self.changed: Callable[[str], None] = lambda _: None

    def note(self, pool: str, version: str, error: ApiError | TransportError, now: datetime) -> None:
        """The wait doubles from 10 s to 5 min as long as nothing is taken; a changed PodTemplate begins anew."""
        old = self.of(pool, version)
        failures = old.failures + 1 if old else 1
        until = now + min(LONGEST, FIRST * 2 ** min(failures - 1, 10))
        reason = error.reason if isinstance(error, ApiError) and not isinstance(error, _PASSING) else ""
        same = old is not None and old.reason == reason
        self._of[pool] = Refusal(version, reason, old.words if old and same else _words(error), failures, until)
        if not same:
            self.changed(pool)

    def clear(self, pool: str) -> None:
        """A Job was made, or one is there."""
        if self._of.pop(pool, None):
            self.changed(pool)

    def of(self, pool: str, version: str) -> Refusal | None:
        """What was said of just this version."""
        found = self._of.get(pool)
        return found if found and found.version == version else None


def remedy(reason: str) -> str:
    """What the author of the pool can do."""
    match reason:
        case "Invalid" | "BadRequest":
            return "correct the PodTemplate's template.spec (the Job has it as spec.template.spec)"
        case "Forbidden":
            return "allow it: a quota, an admission policy or the Role corral-health-checks forbids it"
        case _:
            return "look at the admission webhooks for Jobs, and at the namespace"


def _words(error: ApiError | TransportError) -> str:
    return " ".join((error.message if isinstance(error, ApiError) else str(error)).split())[:_LONGEST_WORDS]
