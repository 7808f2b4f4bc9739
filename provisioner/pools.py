"""The pools' reconciler: asks each pool's cloud what it has, keeps that for the planner, and writes it to the pool's status."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from msgspec import structs

from kube import ours
from kube.resources import CAPACITY_POOLS
from kube.times import instant
from provisioner.buying.creation import Writer
from provisioner.buying.limits import budgets, capped, idle_cost
from provisioner.clouds.base import Cloud, CloudError, ErrorKind, Wanted
from provisioner.clouds.fenced import FencedCloud
from provisioner.clouds.registry import Clouds
from provisioner.ending.closing import POOL_FINALIZER, holders
from provisioner.nodes import checkups, hung
from provisioner.planning import daemons
from provisioner.planning.offerings import Offers, offers
from provisioner.planning.snapshots import market
from provisioner.state import MANAGER, TAG_INSTALLATION, Known, State
from provisioner.telling import flavors, poolstatus
from provisioner.telling.culprits import Told, culprits
from provisioner.view import View, take
from runtime.client import Resource
from runtime.controller import DONE, Result
from runtime.errors import Conflict, NotFound
from runtime.events import Recorder
from runtime.logging import get_logger

POOLS = Resource(*CAPACITY_POOLS)
CALL_LIMIT = 30.0
"""Seconds that one look at a cloud may take."""
PATIENCE = 5.0
SOON = 1.0
LINGER = 3.0
"""Seconds from a pool's deletion until it may go: a booking that was being made at that moment is in the store by then."""
_log = get_logger("pools")


@dataclass(frozen=True, slots=True)
class Asked:
    """When (loop time) and for which provider a cloud was last asked, and what went wrong."""

    at: float
    provider: ours.Provider
    error: str = ""


