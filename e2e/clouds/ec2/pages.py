"""Filters and pages of the describing calls."""

import base64
import binascii
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from e2e.clouds.ec2.account import Params
from e2e.clouds.ec2.errors import AwsError, conflict, invalid

T = TypeVar("T")
Fields = Mapping[str, Callable[[T], str]]


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def chosen(
    items: Iterable[T], params: Params, fields: Fields[T], tags: Callable[[T], Mapping[str, str]] | None = None
) -> list[T]:
    """Items that pass all filters: values of one filter are alternatives, * and ? are wildcards.

    Raises InvalidParameterValue for a filter that the call doesn't know.
    """
    kept = list(items)
    for each in params.get("Filters", ()):
        name, values = each["Name"], each.get("Values", [])
        kept = [item for item in kept if _passes(item, name, values, fields, tags)]
        if not _known(name, fields, tags):
            raise invalid(f"The filter '{name}' is invalid")
    return kept


def named(known: Mapping[str, T], params: Params, parameter: str, code: str, what: str, *, most: int | None = None) -> list[T]:
    """Objects that the call names, all if it names none. Raises `code` if one is not known."""
    ids = params.get(parameter, [])
    if most is not None and len(ids) > most:
        raise invalid(f"{parameter} may name {most} at most, and names {len(ids)}")
    unknown = [each for each in ids if each not in known]
    if unknown:
        raise AwsError(code, f"The {what} '{', '.join(unknown)}' does not exist")
    return [known[each] for each in ids] if ids else list(known.values())


def page(
    items: Sequence[T], params: Params, *, ids: str = "", least: int = 1, most: int = 1000, default: int = 1000
) -> tuple[Sequence[T], dict[str, str]]:
    """A page of items, and the NextToken of the next. `ids` is the parameter that MaxResults may not stand with."""
    size = params.get("MaxResults")
    if size is not None and ids and params.get(ids):
        raise conflict(f"The parameter {ids} cannot be used with the parameter MaxResults")
    if size is not None and not least <= size <= most:
        raise invalid(f"Value ({size}) for parameter maxResults is invalid. Expecting a value between {least} and {most}.")
    first = _offset(params.get("NextToken", ""), len(items))
    end = len(items) if ids and params.get(ids) else first + (size or default)
    return items[first:end], {"NextToken": _token(end)} if end < len(items) else {}


def _known(name: str, fields: Fields[T], tags: object) -> bool:
    return name in fields or (tags is not None and (name == "tag-key" or name.startswith("tag:")))


def _passes(item: T, name: str, values: Sequence[str], fields: Fields[T], tags: Callable[[T], Mapping[str, str]] | None) -> bool:
    if name in fields:
        return _matches(fields[name](item), values)
    marks = tags(item) if tags is not None else {}
    if name == "tag-key":
        return any(_matches(key, values) for key in marks)
    key = name.removeprefix("tag:")
    return key in marks and _matches(marks[key], values)


def _matches(value: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(value, pattern.replace("[", "[[]")) for pattern in patterns)


def _token(offset: int) -> str:
    return base64.urlsafe_b64encode(f"page {offset}".encode()).decode()


def _offset(token: str, length: int) -> int:
    if not token:
        return 0
    try:
        word, _, number = base64.urlsafe_b64decode(token).decode().partition(" ")
        offset = int(number)
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid") from error
    if word != "page" or offset > length:
        raise AwsError("InvalidNextToken", f"The token '{token}' is expired")
    return offset
