"""One moment of the state as plain values, and who holds which node in it. Everything that decides works on a `View`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial

from capacity.model import Holder, Labels, Running
from kube import core, ours
from kube.pools import POOL_LABEL, selects
from provisioner.buying.backoff import Backoffs
from provisioner.clouds.base import Instance, InstanceState
from provisioner.nodes.marks import bookings_on
from provisioner.planning.company import holder_of, left_of, pods_of
from provisioner.repairing.transfer import offered
from provisioner.state import QUARANTINED_LABEL, TAG_BOOKING, TAG_PURCHASE, Known, State

OVER = frozenset({"Released", "Failed"})
GOING = frozenset({"Releasing", "Failing"})
LEFT = frozenset({"Gone", "Transferred"})
ALIVE = frozenset({InstanceState.PENDING, InstanceState.RUNNING, InstanceState.STOPPING})


def no_pods(_: str) -> list[core.Pod]:
    return []


def unseen_pods(_: ours.Booking) -> Mapping[str, Running]:
    return {}


def all_left(booking: ours.Booking) -> Mapping[str, int]:
    return {each.name: each.count for each in booking.spec.pod_sets}


def unseen_gang(booking: ours.Booking) -> Holder:
    return Holder(booking.spec.request.name)


@dataclass(frozen=True)
class View:
    """`pods_on` gives the pods that count on a node, by its name; `spent` each pool's on-demand micro-dollars of the day.

    `pods_of` gives one pod of each pod set of a booking, as far as it is known, and `left_of` how many are not over; `holder_of`
    how others see the booking.
    """

    now: datetime
    pools: Mapping[str, ours.CapacityPool]
    nodes: tuple[core.Node, ...] = ()
    bookings: tuple[ours.Booking, ...] = ()
    daemon_sets: tuple[core.DaemonSet, ...] = ()
    known: Mapping[str, Known] = field(default_factory=dict)
    backoffs: Backoffs = field(default_factory=Backoffs)
    spent: Mapping[str, int] = field(default_factory=dict)
    pods_on: Callable[[str], Iterable[core.Pod]] = no_pods
    pods_of: Callable[[ours.Booking], Mapping[str, Running]] = unseen_pods
    left_of: Callable[[ours.Booking], Mapping[str, int]] = all_left
    holder_of: Callable[[ours.Booking], Holder] = unseen_gang
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    @cached_property
    def live(self) -> tuple[ours.Booking, ...]:
        """Bookings that still hold something."""
        return tuple(booking for booking in self.bookings if booking.status.phase not in OVER)

    @cached_property
    def pools_of(self) -> Mapping[str, tuple[str, ...]]:
        """Node name -> the pools that select it; more than one is an overlap. Nodes that no pool selects are left out."""
        found = {node.metadata.name: selecting(node, self.pools.values()) for node in self.nodes}
        return {name: pools for name, pools in found.items() if pools}

    @cached_property
    def managed(self) -> Mapping[str, tuple[core.Node, ...]]:
        """Pool name -> its nodes that no other pool selects."""
        found: dict[str, list[core.Node]] = {name: [] for name in self.pools}
        for node in self.nodes:
            pools = self.pools_of.get(node.metadata.name, ())
            if len(pools) == 1:
                found[pools[0]].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def offered(self) -> Mapping[str, str]:
        """Node name or providerID -> the booking that gives it away to the next gang, unless pods of its own came after all."""
        found = offered(self.live)
        nodes = [(node.metadata.name, found[node.metadata.name]) for node in self.nodes if node.metadata.name in found]
        used = {giver for name, giver in nodes if any(giver in bookings_on(pod.spec.node_selector) for pod in self.pods_on(name))}
        return {key: giver for key, giver in found.items() if giver not in used}

    @cached_property
    def holder(self) -> Mapping[str, str]:
        """Node name or providerID -> the live booking that holds it: one that takes it, else one whose machine it is. What is
        offered nobody holds.
        """
        mine = {key: name for key, name in self.bought.items() if self.offered.get(key) != name}
        return mine | {key: b.metadata.name for b in self.live for key in _taken(b) if self.offered.get(key) != b.metadata.name}

    @cached_property
    def bought(self) -> Mapping[str, str]:
        """Node name or providerID -> the live booking that bought the machine: by the booking's own record, else by its tag."""
        found = {key: booking.metadata.name for booking in self.live for key in _machines(booking)}
        names = {booking.metadata.name for booking in self.live}
        left = {m.provider_id for b in self.live for m in b.status.instances if m.state in LEFT}
        for machine in self.instance_of.values():
            if machine.tags.get(TAG_BOOKING) in names and machine.state in ALIVE and machine.provider_id not in left:
                found.setdefault(machine.provider_id, machine.tags[TAG_BOOKING])
        return found

    def booked_by(self, node: core.Node) -> str | None:
        by_machine = self.holder.get(node.spec.provider_id) if node.spec.provider_id else None
        return self.holder.get(node.metadata.name) or by_machine

    @cached_property
    def instance_of(self) -> Mapping[str, Instance]:
        """providerID -> the machine as its cloud knows it."""
        return {machine.provider_id: machine for known in self.known.values() for machine in known.instances}

    @cached_property
    def seen(self) -> Mapping[tuple[str, str], int]:
        """(booking, purchase) -> how many of its machines the cloud counts already."""
        found: dict[tuple[str, str], int] = {}
        for machine in self.instance_of.values():
            if machine.state in ALIVE:
                key = (machine.tags.get(TAG_BOOKING, ""), machine.tags.get(TAG_PURCHASE, ""))
                found[key] = found.get(key, 0) + 1
        return found


