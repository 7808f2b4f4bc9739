"""Who holds a reservation, a pool or a node, what of it is free and who waits for it, told from the objects alone. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from capacity.quantity import show
from capacity.why.explain import account
from corral.asked import since
from corral.pools import allowed, reservations, use
from corral.reading import left_out
from corral.targets import NODE, POOL, RESERVATION
from kube import core, nodes
from kube.autoscaling import ProvisioningRequest
from kube.ours import Booking, CapacityPolicy, CapacityPool
from kube.pools import selects
from provisioner.state import CLASS

MOST = 10
OVER = ("Released", "Failed")
NO_LONGER = ("Gone", "Transferred")


@dataclass(frozen=True, slots=True)
class Estate:
    """What was found. `kind` as in `corral.targets`; `pods` are those on `node`; `hidden` the kinds that were refused."""

    kind: str
    name: str
    now: datetime
    pools: tuple[CapacityPool, ...] = ()
    policies: tuple[CapacityPolicy, ...] = ()
    bookings: tuple[Booking, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    node: core.Node | None = None
    pods: tuple[core.Pod, ...] = ()
    hidden: tuple[str, ...] = ()


def tell(estate: Estate) -> str:
    """A first line `KIND name: what it is`, then indented lines with numbers."""
    lines = {RESERVATION: _reservation, POOL: _pool, NODE: _node}[estate.kind](estate)
    return "\n".join([*lines, *left_out(estate.hidden)])


def _reservation(estate: Estate) -> Iterator[str]:
    found = [(pool, one) for pool in estate.pools for one in pool.status.reservations if one.id == estate.name]
    if not found:
        known = sorted({one.id for pool in estate.pools for one in pool.status.reservations})
        yield f"UNKNOWN reservation/{estate.name}: no CapacityPool has it; there are: {', '.join(known) or 'none'}"
        return
    pools = [pool.metadata.name for pool, _ in found]
    one = found[0][1]
    times = "".join(f", {word} {at}" for word, at in (("starts", one.starts), ("ends", one.ends)) if at)
    yield f"RESERVATION {one.id}: {one.total} x {one.shape} in {one.zone}, pool {' and '.join(pools)}{times}"
    yield f"  {account(use(one))}"
    yield from _held(estate, lambda booking: _machines(booking, reservation=estate.name))
    yield from _waiting(estate, pools)


def _pool(estate: Estate) -> Iterator[str]:
    pool = next((pool for pool in estate.pools if pool.metadata.name == estate.name), None)
    if pool is None:
        known = sorted(pool.metadata.name for pool in estate.pools)
        yield f"UNKNOWN pool/{estate.name}: there is no such CapacityPool; there are: {', '.join(known) or 'none'}"
        return
    ready = next((one for one in pool.status.conditions if one.type == "Ready"), None)
    counts = pool.status.nodes
    yield f"POOL {estate.name}: {pool.spec.mode}" + (f", {ready.reason}: {ready.message}" if ready else ", not looked at yet")
    yield f"  nodes: {counts.launched} launched, {counts.adopted} adopted; {counts.booked} booked, {counts.idle} idle"
    yield from (f"  {line}" for line in reservations(pool))
    for one in pool.status.offerings:
        if one.capacity_type == "on-demand":
            why = f": {one.unavailable}" if one.unavailable else ""
            yield f"  {one.shape} in {one.zone}, on-demand at ${one.price_per_hour}/h: {one.available} can be had{why}"
    yield from _held(estate, lambda booking: _machines(booking, pool=estate.name))
    yield from _waiting(estate, [estate.name])


def _node(estate: Estate) -> Iterator[str]:
    machine = estate.node
    if machine is None:
        why = "you have no right to read Nodes" if "nodes" in estate.hidden else "there is no such Node"
        yield f"UNKNOWN node/{estate.name}: {why}"
        return
    pools = [pool.metadata.name for pool in estate.pools if selects(pool, machine.metadata.labels)]
    state = ", ".join(["ready" if machine.ready else "not ready", *(["cordoned"] if machine.spec.unschedulable else [])])
    yield f"NODE {estate.name}: {state}, {'pool ' + ' and '.join(pools) if pools else 'in no pool'}"
    yield from _room(machine, estate.pods)
    yield from (f"  taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}" for taint in machine.spec.taints)
    yield from _held(estate, lambda booking: int(estate.name in _names(booking)))
    for pod in sorted(_consumers(estate.pods), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))[:MOST]:
        yield f"  runs {pod.metadata.namespace}/{pod.metadata.name}"
    yield from _waiting(estate, pools)


def _room(machine: core.Node, pods: Iterable[core.Pod]) -> Iterator[str]:
    whole, used = nodes.amounts(machine.status.allocatable), nodes.requested(pods)
    for name, amount in sorted(whole.items()):
        if name in ("cpu", "memory", "pods") or "/" in name:
            taken = used.get(name, 0)
            yield f"  {name}: {show(name, amount)} = {show(name, taken)} requested + {show(name, amount - taken)} free"


def _consumers(pods: Iterable[core.Pod]) -> Iterator[core.Pod]:
    """Pods that are there for a workload, not one on each node."""
    for pod in pods:
        if not pod.terminal and not any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references):
            yield pod


# --- who holds it, who waits ----------------------------------------------------------------------------------------------


def _held(estate: Estate, share: Callable[[Booking], int]) -> Iterator[str]:
    """One line for each booking that has a share, the largest first."""
    shares = [(share(booking), booking) for booking in estate.bookings if booking.status.phase not in OVER]
    held = sorted(((count, one) for count, one in shares if count), key=lambda item: (-item[0], item[1].metadata.name))
    for count, booking in held[:MOST]:
        nodes_ = "1 node" if count == 1 else f"{count} nodes"
        age = f" for {since(booking.status.phase_since, estate.now)}" if booking.status.phase_since else ""
        yield f"  held by {_gang(booking)}: {nodes_}, booking {booking.metadata.name}, {booking.status.phase}{age}"
    if len(held) > MOST:
        yield f"  held by {len(held) - MOST} more bookings: {sum(count for count, _ in held[MOST:])} nodes"
    if not held and "bookings" not in estate.hidden:
        yield "  held by nobody"


def _machines(booking: Booking, *, pool: str = "", reservation: str = "") -> int:
    """Nodes of a pool, or machines out of a reservation, that the booking holds or is still to get."""
    bought = [one for one in booking.spec.purchases if pool == one.pool or (reservation and reservation == one.reservation_id)]
    names = {one.name for one in bought}
    lost = [one for one in booking.status.instances if one.purchase in names and one.state in NO_LONGER]
    return sum(one.count for one in bought) - len(lost) + sum(pool == one.pool for one in booking.spec.nodes)


def _names(booking: Booking) -> set[str]:
    """The nodes that are the booking's."""
    machines = {one.node for one in booking.status.instances if one.node and one.state not in NO_LONGER}
    return machines | {node.name for node in booking.spec.nodes}


