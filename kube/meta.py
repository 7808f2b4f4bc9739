"""What every Kubernetes object has: metadata and conditions, reduced to the fields that Corral reads."""

from typing import Any, TypeVar

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all views: immutable, camelCase on the wire, defaults left out when written."""

    def to_json(self) -> Any:
        """The plain JSON value (dicts and lists) of this view; a whole object names its apiVersion and kind."""
        value = msgspec.to_builtins(self)
        header = {"apiVersion": getattr(self, "api_version", ""), "kind": getattr(self, "kind", "")}
        return {**header, **value} if all(header.values()) else value


class OwnerReference(Record, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Record, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Record, frozen=True, kw_only=True):
    """A metav1.Condition. Required fields are always written, empty or not."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int = 0


class ObjectKey(Record, frozen=True, kw_only=True):
    """Names one object; `uid` pins it to one incarnation."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


R = TypeVar("R", bound=Record)


def decode(value: Any, type_: type[R]) -> R:
    """A view of one JSON object (parsed). A null counts as absent: Go clients send null for empty maps and lists.

    Raises ValueError, naming the field, when a value has the wrong type.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(value), type_)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