class PoolReconciler:
    """`changed` is called when a pool has other capacity than before."""

    def __init__(
        self,
        state: State,
        client: Writer,
        recorder: Recorder,
        clouds: Clouds,
        now: Callable[[], datetime],
        changed: Callable[[], None],
    ) -> None:
        self._state, self._client, self._recorder, self._clouds = state, client, recorder, clouds
        self._now, self._changed = now, changed
        self._told = Told(recorder)
        self._asked: dict[str, Asked] = {}
        self._said: dict[str, tuple[ours.CapacityPoolStatus, float]] = {}

    async def reconcile(self, name: str) -> Result:
        pool = self._state.pool(name)
        if pool is None:
            self._forget(name)
            return DONE
        now = self._now()
        if pool.metadata.deletion_timestamp is None and not await self._held(pool):
            return Result(SOON)
        if name not in self._asked:
            self._load(pool, now)
        await self._ask(pool)
        if not self._state.ledger.begun(name, now):
            self._state.ledger.begin_day(name, idle_cost(take(self._state, now), pool), now)
        view = take(self._state, now)
        holding = holders(view, pool)
        if not holding and _deleted_for(pool, now) >= LINGER:
            await self._let_go(pool)
            return Result(SOON)
        pool = self._as_said(pool)
        seen = self._look_at(view, pool, holding)
        await self._write(pool, poolstatus.pool_status(view, pool, seen))
        await self._told.tell(name, culprits(pool, seen, view.daemon_sets, self._state.flavors.values()))
        return Result(SOON if pool.metadata.deletion_timestamp and not holding else self._state.settings.inventory_seconds)

    # --- the finalizer ---

    async def _held(self, pool: ours.CapacityPool) -> bool:
        """Whether the finalizer is on the pool, which must be so before its cloud is known and anything can be bought."""
        there = pool.metadata.finalizers
        return POOL_FINALIZER in there or await self._finalize(pool, (*there, POOL_FINALIZER))

    async def _let_go(self, pool: ours.CapacityPool) -> None:
        there = pool.metadata.finalizers
        if POOL_FINALIZER in there:
            await self._finalize(pool, [each for each in there if each != POOL_FINALIZER])

    async def _finalize(self, pool: ours.CapacityPool, finalizers: Iterable[str]) -> bool:
        """False when the pool is another by now: the store will tell."""
        meta = pool.metadata
        body = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": list(finalizers)}
        try:
            await self._client.patch(POOLS, meta.name, {"metadata": body}, manager=MANAGER)
        except (NotFound, Conflict):
            return False
        return True

    def _forget(self, name: str) -> None:
        for known in (self._asked, self._said, self._state.known, self._state.clouds):
            known.pop(name, None)
        self._told.forget(name)
        self._changed()

    def _load(self, pool: ours.CapacityPool, now: datetime) -> None:
        """Takes up what an earlier run left in the status."""
        name = pool.metadata.name
        self._state.backoffs.load(name, pool.status.backoffs)
        self._state.ledger.load(name, pool.status.spend, self._state.bookings.values(), now)

    # --- the cloud ---

    async def _ask(self, pool: ours.CapacityPool) -> None:
        """Looks at the cloud if the last look is old enough, or was at another one."""
        name, provider, loop = pool.metadata.name, pool.spec.provider, asyncio.get_running_loop()
        last = self._asked.get(name)
        period = self._state.settings.inventory_seconds * 0.9  # a requeue that comes a little early still looks
        if last and last.provider == provider and loop.time() < last.at + period:
            return
        if last and last.provider != provider:
            self._state.known.pop(name, None)
        self._asked[name] = Asked(loop.time(), provider, await self._look(name, pool.spec))

    async def _look(self, name: str, spec: ours.CapacityPoolSpec) -> str:
        """The error in words, "" when it went well."""
        try:
            cloud = self._state.clouds[name] = FencedCloud(self._clouds.connect(spec.provider), self._clouds.fence)
            async with asyncio.timeout(CALL_LIMIT):
                known = await self._read(cloud, _wanted(spec))
        except CloudError as error:
            return self._failed(name, f"{error.kind}: {error.message}")
        except TimeoutError:
            return self._failed(name, f"{ErrorKind.UNKNOWN}: no answer within {CALL_LIMIT:.0f} s")
        old = self._state.known.get(name)
        self._state.known[name] = known
        if old is None or replace(old, at=known.at) != known:
            self._changed()
        return ""

    async def _read(self, cloud: Cloud, wanted: Wanted) -> Known:
        """Instances first: each that is listed is then counted in the inventory too."""
        instances = await cloud.instances({TAG_INSTALLATION: self._state.installation})
        inventory = await cloud.inventory(wanted)
        return Known(inventory, tuple(instances), self._now())

    def _failed(self, name: str, error: str) -> str:
        """Unknown isn't absent: what was known before stays."""
        _log.warning("a pool's cloud could not be read", pool=name, error=error)
        old = self._state.known.get(name)
        if old is not None:
            self._state.known[name] = replace(old, error=error)
        return error

    # --- the status ---

    def _look_at(self, view: View, pool: ours.CapacityPool, holding: str) -> poolstatus.Look:
        pods = daemons.daemon_pods(view.daemon_sets)
        found = market(view, pool, pods)
        sold = offers(found) if found else Offers()
        sold = replace(sold, offerings=capped(sold.offerings, budgets(view, pool, sold.offerings)))
        asked = self._asked[pool.metadata.name]
        seen = poolstatus.look(view, pool, found, sold, pods, asked.error)
        name, uses, grounds = pool.metadata.name, flavors.used(self._state), flavors.grounds(view)
        missing, unfit = flavors.missing(uses, grounds), flavors.unfit(uses, grounds)
        orphans = self._state.alarms.get(name, "")
        checkup = checkups.trouble(self._state, pool)
        told = replace(seen, missing=missing.get(name, {}), unfit=unfit.get(name, {}), holding=holding, orphans=orphans)
        return replace(told, checkup=checkup, silence=hung.alarm(self._state, name, view.now))

    def _as_said(self, pool: ours.CapacityPool) -> ours.CapacityPool:
        """With the status that was written last: a store that lags would have older transition times written over it."""
        status, until = self._said.get(pool.metadata.name, (pool.status, 0.0))
        return structs.replace(pool, status=status) if asyncio.get_running_loop().time() < until else pool

    async def _write(self, pool: ours.CapacityPool, status: ours.CapacityPoolStatus) -> None:
        loop, name = asyncio.get_running_loop(), pool.metadata.name
        if status == pool.status:
            return
        try:
            await self._client.apply(POOLS, _body(pool, status), manager=MANAGER, subresource="status")
        except (NotFound, Conflict):
            return  # deleted, or made anew under the same name: the store will tell
        self._said[name] = (status, loop.time() + PATIENCE)
        for condition in status.conditions:
            await self._tell(pool, condition)

    async def _tell(self, pool: ours.CapacityPool, condition: Any) -> None:
        old = next((each for each in pool.status.conditions if each.type == condition.type), None)
        if old and (old.status, old.reason) == (condition.status, condition.reason):
            return
        good = condition.type == "Ready"
        bad = (condition.status == "True") != good
        if old is None and not bad and not good:
            return  # a fresh pool without this trouble: no news
        reason = condition.reason if good else condition.type if bad else f"{condition.type}Over"
        await self._recorder.event(pool.to_json(), "Warning" if bad else "Normal", reason, condition.message)


def _wanted(spec: ours.CapacityPoolSpec) -> Wanted:
    named = tuple(name for source in spec.sources for name in source.reservation_ids)
    return Wanted(spec.shapes, named, any(source.capacity_type == "on-demand" for source in spec.sources))


def _deleted_for(pool: ours.CapacityPool, now: datetime) -> float:
    """Seconds since its deletion, -1 for a pool that stays."""
    text = pool.metadata.deletion_timestamp
    return (now - instant(text)).total_seconds() if text else -1.0


def _body(pool: ours.CapacityPool, status: ours.CapacityPoolStatus) -> dict[str, Any]:
    meta = pool.metadata
    bare = structs.replace(pool, status=status).to_json()
    return {
        "apiVersion": pool.api_version,
        "kind": pool.kind,
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": bare.get("status", {}),
    }
