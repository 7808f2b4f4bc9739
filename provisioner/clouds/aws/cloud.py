"""EC2 as a Cloud: one pool's provider in one account."""

import asyncio
from collections.abc import Iterable, Sequence

from capacity.model import Labels
from kube.providers import AwsProvider
from provisioner.clouds.aws import ending, orders, preflight, prices, reservations, shapes
from provisioner.clouds.aws.account import Subnet, in_zone
from provisioner.clouds.aws.caching import Cached
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.discovery import MINUTES, Discovery
from provisioner.clouds.aws.inspection import Inspection
from provisioner.clouds.aws.launching import Launcher
from provisioner.clouds.aws.listing import Listing
from provisioner.clouds.aws.orders import Site
from provisioner.clouds.aws.reservations import Ceilings, Held
from provisioner.clouds.aws.shapes import InstanceType
from provisioner.clouds.base import (
    EVERYTHING,
    CloudError,
    ErrorKind,
    Instance,
    InstanceState,
    Inventory,
    Order,
    Reservation,
    Wanted,
    ZoneStock,
)
from provisioner.state import TAG_INSTALLATION

YOUNG = 60.0
"""Seconds after a launch in which EC2 may say that it doesn't know the machine."""
_ALIVE = (InstanceState.PENDING, InstanceState.RUNNING)


