"""How the API server merges: a merge patch (RFC 7386) and server-side apply, both without touching what they are given."""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[Any, ...]
_KEYED = {"conditions": "type", "admissionChecks": "name"}
"""Lists that are maps by one field of their items (x-kubernetes-list-map-keys); all others are taken as a whole."""


def merged(into: Any, patch: Any) -> Any:
    """The value after a merge patch: null takes away, maps are merged, all else is replaced."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(into) if isinstance(into, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def leaves(value: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all that an apply names; an item of a keyed list is a step (field, its value)."""
    key = _KEYED.get(str(at[-1])) if at else None
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*at, name))
    elif key and isinstance(value, list) and value:
        for item in value:
            yield from leaves(item, (*at, (key, item[key])))
    else:
        yield at


def applied(into: Any, body: Any, at: Path = ()) -> Any:
    """The value after an apply that owns everything it names."""
    key = _KEYED.get(str(at[-1])) if at else None
    if isinstance(body, Mapping) and isinstance(into, Mapping):
        return {**into, **{name: applied(into.get(name), inner, (*at, name)) for name, inner in body.items()}}
    if key and isinstance(body, list) and isinstance(into, list):
        fresh = {item[key]: item for item in body}
        kept = [applied(item, fresh.pop(item[key], {}), (*at, (key, item[key]))) for item in into]
        return [*kept, *fresh.values()]
    return body


def without(value: Any, path: Path) -> Any:
    """The value less one leaf, and less an item of a keyed list of which nothing but its key is left."""
    step, rest = path[0], path[1:]
    if isinstance(step, tuple):
        key, name = step
        items = [without(item, rest) if rest and item[key] == name else item for item in value]
        return [item for item in items if item.get(key) != name or (rest and set(item) != {key})]
    if not isinstance(value, Mapping) or step not in value:
        return value
    if rest:
        return {**value, step: without(value[step], rest)}
    return {key: inner for key, inner in value.items() if key != step}
