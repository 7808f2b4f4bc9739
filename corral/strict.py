"""Fields that a kind of ours doesn't have: the API server would drop them and say so, a file keeps its author's typing errors."""

from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from kube.meta import Record


def unknown(value: Any, type_: type[Record]) -> str:
    """The path of the first field of the (decodable) JSON value that `type_` doesn't have, "" if there is none."""
    return next(_unknown(value, inspect.type_info(type_), "spec"), "")


def _unknown(value: Any, info: inspect.Type, path: str) -> Iterator[str]:
    match info:
        case inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in info.fields}
            for name, inner in value.items():
                if name not in fields:
                    yield f"{path}.{name} (known there: {', '.join(sorted(fields))})"
                else:
                    yield from _unknown(inner, fields[name], f"{path}.{name}")
        case inspect.UnionType():
            for one in info.types:
                yield from _unknown(value, one, path)
        case inspect.VarTupleType() if isinstance(value, list):
            for at, item in enumerate(value):
                yield from _unknown(item, info.item_type, f"{path}[{at}]")
