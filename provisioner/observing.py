"""Puts together what one booking's next step rests on: stores, clouds, and a live look where absence counts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from kube import core, ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import ObjectKey
from kube.resources import NODES, PROVISIONING_REQUESTS, WORKLOADS
from kube.times import instant, seconds
from provisioner import live
from provisioner.asking import owners, slices
from provisioner.buying import limits
from provisioner.clouds.base import Cloud, CloudError, Instance
from provisioner.ending.closing import closed
from provisioner.nodes import hung, marks
from provisioner.nodes.inspecting import Inspector
from provisioner.planning.offerings import ends
from provisioner.repairing import transfer
from provisioner.repairing.slots import Sought
from provisioner.state import BOOKINGS_BY_GIVER, CLASS, TAG_BOOKING, TAG_INSTALLATION, State
from provisioner.steps import LIVE, Observed, Owner
from provisioner.view import View, take
from runtime.client import Client

PODS_BY_BOOKING = "booking"
FRESH, RELAXED = 2.0, 30.0
"""Seconds that a cloud's list is good for: while machines come and go, and while a booking just stands."""


@dataclass(frozen=True, slots=True)
class _List:
    at: float
    instances: Mapping[str, Instance]


def not_sought(_booking: str, seconds: int) -> Sought:
    """Nobody looks for nodes in place of lost ones."""
    return Sought(seconds=seconds)


class Observer:
    """Looks at the world for bookings. Lists of clouds are kept for a moment; `forget` after each call that changes something."""

    def __init__(
        self, state: State, client: Client, now: Callable[[], datetime], sought: Callable[[str, int], Sought] = not_sought
    ) -> None:
        self._state, self._client, self._now, self._sought = state, client, now, sought
        self._lists: dict[str, _List] = {}
        state.pods.add_index(PODS_BY_BOOKING, lambda pod: marks.bookings_on(pod.spec.node_selector))
        self._inspector = Inspector(state, now)

    async def observe(self, booking: ours.Booking) -> Observed:
        request = await self._request_there(booking)
        owner, words = await self._owner(booking, request)
        instances = await self._instances(booking)
        seen, idle = self._inspector.nodes(booking, instances or {}), self._idle_times(booking)
        return Observed(
            owner=owner,
            words=words,
            request=request,
            bare=booking.spec.workload is None,
            instances=instances,
            nodes=seen,
            gone=frozenset(
                [each.name for each in booking.spec.nodes if each.name not in seen and await self._node_gone(each.name)]
            ),
            consumers=Counter(pod.spec.node_name for pod in self._consumers(booking, seen)),
            readiness={each.metadata.name: seconds(each.spec.readiness.timeout) for each in self._pools(booking)},
            keep=frozenset(name for name, stay in idle.items() if stay != 0),
            forever=frozenset(name for name, stay in idle.items() if stay is None),
            closed=self._closed_purchases(booking),
            on_node_loss=self._on_node_loss(booking),
            claimed=transfer.claimed(booking.metadata.name, self._state.bookings.by(BOOKINGS_BY_GIVER, booking.metadata.name)),
            wanted=booking.status.phase == transfer.GIVES and any(map(_waits, self._state.requests.values())),
            sought=self._sought(booking.metadata.name, self._search_seconds(booking)),
        )

    def forget(self, booking: str) -> None:
        self._lists.pop(booking, None)

    def barred(self, booking: ours.Booking, purchase: str) -> str:
        """The limit that one more machine of the purchase would exceed, as things are at this moment; "" if none."""
        bought = next(each for each in booking.spec.purchases if each.name == purchase)
        return limits.exceeded(self._limits_view(booking), bought)

    def _limits_view(self, booking: ours.Booking) -> View:
        return take(self._state, self._now(), fresh=booking, other=limits.as_ordered)

    def _consumers(self, booking: ours.Booking, nodes: Collection[str]) -> list[core.Pod]:
        """Live pods that select the booking's nodes, those without a node yet included. Of those that select them by the key of
        an earlier booking alone only the ones that are there: the rest are that booking's. None that was left behind on a silent
        node.
        """
        name, mine = booking.metadata.name, marks.names(booking)
        found = {(pod.metadata.namespace, pod.metadata.name): pod for each in mine for pod in self._selecting(each)}
        there = [pod for pod in found.values() if pod.spec.node_name in nodes or _only_there(pod, name, mine)]
        return hung.counting(self._state, there, self._now())

    def _selecting(self, booking: str) -> list[core.Pod]:
        return [pod for pod in self._state.pods.by(PODS_BY_BOOKING, booking) if not pod.terminal]

    def _idle_times(self, booking: ours.Booking) -> Mapping[str, int | None]:
        """Purchase -> seconds that its machines may be idle afterwards, None for ever."""
        return {each.name: idle_seconds(self._state, each.pool, each.source) for each in booking.spec.purchases}

    def _pools(self, booking: ours.Booking) -> list[ours.CapacityPool]:
        names = {each.pool for each in booking.spec.purchases}
        return [pool for name in sorted(names) if (pool := self._state.pool(name))]

    def _closed_purchases(self, booking: ours.Booking) -> dict[str, str]:
        purchases = booking.spec.purchases
        shut = {each.name: why for each in purchases if (why := self._closed(each.pool))}
        lacking = _lacking(booking) if booking.status.phase in ("Joining", "Provisioned") else []
        view = self._limits_view(booking) if lacking else None
        for each in lacking:
            if view and (why := limits.exceeded(view, each) or self._expiring(each)):
                shut[each.name] = why
        return shut

    def _expiring(self, purchase: ours.BookedPurchase) -> str:
        """Nothing is bought for a gang that runs in a reservation whose drain has begun."""
        pool, known = self._state.pool(purchase.pool), self._state.known.get(purchase.pool)
        source = next((each for each in pool.spec.sources if each.name == purchase.source), None) if pool else None
        there = known.inventory.reservations if known else ()
        found = next((each for each in there if each.id == purchase.reservation_id), None)
        end = ends(source, found) if source and found else None
        return f"reservation {purchase.reservation_id} is about to end" if end and end <= self._now().timestamp() else ""

    def _closed(self, name: str) -> str:
        """Why nothing may be bought from the pool now. Nothing is said of one that isn't there."""
        pool = self._state.pool(name)
        if pool is None:
            return ""
        return closed(pool) or (f"pool {name} is in {pool.spec.mode}" if pool.spec.mode != "Active" else "")

    def _on_node_loss(self, booking: ours.Booking) -> str:
        policy = self._state.policies.get(("", booking.spec.policy))
        return policy.spec.on_node_loss if policy else "Replace"

    def _search_seconds(self, booking: ours.Booking) -> int:
        """How long nodes are looked for in place of lost ones before the first pod: as long as for the first ones."""
        policy = self._state.policies.get(("", booking.spec.policy))
        return seconds((policy.spec.timeouts if policy else ours.Timeouts()).provision)

    # --- request and owner

    async def _request_there(self, booking: ours.Booking) -> bool | None:
        wanted = booking.spec.request
        found = self._state.requests.get((wanted.namespace, wanted.name))
        if found is not None and found.metadata.uid == wanted.uid:
            return True
        return await live.still_there(self._client, PROVISIONING_REQUESTS, wanted)

    async def _owner(self, booking: ours.Booking, request: bool | None) -> tuple[Owner, str]:
        wanted = booking.spec.workload
        if wanted is None:
            return owners.of_bare(request)
        found = self._workload(wanted)
        if found is not None:
            return owners.of_workload(
                found, request, instant(booking.metadata.creation_timestamp or ""), slices.after(found, self._state.replacing)
            )
        there = await live.still_there(self._client, WORKLOADS, wanted)
        words = f"workload {wanted.namespace}/{wanted.name}"
        return (Owner.DONE, f"{words} was deleted") if there is False else (Owner.UNKNOWN, f"{words} could not be looked up")

    def _workload(self, wanted: ObjectKey) -> Workload | None:
        found = self._state.workloads.get((wanted.namespace, wanted.name))
        return found if found is not None and found.metadata.uid == wanted.uid else None

    async def _node_gone(self, name: str) -> bool:
        return await live.still_there(self._client, NODES, ObjectKey(name=name)) is False

    # --- machines

    async def _instances(self, booking: ours.Booking) -> Mapping[str, Instance] | None:
        """All machines with the booking's tags, None when a cloud gave no answer. Nothing is asked before the first launch."""
        if not booking.status.launches:
            return {}
        now = asyncio.get_running_loop().time()
        known = self._lists.get(booking.metadata.name)
        if known and now - known.at < (FRESH if _moving(booking) else RELAXED):
            return known.instances
        clouds = [self._state.clouds.get(name) for name in sorted({each.pool for each in booking.spec.purchases})]
        tags = {TAG_INSTALLATION: booking.spec.installation, TAG_BOOKING: booking.metadata.name}
        found: dict[str, Instance] = {}
        for cloud in clouds:
            listed = await _listed(cloud, tags)
            if listed is None:
                return None
            found |= {each.id: each for each in listed}
        self._lists[booking.metadata.name] = _List(now, found)
        return found


