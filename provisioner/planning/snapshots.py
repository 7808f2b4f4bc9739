"""From a view to the planner's snapshot: nodes that may be booked, offerings that may be bought, the limits they share, and all
that counts beside them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from capacity.model import Bystander, Node, PodSet, ReservationUse, Running, Snapshot
from kube import core, ours
from kube.times import clock
from provisioner.buying.limits import budgets, shared
from provisioner.clouds.base import Instance, Reservation
from provisioner.ending.closing import closed
from provisioner.nodes.health import ailment
from provisioner.nodes.marks import bookings_on
from provisioner.planning import arrivals, daemons
from provisioner.planning.grounds import Grounds, Standing
from provisioner.planning.offerings import Market, Offers, ends, offers
from provisioner.planning.room import Room
from provisioner.state import BOOKED, Known
from provisioner.view import View, launched, quarantined

STALE_SECONDS = 300
"""Age from which a cloud's word is too old to buy on."""
QUARANTINE = "(quarantined)"
MARKED = "(marked as booked, being taken or given back)"


def market(view: View, pool: ours.CapacityPool, pods: Sequence[PodSet]) -> Market | None:
    """None while nothing is known of the pool's cloud."""
    known = view.known.get(pool.metadata.name)
    if known is None:
        return None
    base = Market(view, pool, known)
    shapes = [shape.shape for shape in base.shapes().values()]
    return replace(
        base,
        overhead=daemons.overheads(pool, shapes, pods),
        company=daemons.company(pool, shapes, pods),
        blocked=_blocked(view, pool, base, pods, known),
    )


def _blocked(view: View, pool: ours.CapacityPool, base: Market, pods: Sequence[PodSet], known: Known) -> str:
    """Why nothing may be bought from the pool at all, "" if it may."""
    name = pool.metadata.name
    if shut := closed(pool):
        return shut
    if (view.now - known.at).total_seconds() > STALE_SECONDS:
        return f"the cloud of pool {name} was last heard at {clock(known.at, view.now)}: {known.error}"
    for check in known.inventory.checks:
        if check.blocks and not check.ok:
            return f"{check.type} in pool {name}: {check.message}"
    shapes = [shape.shape for shape in base.shapes().values()]
    barrier = daemons.blocked(pool, shapes, view.managed.get(name, ()), pods)
    return f"DaemonSetsBlocked in pool {name}: {barrier.message}" if barrier.required else ""


def room(view: View, pools: Iterable[ours.CapacityPool], grounds: Grounds) -> Room:
    """All that may be given to gangs from these pools now."""
    chosen = sorted(pools, key=lambda pool: pool.metadata.name)
    pods = daemons.daemon_pods(view.daemon_sets)
    sold = [_offers(view, pool, pods) for pool in chosen]
    offerings = tuple(offering for offer in sold for offering in offer.offerings)
    limits = tuple(budget for pool in chosen for budget in budgets(view, pool, offerings))
    grounds.on(view.namespaces)
    coming = arrivals.plans(view, lambda name: grounds.selected(name, view.pods_on(name)))
    stock = grounds.stock(node for pool in chosen for node in _nodes(view, pool, grounds, coming))
    return Room(
        Snapshot(
            now=int(view.now.timestamp()),
            nodes=stock.nodes,
            offerings=offerings,
            topology_keys=_keys(chosen),
            reservations=_uses(sold),
            bystanders=grounds.bystanders((*_others(view, chosen, grounds), *arrivals.machines(view, coming))),
            budgets=(*limits, *shared(view, offerings)),
            holders={booking.metadata.name: view.holder_of(booking) for booking in view.live},
            stock=stock,
        )
    )


def _others(view: View, pools: Sequence[ours.CapacityPool], grounds: Grounds) -> Iterator[Bystander]:
    """The nodes that none of the pools has for its own."""
    names = {node.metadata.name for pool in pools for node in view.managed.get(pool.metadata.name, ())}
    return (grounds.beside(node, view.pods_on(node.metadata.name)) for node in view.nodes if node.metadata.name not in names)


def _offers(view: View, pool: ours.CapacityPool, pods: Sequence[PodSet]) -> Offers:
    found = market(view, pool, pods)
    return offers(found) if found else Offers()


def _uses(sold: Iterable[Offers]) -> tuple[ReservationUse, ...]:
    """Each reservation once, though several pools may name it."""
    return tuple({use.name: use for offer in sold for use in offer.reservations}.values())


def _keys(pools: Iterable[ours.CapacityPool]) -> tuple[str, ...]:
    """Topology keys of all pools, widest first; pools that order the same keys otherwise follow the first by name."""
    return tuple(dict.fromkeys(key for pool in pools for key in pool.spec.topology_keys))


# --- nodes ----------------------------------------------------------------------------------------------------------------


def _nodes(view: View, pool: ours.CapacityPool, grounds: Grounds, coming: Mapping[str, arrivals.Plan]) -> Iterable[Node]:
    reservations = _reservations(view, pool)
    shut = f"({why})" if (why := closed(pool)) else None
    for node in view.managed.get(pool.metadata.name, ()):
        name = node.metadata.name
        there = tuple(view.pods_on(name))
        made = grounds.get(node, there, pool.metadata.name)
        if made is not None:
            machine = view.instance_of.get(node.spec.provider_id)
            holder = view.booked_by(node)
            standing = Standing(
                holder=holder or _withheld(view, node) or _unfit(node, there, pool) or shut,
                launched=launched(node),
                going=_going(node, machine),
                reservation=reservations.get(machine.reservation or "") if machine else None,
                coming=_coming(coming.get(holder or ""), name, there, grounds),
            )
            yield grounds.placed(made, standing)


def _coming(plan: arrivals.Plan | None, name: str, there: tuple[core.Pod, ...], grounds: Grounds) -> tuple[Running, ...]:
    slots = plan.nodes.get(name) if plan and plan.pods else None
    return plan.at(slots, grounds.selected(name, there)) if plan and slots else ()


def _withheld(view: View, node: core.Node) -> str | None:
    """A mark that no live booking accounts for: whoever sets or removes it isn't done yet. One that gives the node away is."""
    if quarantined(node):
        return QUARANTINE
    if bookings_on(node.metadata.labels) == {view.offered.get(node.metadata.name)}:
        return None
    return MARKED if any(taint.key == BOOKED for taint in node.spec.taints) else None


def _unfit(node: core.Node, there: tuple[core.Pod, ...], pool: ours.CapacityPool) -> str | None:
    """Why a gang that took the node would only find out later that it can't run there."""
    if why := ailment(node, pool):
        return f"(unhealthy: {why})"
    lacking = sorted({*pool.spec.readiness.required_daemon_sets} - {*daemons.ready_on(there)})
    return f"(no ready pod of DaemonSet {', '.join(lacking)})" if lacking else None


def _going(node: core.Node, machine: Instance | None) -> bool:
    if machine and (machine.announced or machine.state.ending):
        return True
    return node.metadata.deletion_timestamp is not None


def _reservations(view: View, pool: ours.CapacityPool) -> Mapping[str, tuple[Reservation, int | None]]:
    """Reservation id -> it and when its nodes must be empty."""
    known = view.known.get(pool.metadata.name)
    sources = {name: source for source in pool.spec.sources for name in source.reservation_ids}
    there = known.inventory.reservations if known else ()
    return {r.id: (r, ends(sources[r.id], r) if r.id in sources else r.ends) for r in there}
