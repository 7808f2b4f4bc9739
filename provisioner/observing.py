"""Puts together what one booking's next step rests on: stores, clouds, and a live look where absence counts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from capacity.model import ZONE, Resources
from capacity.quantity import amount
from kube import core, nodes, ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import ObjectKey
from kube.resources import NODES, PROVISIONING_REQUESTS, WORKLOADS, Kind
from kube.times import instant, seconds
from provisioner import launches, limits, marks, notices, owners, slices, transfer, verify
from provisioner.closing import closed
from provisioner.clouds.base import Cloud, CloudError, Instance
from provisioner.daemons import ready_on
from provisioner.health import ailment
from provisioner.offerings import ends
from provisioner.state import BOOKED, BOOKINGS_BY_GIVER, CLASS, QUARANTINED_LABEL, TAG_BOOKING, TAG_INSTALLATION, State
from provisioner.steps import LIVE, Notice, Observed, Owner, SeenNode, Verdict
from provisioner.transfer import Grip
from provisioner.view import take
from runtime.client import Client, Resource
from runtime.errors import ApiError, NotFound, TransportError

PODS_BY_BOOKING = "booking"
NODES_BY_PROVIDER = "provider"
FRESH, RELAXED = 2.0, 30.0
"""Seconds that a cloud's list is good for: while machines come and go, and while a booking just stands."""


@dataclass(frozen=True, slots=True)
class _List:
    at: float
    instances: Mapping[str, Instance]