def _gang(booking: Booking) -> str:
    key = booking.spec.workload
    kind, name = ("workload", key) if key else ("provreq", booking.spec.request)
    return f"{kind} {name.namespace}/{name.name}"


def _waiting(estate: Estate, pools: list[str]) -> Iterator[str]:
    """Requests that wait and whose policy lets them use one of these pools, the oldest first."""
    waiting = [
        (begun, request)
        for request in estate.requests
        if (begun := _waits(request))
        and any(pool.metadata.name in pools for pool in allowed(request, estate.pools, estate.policies))
    ]
    ordered = sorted(waiting, key=lambda item: (item[0], item[1].metadata.namespace, item[1].metadata.name))
    for begun, request in ordered[:MOST]:
        told = next(one for one in request.status.conditions if one.type == "Provisioned")
        name = f"{request.metadata.namespace}/{request.metadata.name}"
        yield f"  waits: provreq {name} {told.reason} {since(begun, estate.now)}: {told.message.split(';')[0]}"
    if len(ordered) > MOST:
        yield f"  waits: {len(ordered) - MOST} more"
    if not ordered and "provisioningrequests" not in estate.hidden:
        yield "  nobody waits for it"


def _waits(request: ProvisioningRequest) -> str:
    """Since when it waits for capacity, "" if it doesn't."""
    states = {one.type: one for one in request.status.conditions}
    told = states.get("Provisioned")
    over = any(name in states and states[name].status == "True" for name in ("Failed", "BookingExpired", "CapacityRevoked"))
    ours = request.spec.provisioning_class_name == CLASS
    return told.last_transition_time if ours and told and told.status == "False" and not over else ""
