"""What the twin of the API server remembers: objects, their versions, and who is told of each change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from kube import resources
from kube.times import stamp

Body = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name)."""

KINDS = {kind.plural: kind for kind in vars(resources).values() if isinstance(kind, resources.Kind)}
BUILT_IN = {"nodes", "pods", "podtemplates", "namespaces", "events", "leases", "daemonsets", "configmaps", "jobs"}
"""Kinds without a generation that counts; all others are custom resources or behave like them."""


@dataclass(frozen=True, slots=True)
class Stored:
    body: Body
    raw: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Change:
    """`old` and `new` are None before a creation and after a deletion; `version` is that of the change."""

    plural: str
    version: int
    old: Stored | None
    new: Stored | None


@dataclass
class Objects:
    """`now` is the wall clock; `told` are called on each change, at once. Versions up to `compacted` are forgotten."""

    now: Callable[[], datetime]
    told: list[Callable[[Change], None]] = field(default_factory=list)
    version: int = 1000
    compacted: int = 0
    history: list[Change] = field(default_factory=list)
    _kinds: dict[str, dict[Key, Stored]] = field(default_factory=dict)
    _made: int = 0

    def get(self, plural: str, name: str, namespace: str = "") -> Body | None:
        found = self.stored(plural, (namespace, name))
        return found.body if found else None

    def stored(self, plural: str, key: Key) -> Stored | None:
        return self._kinds.get(plural, {}).get(key)

    def all(self, plural: str) -> list[Stored]:
        """In order of their keys, as a list of the API server has them."""
        return [each for _, each in sorted(self._kinds.get(plural, {}).items())]

    def bodies(self, plural: str) -> Iterator[Body]:
        return (each.body for each in self.all(plural))

    def put(self, plural: str, body: Body) -> Stored:
        """Creates or replaces; fills in what the server knows. What changes nothing makes no new version."""
        meta = body["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        old = self.stored(plural, key)
        body = {**_head(plural), **body, "metadata": self._meta(plural, body, old)}
        if old is not None and body == old.body:
            return old
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        new = Stored(body, msgspec.json.encode(body), self.version)
        self._kinds.setdefault(plural, {})[key] = new
        self._tell(Change(plural, self.version, old, new))
        return new

    def remove(self, plural: str, key: Key) -> None:
        old = self._kinds[plural].pop(key)
        self.version += 1
        meta = {**old.body["metadata"], "resourceVersion": str(self.version)}
        body = {**old.body, "metadata": meta}
        self._tell(Change(plural, self.version, Stored(body, msgspec.json.encode(body), self.version), None))

    def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """As a user's deletion: what has finalizers stays until the last one goes."""
        body = self.get(plural, name, namespace)
        assert body is not None, f"{plural} {name} is there"
        if not body["metadata"].get("finalizers"):
            self.remove(plural, (namespace, name))
        elif not body["metadata"].get("deletionTimestamp"):
            self.put(plural, {**body, "metadata": {**body["metadata"], "deletionTimestamp": stamp(self.now())}})

    def change(self, plural: str, name: str, namespace: str = "", **fields: Any) -> None:
        """Replaces top-level fields, as their own controllers would."""
        body = self.get(plural, name, namespace)
        assert body is not None, f"{plural} {name} is there"
        self.put(plural, {**body, **fields})

    def _meta(self, plural: str, body: Body, old: Stored | None) -> Body:
        meta = dict(body["metadata"])
        if old is None:
            self._made += 1
            meta |= {"uid": meta.get("uid") or str(UUID(int=self._made)), "creationTimestamp": stamp(self.now())}
            return meta | ({} if plural in BUILT_IN else {"generation": 1})
        before = old.body["metadata"]
        kept = ("uid", "creationTimestamp", "resourceVersion", "deletionTimestamp", "generation")
        meta = {key: value for key, value in meta.items() if key not in kept[:3] and key != "generation"}
        meta |= {key: before[key] for key in kept if key in before and key not in meta}
        if "generation" in meta:
            ending = ("deletionTimestamp" in meta) and "deletionTimestamp" not in before
            meta["generation"] += ending or body.get("spec") != old.body.get("spec")
        return meta

    def _tell(self, change: Change) -> None:
        self.history.append(change)
        for each in self.told:
            each(change)


def _head(plural: str) -> Body:
    return {"apiVersion": KINDS[plural].api_version, "kind": KINDS[plural].kind}