def _waits(request: ProvisioningRequest) -> bool:
    """Whether a gang waits for capacity, as far as its request tells."""
    true = {each.type for each in request.status.conditions if each.status == "True"}
    return request.spec.provisioning_class_name == CLASS and true.isdisjoint(("Provisioned", "Failed"))


def _only_there(pod: core.Pod, booking: str, mine: frozenset[str]) -> bool:
    """Whether the pod selects the booking's own key, and none that its nodes don't bear: it can't run on them then."""
    selected = marks.bookings_on(pod.spec.node_selector)
    return booking in selected and selected <= mine


def idle_seconds(state: State, pool: str, source: str) -> int | None:
    """How long machines of the source may be idle, None for ever. Those of a source that is no longer there don't stay."""
    found = state.pool(pool)
    sources = found.spec.sources if found else ()
    return next((each.idle_seconds for each in sources if each.name == source), seconds(ours.IDLE_AFTER))


def _lacking(booking: ours.Booking) -> list[ours.BookedPurchase]:
    """Purchases of which machines are missing that would have to be bought again."""
    standing = Counter(each.purchase for each in booking.status.instances if each.state in LIVE)
    return [each for each in booking.spec.purchases if standing[each.name] < each.count]


async def _listed(cloud: Cloud | None, tags: Mapping[str, str]) -> tuple[Instance, ...] | None:
    try:
        return await cloud.instances(tags) if cloud else None
    except CloudError:
        return None


def _moving(booking: ours.Booking) -> bool:
    """Whether machines are expected to come or go."""
    standing = all(each.state in ("Ready", "Gone", "Transferred") for each in booking.status.instances)
    pending = any(each.state == "Pending" for each in booking.status.launches)
    return pending or not (booking.status.phase == "Provisioned" and standing)