class AwsCloud:
    """`calls` may be shared by all pools of the account and region."""

    def __init__(self, provider: AwsProvider, calls: Calls) -> None:
        self._provider, self._calls = provider, calls
        self._discovery = Discovery(calls, provider)
        self._listing, self._launcher = Listing(calls), Launcher(calls)
        self._ceilings = Ceilings()
        self._facts: dict[Wanted, Cached[preflight.Facts]] = {}
        self._ours: tuple[Instance, ...] = ()
        self._tags: Labels = {}
        self._born: dict[str, float] = {}

    async def inventory(self, wanted: Wanted = EVERYTHING) -> Inventory:
        """Instance types that are named by the pool or held by its reservations; nothing else is asked for."""
        held = await self._discovery.held(wanted)
        types = await self._discovery.types(wanted.shapes or {each.shape for each in held})
        facts = await self._facts.setdefault(wanted, Cached(lambda: self._inspect(wanted), MINUTES)).get()
        try:
            found = tuple(shapes.shape(kind, self._provider) for kind in types.values())
        except ValueError as problem:
            raise CloudError(ErrorKind.CONFIG, str(problem)) from problem
        return Inventory(
            shapes=found,
            reservations=await self._offered(held),
            stock=self._stock(types.values(), facts) if wanted.on_demand else (),
            checks=preflight.checks(facts),
        )

    async def launch(self, order: Order) -> tuple[Instance, ...]:
        site = await self._site(order)
        now = asyncio.get_running_loop().time()
        try:
            found = await self._launcher.launch(order, site)
        except CloudError as error:
            if error.kind is ErrorKind.RESERVATION_FULL and order.reservation:
                self._ceilings.full(order.reservation, now)
            raise
        finally:
            self._listing.drop()
            self._discovery.reservations.drop()
        self._born = {each: at for each, at in self._born.items() if now - at < YOUNG} | {each.id: now for each in found}
        if order.reservation and (held := self._discovery.last.get(order.reservation)):
            self._ceilings.launched(held.id, held.available, len(found), now)
        return found

    async def instances(self, tags: Labels) -> tuple[Instance, ...]:
        subnets = await self._discovery.subnets.get()
        found = await self._listing.instances(tags, {each.zone: each.zone_id for each in subnets})
        if [*tags] == [TAG_INSTALLATION]:
            self._ours, self._tags = found, tags
        return found

    async def terminate(self, ids: Sequence[str]) -> None:
        try:
            young = {each for each, at in self._born.items() if asyncio.get_running_loop().time() - at < YOUNG}
            await ending.terminate(self._calls, ids, young)
        finally:
            self._listing.drop()
            self._discovery.reservations.drop()

    async def close(self) -> None:
        await self._calls.close()

    # --- inventory ------------------------------------------------------------------------------------------------------

    async def _offered(self, held: Sequence[Held]) -> tuple[Reservation, ...]:
        usable = [each for each in held if not each.why]
        places = await self._discovery.places(usable)
        now = asyncio.get_running_loop().time()
        return tuple(
            reservations.offered(
                each,
                self._ceilings.of(each.id, reservations.free(each), now),
                each.id in places.ultraservers,
                places.labels.get(each.id, {}),
            )
            for each in usable
        )

    def _stock(self, types: Iterable[InstanceType], facts: preflight.Facts) -> tuple[ZoneStock, ...]:
        """EC2 doesn't tell its stock; the quota is an upper limit where it can be read. What has no price isn't sold."""
        zones = sorted({each.zone for each in facts.subnets})
        sold = [kind for kind in types if prices.hourly(kind.name, self._provider.prices) is not None]
        return tuple(ZoneStock(kind.name, zone, self._within_quota(kind, facts)) for kind in sold for zone in zones)

    def _within_quota(self, kind: InstanceType, facts: preflight.Facts) -> int | None:
        """How many more instances the quota allows besides reservations and our own, as far as they are of the pool's types."""
        code = preflight.quota_code(kind.name)
        if code not in facts.quotas:
            return None
        cpus = {each.name: each.cpus for each in facts.types if preflight.quota_code(each.name) == code}
        used = sum(cpus.get(each.shape, 0) for each in self._ours if not each.reservation and each.state in _ALIVE)
        return max(0, facts.quotas[code] - facts.promised.get(code, 0) - used) // kind.cpus

    async def _inspect(self, wanted: Wanted) -> preflight.Facts:
        look = Inspection(self._calls, self._provider)
        held = await self._discovery.held(wanted)
        types = tuple((await self._discovery.types(wanted.shapes or {each.shape for each in held})).values())
        template, subnets = await self._discovery.template.get(), await self._discovery.subnets.get()
        declared = self._provider.prices
        everything = await look.maybe("reservations", self._discovery.reservations.get(), ()) if wanted.on_demand else ()
        return preflight.Facts(
            template=template,
            wanted_subnets=self._provider.subnet_ids,
            subnets=subnets,
            types=types,
            held=held,
            on_demand=wanted.on_demand,
            unpriced=tuple(each.name for each in types if wanted.on_demand and prices.hourly(each.name, declared) is None),
            groups=await look.groups(template),
            quotas=await look.quotas(types) if wanted.on_demand else {},
            promised=preflight.promised(everything, types, template.owner),
            scaling=await look.scaling(),
            strangers=await look.strangers(types),
            denied=await self._denied(look, types[0], subnets[0].zone) if subnets and types else "",
            unread=look.unread,
        )

    async def _denied(self, look: Inspection, kind: InstanceType, zone: str) -> str:
        """By dry runs of what a launch would be, this installation's tag included. A template that can't be used is told of by
        its own check."""
        order = Order("dry-run", kind.name, zone, "on-demand", 1, tags=self._tags)
        try:
            launch = orders.first(order, await self._site(order))
        except ValueError:
            return ""
        return await look.denied(launch, [each for each in self._ours if each.state in _ALIVE])

    # --- launch ---------------------------------------------------------------------------------------------------------

    async def _site(self, order: Order) -> Site:
        """Raises CloudError of kind CONFIG for a zone or type that the provider doesn't have."""
        kinds, subnets = await self._discovery.types([order.shape]), await self._discovery.subnets.get()
        near = in_zone(subnets, order.zone)
        if order.shape not in kinds:
            raise CloudError(ErrorKind.CONFIG, f"EC2 has no instance type {order.shape} in this region")
        if not near:
            raise CloudError(ErrorKind.CONFIG, f"provider.aws.subnetIDs: none of them is in zone {order.zone}")
        held = await self._reservation(order.reservation)
        return Site(
            cluster=self._provider.cluster_name,
            template=await self._discovery.template.get(),
            kind=kinds[order.shape],
            subnets=near,
            placement_group=held.placement_group if held else "",
            taints=tuple(shapes.taints((*self._provider.taints, *self._provider.startup_taints))),
            zones=_zones(subnets),
        )

    async def _reservation(self, identity: str | None) -> Held | None:
        """As it was seen last: what matters of it here doesn't change."""
        if identity and identity not in self._discovery.last:
            await self._discovery.reservations.get()
        return self._discovery.last.get(identity or "")


def _zones(subnets: Iterable[Subnet]) -> tuple[str, ...]:
    return tuple(sorted({each.zone for each in subnets}))
