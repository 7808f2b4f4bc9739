"""Tells the author of a CapacityPolicy whether the pools and topology levels that it names are there."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from kube import ours
from kube.resources import CAPACITY_POLICIES
from provisioner.asking.parameters import NO_POOL, absent_pools
from provisioner.buying.creation import Writer
from provisioner.state import MANAGER, State
from runtime.client import Resource
from runtime.conditions import find, set_condition
from runtime.controller import DONE, Result
from runtime.errors import Conflict, NotFound
from runtime.events import Recorder

POLICIES = Resource(*CAPACITY_POLICIES)
READY = "Ready"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The condition Ready of a policy."""

    ready: bool
    reason: str
    message: str


def verdict(spec: ours.CapacityPolicySpec, pools: Mapping[str, ours.CapacityPool], policies: Collection[str] = ()) -> Verdict:
    """`pools` are all that there are, by name; `policies` are the names of all policies. Pure."""
    absent = absent_pools(spec.pools, pools)
    if absent:
        return Verdict(False, "UnknownPool", f"spec.pools: {absent}")
    usable = {name: pool for name, pool in pools.items() if not spec.pools or name in spec.pools}
    if not usable:
        return Verdict(False, "NoPool", NO_POOL)
    levels = {key for pool in usable.values() for key in pool.spec.topology_keys}
    for field, key in (("required", spec.topology.required), ("preferred", spec.topology.preferred)):
        if key is not None and key not in levels:
            text = f"spec.topology.{field}: no pool has {key} among its topologyKeys: name one of {', '.join(sorted(levels))}"
            return Verdict(False, "UnknownTopologyKey", text)
    if lost := sorted({each.policy for each in spec.by_priority_class} - set(policies)):
        text = f"spec.byPriorityClass: there is no CapacityPolicy {', '.join(lost)}: create it or correct the name"
        return Verdict(False, "UnknownPolicy", text)
    return Verdict(True, READY, f"requests are served from {', '.join(sorted(usable))}")


class PolicyReconciler:
    """Keeps the condition Ready of one policy."""

    def __init__(self, state: State, client: Writer, recorder: Recorder, now: Callable[[], datetime]) -> None:
        self._state, self._client, self._recorder, self._now = state, client, recorder, now

    async def reconcile(self, name: str) -> Result:
        policy = self._state.policies.get(("", name))
        if policy is None:
            return DONE
        pools = {pool.metadata.name: pool for pool in self._state.pools.values()}
        wanted = verdict(policy.spec, pools, {each.metadata.name for each in self._state.policies.values()})
        before = [each.to_json() for each in policy.status.conditions]
        generation = policy.metadata.generation
        after = set_condition(before, READY, wanted.ready, wanted.reason, wanted.message, generation=generation, now=self._now())
        if after != before:
            await self._write(policy, after, wanted, find(before, READY))
        return DONE

    async def _write(
        self, policy: ours.CapacityPolicy, conditions: list[dict[str, Any]], wanted: Verdict, old: Mapping[str, Any] | None
    ) -> None:
        meta = policy.metadata
        body = {
            "apiVersion": policy.api_version,
            "kind": policy.kind,
            "metadata": {"name": meta.name, "uid": meta.uid},
            "status": {"observedGeneration": meta.generation, "conditions": conditions},
        }
        try:
            await self._client.apply(POLICIES, body, manager=MANAGER, subresource="status")
        except (NotFound, Conflict):
            return  # deleted, or made anew under the same name: the store will tell
        if old is None or old["reason"] != wanted.reason:
            kind: Literal["Normal", "Warning"] = "Normal" if wanted.ready else "Warning"
            await self._recorder.event(policy.to_json(), kind, wanted.reason, wanted.message)