class Observer:
    """Looks at the world for bookings. Lists of clouds are kept for a moment; `forget` after each call that changes something."""

    def __init__(self, state: State, client: Client, now: Callable[[], datetime]) -> None:
        self._state, self._client, self._now = state, client, now
        self._lists: dict[str, _List] = {}
        state.pods.add_index(PODS_BY_BOOKING, lambda pod: marks.bookings_on(pod.spec.node_selector))
        state.nodes.add_index(NODES_BY_PROVIDER, lambda node: [node.spec.provider_id] if node.spec.provider_id else [])

    async def observe(self, booking: ours.Booking) -> Observed:
        request = await self._request_there(booking)
        owner, words = await self._owner(booking, request)
        instances = await self._instances(booking)
        seen = self._nodes(booking, instances or {})
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
            keep=frozenset(name for name, stay in self._idle_times(booking) if stay != 0),
            forever=frozenset(name for name, stay in self._idle_times(booking) if stay is None),
            closed=self._closed_purchases(booking),
            on_node_loss=self._on_node_loss(booking),
            claimed=transfer.claimed(booking.metadata.name, self._state.bookings.by(BOOKINGS_BY_GIVER, booking.metadata.name)),
            wanted=booking.status.phase == transfer.GIVES and any(map(_waits, self._state.requests.values())),
        )

    def forget(self, booking: str) -> None:
        self._lists.pop(booking, None)

    def _consumers(self, booking: ours.Booking, nodes: Collection[str]) -> list[core.Pod]:
        """Live pods that select the booking's nodes, those without a node yet included. Of those that select them by the key of
        an earlier booking alone only the ones that are there: the rest are that booking's.
        """
        name, mine = booking.metadata.name, marks.names(booking)
        found = {(pod.metadata.namespace, pod.metadata.name): pod for each in mine for pod in self._selecting(each)}
        return [pod for pod in found.values() if pod.spec.node_name in nodes or _only_there(pod, name, mine)]

    def _selecting(self, booking: str) -> list[core.Pod]:
        return [pod for pod in self._state.pods.by(PODS_BY_BOOKING, booking) if not pod.terminal]

    def _idle_times(self, booking: ours.Booking) -> Iterable[tuple[str, int | None]]:
        """Purchase -> seconds that its machines may be idle afterwards, None for ever."""
        return ((each.name, idle_seconds(self._state, each.pool, each.source)) for each in booking.spec.purchases)

    def _pools(self, booking: ours.Booking) -> list[ours.CapacityPool]:
        names = {each.pool for each in booking.spec.purchases}
        return [pool for name in sorted(names) if (pool := self._state.pool(name))]

    def _closed_purchases(self, booking: ours.Booking) -> dict[str, str]:
        purchases = booking.spec.purchases
        shut = {each.name: why for each in purchases if (why := self._closed(each.pool))}
        if booking.status.phase in ("Joining", "Provisioned") and _lacking(booking):
            view = take(self._state, self._now())
            shut |= {each.name: why for each in purchases if (why := limits.exceeded(view, each) or self._expiring(each))}
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

    # --- request and owner

    async def _request_there(self, booking: ours.Booking) -> bool | None:
        wanted = booking.spec.request
        found = self._state.requests.get((wanted.namespace, wanted.name))
        if found is not None and found.metadata.uid == wanted.uid:
            return True
        return await still_there(self._client, PROVISIONING_REQUESTS, wanted)

    async def _owner(self, booking: ours.Booking, request: bool | None) -> tuple[Owner, str]:
        wanted = booking.spec.workload
        if wanted is None:
            return owners.of_bare(request)
        found = self._workload(wanted)
        if found is not None:
            return owners.of_workload(
                found, request, instant(booking.metadata.creation_timestamp or ""), slices.after(found, self._state.replacing)
            )
        there = await still_there(self._client, WORKLOADS, wanted)
        words = f"workload {wanted.namespace}/{wanted.name}"
        return (Owner.DONE, f"{words} was deleted") if there is False else (Owner.UNKNOWN, f"{words} could not be looked up")

    def _workload(self, wanted: ObjectKey) -> Workload | None:
        found = self._state.workloads.get((wanted.namespace, wanted.name))
        return found if found is not None and found.metadata.uid == wanted.uid else None

    async def _node_gone(self, name: str) -> bool:
        return await still_there(self._client, NODES, ObjectKey(name=name)) is False

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

    # --- nodes

    def _nodes(self, booking: ours.Booking, instances: Mapping[str, Instance]) -> dict[str, SeenNode]:
        seen: dict[str, SeenNode] = {}
        for planned in booking.spec.nodes:
            node = self._state.nodes.get(("", planned.name))
            if node is not None:
                pool = self._state.pool(planned.pool)
                expected = _with_daemons(verify.Expected(devices={}, room=_room(booking.spec, planned.pods)), pool)
                found = self._seen(booking, node, planned.pods, expected, pool)
                seen[node.metadata.name] = self._from_giver(planned, node, found)
        for provider_id, purchase in _machines(booking, instances):
            for node in self._state.nodes.by(NODES_BY_PROVIDER, provider_id):
                pool = self._state.pool(purchase.pool)
                expected = _with_daemons(self._expected(booking.spec, purchase), pool)
                seen[node.metadata.name] = self._seen(booking, node, purchase.pods, expected, pool)
        return seen

    def _from_giver(self, planned: ours.BookedNode, node: core.Node, seen: SeenNode) -> SeenNode:
        """A node that is taken over: the keys of the former booking are this one's to see to once that has let go."""
        giver = planned.taken_over
        if not giver:
            return seen
        keys = giver in marks.bookings_on(node.metadata.labels)
        others = tuple(each for each in seen.others if each != giver)
        match transfer.grip(self._state.bookings.get(("", giver)), planned):
            case Grip.LOOSE:
                return replace(seen, others=others, touched=seen.touched or keys, marked=seen.marked and not keys)
            case Grip.FIRM:
                return replace(seen, others=others, marked=False, giver=giver)
        return seen

    def _expected(self, spec: ours.BookingSpec, purchase: ours.BookedPurchase) -> verify.Expected:
        """Devices and taints are the shape's, as the pool's status keeps them over restarts."""
        pool = self._state.pool(purchase.pool)
        shape = next((each for each in pool.status.shapes if each.name == purchase.shape), None) if pool else None
        return verify.Expected(
            labels={key: value for key, value in {ZONE: purchase.zone, **purchase.domain, **purchase.labels}.items() if value},
            devices={name: amount(name, text) for name, text in shape.allocatable.items() if "/" in name} if shape else None,
            room=_room(spec, purchase.pods),
            taints=_repelling(shape.taints) if shape else None,
        )

    def _seen(
        self,
        booking: ours.Booking,
        node: core.Node,
        pods: Mapping[str, int],
        expected: verify.Expected,
        pool: ours.CapacityPool | None,
    ) -> SeenNode:
        name, mine = booking.metadata.name, marks.names(booking)
        facts = self._facts(mine, node, pool)
        found, words = verify.verdict(expected, facts)
        on_it = marks.bookings_on(node.metadata.labels)
        return SeenNode(
            name=node.metadata.name,
            provider_id=node.spec.provider_id,
            touched=name in on_it,
            marked=marks.marked(node, marks.labels(name, launches.keys(booking.spec, pods))),
            quarantined=QUARANTINED_LABEL in node.metadata.labels,
            others=tuple(sorted(on_it - mine)),
            holds=verify.holds(expected.room, facts),
            busy=any(is_stranger(pod, mine) for pod in self._state.pods_on(node.metadata.name)),
            launched=marks.launched(node),
            ready=node.ready,
            closed=node.spec.unschedulable,
            verdict=found,
            words=words or ("" if found is Verdict.SOUND else "not as planned"),
            notice=self._notice(node, pool),
        )

    def _notice(self, node: core.Node, pool: ours.CapacityPool | None) -> Notice | None:
        """What the pool's cloud said last: all its machines with our tags are listed, whatever booking they were bought for."""
        known = self._state.known.get(pool.metadata.name) if pool else None
        machine = known.machine(node.spec.provider_id) if known else None
        if known is None or machine is None:
            return None
        there = (each for each in known.inventory.reservations if each.id == machine.reservation)
        return notices.notice(machine, pool, next(there, None), self._now())

    def _facts(self, mine: frozenset[str], node: core.Node, pool: ours.CapacityPool | None) -> verify.Facts:
        pods = self._state.pods_on(node.metadata.name)
        return verify.Facts(
            ready=node.ready,
            labels=node.metadata.labels,
            allocatable=nodes.amounts(node.status.allocatable),
            taken=nodes.requested(pod for pod in pods if not mine & marks.bookings_on(pod.spec.node_selector)),
            daemon_sets=frozenset(ready_on(pods)),
            unschedulable=node.spec.unschedulable,
            taints=_repelling(node.spec.taints),
            ailment=ailment(node, pool),
        )


