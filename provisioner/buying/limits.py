"""Limits as budgets: of a pool the nodes a source, on-demand nodes, on-demand money of the day; what several offerings share."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from capacity.model import Budget, CapacityType, Offering, Plan
from capacity.quantity import dollars, money
from capacity.snapshot import taken
from kube import ours
from provisioner.buying.spend import DAY, cost, day_start
from provisioner.clouds.base import Instance
from provisioner.state import TAG_POOL, TAG_SOURCE
from provisioner.steps import LIVE
from provisioner.view import ALIVE, View, in_flight


def budgets(view: View, pool: ours.CapacityPool, offerings: Sequence[Offering]) -> tuple[Budget, ...]:
    """`offerings` are all that the snapshot has; only those of the pool are limited."""
    mine = [offering for offering in offerings if offering.pool == pool.metadata.name]
    found = [_source(view, pool, source, mine) for source in pool.spec.sources if source.max_nodes is not None]
    limits = pool.spec.limits
    on_demand = [offering for offering in mine if not offering.capacity_type.prepaid]
    if limits.on_demand_nodes is not None:
        found.append(_nodes(view, pool, limits.on_demand_nodes, on_demand))
    if limits.on_demand_spend_per_day is not None:
        found.append(_money(view, pool, money(limits.on_demand_spend_per_day), on_demand))
    return tuple(found)


def _source(view: View, pool: ours.CapacityPool, source: ours.Source, mine: Sequence[Offering]) -> Budget:
    whole = source.max_nodes or 0
    used = sum(_of_source(machine, pool, source) for machine in _machines(view)) + _flying(view, pool, source)
    text = f"maxNodes {whole} of source {source.name} in pool {pool.metadata.name}: {used} running or on order"
    weight = {offering.name: 1 for offering in mine if offering.source == source.name}
    return Budget(text, weight, max(0, whole - used), whole)


def _nodes(view: View, pool: ours.CapacityPool, whole: int, on_demand: Sequence[Offering]) -> Budget:
    used = sum(_extra(machine, pool) for machine in _machines(view)) + _flying(view, pool)
    text = f"onDemandNodes {whole} of pool {pool.metadata.name}: {used} running or on order"
    return Budget(text, {offering.name: 1 for offering in on_demand}, max(0, whole - used), whole)


def _money(view: View, pool: ours.CapacityPool, whole: int, on_demand: Sequence[Offering]) -> Budget:
    """A node bought now is committed to the end of the UTC day."""
    spent = view.spent.get(pool.metadata.name, 0)
    end = day_start(view.now) + DAY
    weight = {offering.name: cost(offering.price, view.now, max(end, view.now + timedelta(seconds=1))) for offering in on_demand}
    text = f"onDemandSpendPerDay ${dollars(whole)} of pool {pool.metadata.name}: ${dollars(spent)} committed today"
    return Budget(text, weight, max(0, whole - spent), whole)


def shared(view: View, offerings: Iterable[Offering]) -> tuple[Budget, ...]:
    """One budget for each place that several offerings sell: pools or sources that name the same reservation or the same stock
    of one cloud."""
    places: dict[object, list[Offering]] = {}
    for offering in offerings:
        provider = view.pools[offering.pool].spec.provider
        what = offering.reservation or (offering.shape.name, offering.capacity_type)
        places.setdefault((repr(provider), what, tuple(sorted(offering.domain.items()))), []).append(offering)
    return tuple(_place(sellers) for sellers in places.values() if len(sellers) > 1)


def _place(sellers: Sequence[Offering]) -> Budget:
    left, whole = max(each.available for each in sellers), max(each.total for each in sellers)
    names = [each.name for each in sellers]
    return Budget(f"{' and '.join(names)} are the same {left} machines", dict.fromkeys(names, 1), left, whole, same=True)


def capped(offerings: Iterable[Offering], budgets: Sequence[Budget]) -> tuple[Offering, ...]:
    """Each offering as far as the limits allow it by itself, if nobody else took of them."""
    return tuple(_cap(offering, budgets) for offering in offerings)


def _cap(offering: Offering, budgets: Iterable[Budget]) -> Offering:
    for budget in budgets:
        weight = budget.weight.get(offering.name, 0)
        if weight:
            available = min(offering.available, max(0, budget.left) // weight)
            why = f"LimitExceeded: {budget.text}" if offering.available and not available else offering.unavailable
            offering = replace(offering, available=available, total=min(offering.total, budget.whole // weight), unavailable=why)
    return offering


def exceeded(view: View, purchase: ours.BookedPurchase) -> str:
    """The limit of its pool that a replacement for the purchase would exceed, "" if none.

    What the booking lacks is counted as on order already: a limit that is just used up holds. Take other bookings `as_ordered`:
    of two that lack a machine each, where there is room for one, the first that orders it gets it.
    """
    pool = view.pools.get(purchase.pool)
    source = next((each for each in pool.spec.sources if each.name == purchase.source), None) if pool else None
    if pool is None or source is None:
        return ""
    used = sum(_of_source(machine, pool, source) for machine in _machines(view)) + _flying(view, pool, source)
    if source.max_nodes is not None and used > source.max_nodes:
        return f"LimitExceeded: maxNodes {source.max_nodes} of source {source.name} in pool {pool.metadata.name}: {used} are used"
    return "" if CapacityType(purchase.capacity_type).prepaid else _overspent(view, pool)


def as_ordered(booking: ours.Booking) -> ours.Booking:
    """A booking that replaces lost machines, less those that it has not ordered so far."""
    if not booking.replacing:
        return booking
    kept = tuple(
        structs.replace(each, count=min(each.count, _ordered(booking.status, each.name))) for each in booking.spec.purchases
    )
    return structs.replace(booking, spec=structs.replace(booking.spec, purchases=kept))


def _ordered(status: ours.BookingStatus, purchase: str) -> int:
    there = sum(each.purchase == purchase and each.state in LIVE for each in status.instances)
    return there + sum(each.count for each in status.launches if each.purchase == purchase and each.state == "Pending")


def breached(view: View, plan: Plan) -> str:
    """The limit that the plan would exceed by now, "" if none."""
    offerings = [purchase.offering for purchase in plan.purchases]
    pools = [view.pools[name] for name in sorted({each.pool for each in offerings}) if name in view.pools]
    found = (budget for pool in pools for budget in budgets(view, pool, offerings) if taken(budget, plan) > budget.left)
    return next((f"LimitExceeded: {budget.text}" for budget in found), "")


def _overspent(view: View, pool: ours.CapacityPool) -> str:
    name, limits = pool.metadata.name, pool.spec.limits
    used = sum(_extra(machine, pool) for machine in _machines(view)) + _flying(view, pool)
    if limits.on_demand_nodes is not None and used > limits.on_demand_nodes:
        return f"LimitExceeded: onDemandNodes {limits.on_demand_nodes} of pool {name}: {used} would run"
    spent, most = view.spent.get(name, 0), limits.on_demand_spend_per_day
    if most is not None and spent > money(most):
        return f"LimitExceeded: onDemandSpendPerDay ${most} of pool {name}: ${dollars(spent)} would be committed today"
    return ""


def idle_cost(view: View, pool: ours.CapacityPool) -> int:
    """Micro-dollars that the pool's on-demand machines that no live booking bought cost from now to the end of the UTC day."""
    known = view.known.get(pool.metadata.name)
    prices = {shape.shape.name: shape.on_demand_price for shape in known.inventory.shapes} if known else {}
    end = day_start(view.now) + DAY
    idle = (m for m in _machines(view) if _extra(m, pool) and m.provider_id not in view.bought)
    return sum(cost(prices.get(machine.shape, 0), view.now, end) for machine in idle)


def _machines(view: View) -> Iterable[Instance]:
    return (machine for machine in view.instance_of.values() if machine.state in ALIVE)


def _extra(machine: Instance, pool: ours.CapacityPool) -> bool:
    """Whether it is billed on top: launched for the pool, and in no reservation."""
    return machine.reservation is None and machine.tags.get(TAG_POOL) == pool.metadata.name


def _of_source(machine: Instance, pool: ours.CapacityPool, source: ours.Source) -> bool:
    if CapacityType(source.capacity_type).prepaid:
        return machine.reservation in source.reservation_ids
    return _extra(machine, pool) and machine.tags.get(TAG_SOURCE, source.name) == source.name


def _flying(view: View, pool: ours.CapacityPool, source: ours.Source | None = None) -> int:
    """On order but not counted by the cloud yet: of one source, or of all that is billed on top."""
    return sum(
        in_flight(booking, purchase, view.seen)
        for booking in view.live
        for purchase in booking.spec.purchases
        if purchase.pool == pool.metadata.name
        and (purchase.source == source.name if source else not CapacityType(purchase.capacity_type).prepaid)
    )
