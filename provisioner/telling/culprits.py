"""Objects of others that keep a pool's capacity from being used: each is told in an event of its own, when it starts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kube import core, kueue, ours
from kube.meta import ObjectMeta
from kube.resources import DAEMON_SETS, RESOURCE_FLAVORS, Kind
from provisioner.telling.poolstatus import Look
from runtime.events import Recorder


@dataclass(frozen=True, slots=True)
class Culprit:
    kind: Kind
    namespace: str
    name: str
    uid: str
    reason: str
    message: str

    @property
    def regarding(self) -> dict[str, Any]:
        meta = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": meta}


def culprits(
    pool: ours.CapacityPool, seen: Look, daemon_sets: Iterable[core.DaemonSet], flavors: Iterable[kueue.ResourceFlavor]
) -> Iterator[Culprit]:
    """Pure: those that the pool's conditions DaemonSetsBlocked, LabelsMissing and FlavorsUnfit name."""
    where = f"CapacityPool {pool.metadata.name}"
    for daemon_set in daemon_sets:
        meta = daemon_set.metadata
        if f"{meta.namespace}/{meta.name}" in seen.blocked.offenders:
            yield _culprit(DAEMON_SETS, meta, "DaemonSetBlocked", f"{where}: {seen.blocked.message}")
    for flavor in flavors:
        if sentence := seen.missing.get(flavor.metadata.name):
            yield _culprit(RESOURCE_FLAVORS, flavor.metadata, "LabelsMissing", f"{where}: {sentence}")
        if sentence := seen.unfit.get(flavor.metadata.name):
            yield _culprit(RESOURCE_FLAVORS, flavor.metadata, "FlavorUnfit", f"{where}: {sentence}")


def _culprit(kind: Kind, meta: ObjectMeta, reason: str, message: str) -> Culprit:
    return Culprit(kind, meta.namespace, meta.name, meta.uid, reason, message)


class Told:
    """Remembers for each pool what was told, so that nothing is told again while it lasts."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: dict[str, frozenset[Culprit]] = {}

    def forget(self, pool: str) -> None:
        self._told.pop(pool, None)

    async def tell(self, pool: str, found: Iterable[Culprit]) -> None:
        present = frozenset(found)
        fresh = present - self._told.get(pool, frozenset())
        self._told[pool] = present
        for each in sorted(fresh, key=lambda c: (c.kind.kind, c.namespace, c.name)):
            await self._recorder.event(each.regarding, "Warning", each.reason, each.message)
