"""OpenAPI v3 structural schemas from the models, so that what the API server accepts and what we decode can't drift apart.

Limits (pattern, length, range) come from the models' annotations, words from `kube.descriptions`, validation rules and list types
from `kube.rules`. Structural schema: Kubernetes docs, "Extend the Kubernetes API with CustomResourceDefinitions".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from kube.descriptions import DESCRIPTIONS
from kube.meta import ObjectMeta, Record
from kube.rules import EXTRAS

Schema = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """Upper limits where the model names none; None leaves it open. The API server needs bounds to price CEL rules."""

    string: int | None = None
    items: int | None = None
    properties: int | None = None
    defaults: bool = False  # whether the models' scalar defaults are the API's


OPEN = Bounds()
OURS = Bounds(string=1024, items=4096, properties=256, defaults=True)


def schema(type_: type[Record], bounds: Bounds) -> Schema:
    """The structural schema of one whole object."""
    return _render(inspect.type_info(type_), bounds)


def _render(info: inspect.Type, bounds: Bounds) -> Schema:
    match info:
        case inspect.Metadata():
            return {**_render(info.type, bounds), **(info.extra_json_schema or {})}
        case inspect.UnionType():
            return _render(next(t for t in info.types if not isinstance(t, inspect.NoneType)), bounds)
        case inspect.StructType():
            return _object(info, bounds)
        case inspect.VarTupleType():
            return _present({"type": "array", "items": _render(info.item_type, bounds)}, **_items(info, bounds))
        case inspect.DictType():
            most = info.max_length if info.max_length is not None else bounds.properties
            return _present({"type": "object", "additionalProperties": _render(info.value_type, bounds)}, maxProperties=most)
        case inspect.LiteralType():
            return {"type": "string", "enum": sorted(info.values)}
    return _scalar(info, bounds)


def _scalar(info: inspect.Type, bounds: Bounds) -> Schema:
    match info:
        case inspect.StrType():
            longest = info.max_length if info.max_length is not None else bounds.string
            return _present({"type": "string"}, minLength=info.min_length, maxLength=longest, pattern=info.pattern)
        case inspect.IntType():
            return _present({"type": "integer", "format": "int64"}, minimum=info.ge, maximum=info.le)
        case inspect.BoolType():
            return {"type": "boolean"}
    raise TypeError(f"no schema for {info}: use a str, int, bool, Literal, tuple, dict or Record in the model")


def _items(info: inspect.VarTupleType, bounds: Bounds) -> Mapping[str, int | None]:
    return {"minItems": info.min_length, "maxItems": info.max_length if info.max_length is not None else bounds.items}


def _object(info: inspect.StructType, bounds: Bounds) -> Schema:
    if info.cls is ObjectMeta:
        return {"type": "object"}
    properties = {field.encode_name: _field(info.cls, field, bounds) for field in info.fields}
    required = sorted(field.encode_name for field in info.fields if field.required and field.name != "metadata")
    result: Schema = {"description": _words(info.cls), "type": "object", "properties": properties}
    if required:
        result["required"] = required
    return {**result, **EXTRAS.get(info.cls, {}).get("", {})}


def _field(owner: type, field: inspect.Field, bounds: Bounds) -> Schema:
    result = _render(field.type, bounds)
    result.update(EXTRAS.get(owner, {}).get(field.name, {}))
    if words := DESCRIPTIONS.get(owner, {}).get(field.name):
        result = {"description": words, **{key: value for key, value in result.items() if key != "description"}}
    if bounds.defaults and field.name not in ("api_version", "kind") and (default := _default(field.default)) is not None:
        result["default"] = default
    return result


def _default(value: Any) -> Any:
    """A default worth telling the API server, None if there is none: the empty value is said by absence as well.

    An object's default is written out whole, for the API server checks it against the object's rules as it stands.
    """
    if isinstance(value, Record):
        fields = inspect.type_info(type(value))
        assert isinstance(fields, inspect.StructType)
        inner = {field.encode_name: _default(getattr(value, field.name)) for field in fields.fields}
        return {name: default for name, default in inner.items() if default is not None}
    if value is msgspec.NODEFAULT or value in (None, "", ()):
        return None
    return [_default(each) for each in value] if isinstance(value, tuple) else value


def _words(owner: type) -> str:
    return " ".join((DESCRIPTIONS.get(owner, {}).get("") or owner.__doc__ or "").split())


def _present(base: Schema, **optional: Any) -> Schema:
    return {**base, **{key: value for key, value in optional.items() if value is not None}}