def _with_daemons(expected: verify.Expected, pool: ours.CapacityPool | None) -> verify.Expected:
    return replace(expected, daemon_sets=pool.spec.readiness.required_daemon_sets if pool else ())


def _waits(request: ProvisioningRequest) -> bool:
    """Whether a gang waits for capacity, as far as its request tells."""
    true = {each.type for each in request.status.conditions if each.status == "True"}
    return request.spec.provisioning_class_name == CLASS and true.isdisjoint(("Provisioned", "Failed"))


def _only_there(pod: core.Pod, booking: str, mine: frozenset[str]) -> bool:
    """Whether the pod selects the booking's own key, and none that its nodes don't bear: it can't run on them then."""
    selected = marks.bookings_on(pod.spec.node_selector)
    return booking in selected and selected <= mine


def is_stranger(pod: core.Pod, bookings: frozenset[str] = frozenset()) -> bool:
    """A live pod that is neither a DaemonSet's, nor static, nor one that selects a key of these bookings."""
    kinds = {owner.kind for owner in pod.metadata.owner_references}
    return not pod.terminal and not kinds & {"DaemonSet", "Node"} and not bookings & marks.bookings_on(pod.spec.node_selector)


def idle_seconds(state: State, pool: str, source: str) -> int | None:
    """How long machines of the source may be idle, None for ever. Those of a source that is no longer there don't stay."""
    found = state.pool(pool)
    sources = found.spec.sources if found else ()
    return next((each.idle_seconds for each in sources if each.name == source), seconds(ours.IDLE_AFTER))


async def still_there(client: Client, kind: Kind, wanted: ObjectKey) -> bool | None:
    """A live look: whether this incarnation exists, None when there is no certain answer.

    A 404 counts only if it names the object: a server that doesn't serve the kind at all answers 404 too.
    """
    try:
        found = await client.get(Resource(*kind), wanted.name, wanted.namespace)
    except NotFound as error:
        return False if f'"{wanted.name}"' in error.message else None
    except (ApiError, TransportError):
        return None
    return not wanted.uid or found["metadata"].get("uid") == wanted.uid


def _lacking(booking: ours.Booking) -> bool:
    """Whether machines are missing that would have to be bought again."""
    standing = sum(each.state in LIVE for each in booking.status.instances)
    return standing < sum(each.count for each in booking.spec.purchases)


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


def _machines(booking: ours.Booking, instances: Mapping[str, Instance]) -> Iterable[tuple[str, ours.BookedPurchase]]:
    """The providerID and purchase of each machine of the booking that may have a node."""
    purchases = {each.name: each for each in booking.spec.purchases}
    by_token = {each.token: each.purchase for each in booking.status.launches}
    found = {each.provider_id: each.purchase for each in booking.status.instances if each.state not in ("Gone", "Transferred")}
    left = {each.provider_id for each in booking.status.instances} - set(found)
    for each in instances.values():
        if each.provider_id not in left:
            found.setdefault(each.provider_id, by_token.get(each.token, ""))
    return [(provider_id, purchases[name]) for provider_id, name in found.items() if provider_id and name in purchases]


def _room(spec: ours.BookingSpec, pods: Mapping[str, int]) -> Resources:
    """What the pods planned on one node ask for together."""
    total: Counter[str] = Counter()
    for each in spec.pod_sets:
        for name, number in each.requests.items():
            total[name] += number * pods.get(each.name, 0)
    return {name: number for name, number in total.items() if number}


def _repelling(taints: Iterable[core.Taint]) -> frozenset[tuple[str, str]]:
    """The taints (key, effect) that keep pods off, ours apart: it is told by the marks."""
    return frozenset((each.key, each.effect) for each in taints if each.effect != "PreferNoSchedule" and each.key != BOOKED)
