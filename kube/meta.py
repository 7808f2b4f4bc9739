"""What every Kubernetes object has: metadata and conditions, reduced to the fields that Corral reads."""

from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all views: immutable, camelCase on the wire, defaults left out when written."""

    def to_json(self) -> Any:
        """The plain JSON value (dicts and lists) of this view."""
        return msgspec.to_builtins(self)


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
