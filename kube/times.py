"""Durations and instants as our objects write them: Go duration strings and RFC 3339 in whole seconds of UTC."""

import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}
_CENTURY = 36525 * 86400


@lru_cache(maxsize=1024)  # the same few of policies and pools at each look
def seconds(text: str) -> int:
    """Whole seconds of a Go duration, rounded down: `seconds("1h30m") == 5400`. Raises ValueError for anything else.

    At most a hundred years, which is as good as for ever: instants so far away can still be written down.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or len(text) > 32:
        raise ValueError(f'"{text[:40]}" is not a duration: write a number and a unit such as 90s, 20m or 1h30m')
    return min(_CENTURY, int(sum(Fraction(number) * _SECONDS[unit] for number, unit in parts)))


@lru_cache(maxsize=4096)  # the same of conditions at each look
def instant(text: str) -> datetime:
    """The instant that an RFC 3339 text names, fractions of a second kept. Raises ValueError for anything else."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f'"{text[:40]}" is not an instant: it needs a time zone such as Z')
    return parsed.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """The instant in the form that Kubernetes stores: `2026-09-01T10:40:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(moment: datetime, now: datetime) -> str:
    """The instant for people: the time of day, with the date when it is not that of `now`: `10:40Z`, `2026-09-02 10:40Z`."""
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    return moment.strftime("%H:%MZ" if moment.date() == now.date() else "%Y-%m-%d %H:%MZ")


def due(deadline: datetime, now: datetime) -> str:
    """A deadline for people, with the time left in steps so coarse that a message with it is not written anew all the time:
    `10:40Z (35m left)`. Steps are hours, from an hour on down 5 minutes, then minutes, in the last two 10 seconds.
    """
    left = max(0, int((deadline - now).total_seconds()))
    step = next(size for least, size in ((7200, 3600), (600, 300), (120, 60), (0, 10)) if left >= least)
    return f"{clock(deadline, now)} ({length(-(-left // step) * step)} left)"


def length(total: int) -> str:
    """A length of time for people, at most two units: `length(11520) == "3h12m"`."""
    days, rest = divmod(max(0, total), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (secs, "s")]
    shown = [f"{number}{unit}" for number, unit in parts if number]
    return "".join(shown[:2]) or "0s"