def as_it_is(booking: ours.Booking) -> ours.Booking:
    return booking


def take(
    state: State,
    now: datetime,
    fresh: ours.Booking | None = None,
    other: Callable[[ours.Booking], ours.Booking] = as_it_is,
) -> View:
    """The state as it is now. `fresh` is a booking that was just read, and `other` makes of the others what counts of them."""
    stored = {booking.metadata.name: other(booking) for booking in state.latest()}
    read = {fresh.metadata.name: fresh} if fresh else {}
    bookings = tuple({**stored, **read}.values())
    pools = {pool.metadata.name: pool for pool in state.pools.values()}
    return View(
        now=now,
        pools=pools,
        nodes=tuple(state.nodes.values()),
        bookings=bookings,
        daemon_sets=tuple(state.daemon_sets.values()),
        known=dict(state.known),
        backoffs=state.backoffs,
        spent={name: state.ledger.spent(name, bookings, now) for name in pools},
        pods_on=state.pods_on,
        pods_of=partial(pods_of, state=state),
        left_of=partial(left_of, state=state),
        holder_of=partial(holder_of, state=state),
        namespaces=state.namespace_labels(),
    )


def selecting(node: core.Node, pools: Iterable[ours.CapacityPool]) -> tuple[str, ...]:
    """Names of the pools that the node belongs to: launched for it, or matched by its `nodeSelector`."""
    return tuple(pool.metadata.name for pool in pools if selects(pool, node.metadata.labels))


def launched(node: core.Node) -> bool:
    """Whether one of our pools had it launched; all others are adopted."""
    return POOL_LABEL in node.metadata.labels


def quarantined(node: core.Node) -> bool:
    return QUARANTINED_LABEL in node.metadata.labels


def _taken(booking: ours.Booking) -> Iterable[str]:
    return (key for node in booking.spec.nodes for key in (node.name, node.provider_id) if key)


def _machines(booking: ours.Booking) -> Iterable[str]:
    for machine in booking.status.instances:
        if machine.state not in LEFT:
            yield from filter(None, (machine.node, machine.provider_id))


def in_flight(booking: ours.Booking, purchase: ours.BookedPurchase, seen: Mapping[tuple[str, str], int]) -> int:
    """Machines of the purchase that are on their way but that the cloud does not count yet.

    Until it is Provisioned, and while it replaces lost machines, a booking claims all that it is to buy; later, and while it
    ends, only calls without an answer can still bring machines. Bad machines stay counted by the cloud, so their replacements
    come on top.
    """
    if booking.status.phase in OVER:
        return 0
    pending = sum(x.count for x in booking.status.launches if x.purchase == purchase.name and x.state == "Pending")
    machines = [machine for machine in booking.status.instances if machine.purchase == purchase.name]
    ended = sum(machine.state in ("Bad", "Terminating") for machine in machines)
    claimed = purchase.count + ended
    if booking.status.phase in GOING or (booking.status.phase == "Provisioned" and not booking.replacing):
        claimed = pending + sum(machine.state not in LEFT for machine in machines)
    return max(0, claimed - seen.get((booking.metadata.name, purchase.name), 0))
