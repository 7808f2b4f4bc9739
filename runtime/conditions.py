"""Status conditions (metav1.Condition) as plain JSON objects: set one, find one.

The rules are those of Kubernetes' API conventions ("Typical status properties", v1.36): one entry a type, transition time
changes with the status alone, observedGeneration says which spec was looked at.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

MESSAGE_LIMIT = 32768
"""Longest message in characters that the API server's schema of metav1.Condition takes."""


def set_condition(
    conditions: Sequence[Mapping[str, Any]],
    type: str,  # noqa: A002 the field's own name
    status: bool | str,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """A new list in which the condition of this type is as given, in its old place, or last if there was none."""
    word = str(status)
    old = find(conditions, type)
    moved = old is None or old.get("status") != word
    entry = {
        "type": type,
        "status": word,
        "reason": reason,
        "message": _cut(message),
        "lastTransitionTime": timestamp(now) if old is None or moved else old.get("lastTransitionTime", timestamp(now)),
        "observedGeneration": generation,
    }
    if old is None:
        return [*map(dict, conditions), entry]
    return [entry if each.get("type") == type else dict(each) for each in conditions]


def find(conditions: Sequence[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:  # noqa: A002
    """The condition of this type, or None."""
    return next((each for each in conditions if each.get("type") == type), None)


def is_true(conditions: Sequence[Mapping[str, Any]], type: str) -> bool:  # noqa: A002
    """Whether the condition is there with status "True"."""
    return (find(conditions, type) or {}).get("status") == "True"


def timestamp(now: datetime) -> str:
    """RFC 3339 in whole seconds with Z, as metav1.Time is written. `now` must know its time zone (ValueError else)."""
    if now.tzinfo is None:
        raise ValueError("a wall-clock time without time zone: pass datetime.now(UTC)")
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
