"""The status of a CapacityPool: what its cloud has, how it is used, and what keeps it from being bought from. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from capacity.model import Offering, PodSet, ReservationUse, Shape
from capacity.quantity import dollars, show
from kube import core, ours
from kube.meta import Condition, decode
from kube.times import clock, stamp
from provisioner.buying import spend
from provisioner.clouds.base import CloudShape
from provisioner.planning import daemons
from provisioner.planning.offerings import Market, Offers, barred
from provisioner.view import View, launched, quarantined
from runtime.conditions import set_condition

MOST = 1000
"""Offerings that the status lists: it must stay well below the API server's limit for one object."""
MOST_NAMES = 20
"""Instance types that a message lists: clouds have hundreds."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found out about a pool. `trouble` is (reason, message) of what keeps it from being Ready, None when nothing does.

    `missing` are flavors whose labels no node or shape bears, `unfit` others that can't be served, each with a sentence;
    `overlaps` are nodes with the other pools that select them; `holding` is what must end before a deleted pool goes; `orphans`
    says why the reaper stands still, `silence` why nothing is concluded from nodes that are not Ready, "" if it isn't so.
    `checkup` is (reason, message) of what keeps health checks from beginning.
    """

    market: Market | None
    offers: Offers
    blocked: daemons.Blocked
    trouble: tuple[str, str] | None = None
    overlaps: Mapping[str, tuple[str, ...]] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)
    holding: str = ""
    orphans: str = ""
    silence: str = ""
    checkup: tuple[str, str] | None = None


def look(view: View, pool: ours.CapacityPool, market: Market | None, sold: Offers, pods: Sequence[PodSet], error: str) -> Look:
    """`error` is what the connection to the cloud last failed with, "" if it works."""
    name = pool.metadata.name
    shapes = [shape.shape for shape in market.shapes().values()] if market else []
    return Look(
        market,
        sold,
        daemons.blocked(pool, shapes, view.managed.get(name, ()), pods),
        _trouble(pool, market, error, view.now),
        {node: pools for node, pools in view.pools_of.items() if len(pools) > 1 and name in pools},
    )


def _trouble(pool: ours.CapacityPool, market: Market | None, error: str, now: datetime) -> tuple[str, str] | None:
    if market is None or market.known.error or error:
        heard = f"; what it said at {clock(market.known.at, now)} still counts" if market else ""
        words = error or (market.known.error if market else "not reached yet")
        return "ProviderUnreachable", f"spec.provider: {words}{heard}: correct it or wait for the cloud"
    known = sorted(shape.shape.name for shape in market.known.inventory.shapes)
    unknown = sorted(set(pool.spec.shapes) - set(known))
    if unknown and pool.spec.provider.adopted is None:
        return (
            "UnknownShape",
            f"spec.shapes: the cloud has no {', '.join(unknown)}: correct or remove it; it knows {_some(known)}",
        )
    there = {reservation.id for reservation in market.known.inventory.reservations}
    lost = sorted({name for source in pool.spec.sources for name in source.reservation_ids} - there)
    if lost:
        return "UnknownReservation", f"reservationIDs: the cloud has no {', '.join(lost)} now: correct them or wait for them"
    return None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES]) or 'none'}{more}"


def pool_status(view: View, pool: ours.CapacityPool, seen: Look) -> ours.CapacityPoolStatus:
    """The whole status; conditions keep their transition times where their status stays."""
    name = pool.metadata.name
    return ours.CapacityPoolStatus(
        observed_generation=pool.metadata.generation,
        shapes=tuple(_shape(seen.market, shape) for shape in _sorted_shapes(seen.market)),
        offerings=tuple(map(_offering, sorted(seen.offers.offerings, key=lambda o: o.name)[:MOST])),
        reservations=tuple(_reservation(use, seen.offers.offerings) for use in seen.offers.reservations),
        backoffs=view.backoffs.of_pool(name, view.now),
        nodes=_counts(view, view.managed.get(name, ())),
        spend=spend.status(view.spent.get(name, 0), view.now),
        conditions=_conditions(pool, seen, view.now),
    )


def _sorted_shapes(market: Market | None) -> list[CloudShape]:
    return sorted(market.shapes().values(), key=lambda shape: shape.shape.name) if market else []


def _shape(market: Market | None, cloud: CloudShape) -> ours.ShapeStatus:
    assert market is not None
    shape: Shape = cloud.shape
    return ours.ShapeStatus(
        name=shape.name,
        allocatable={name: show(name, amount) for name, amount in sorted(shape.allocatable.items())},
        labels=dict(market.labels(shape)),
        taints=tuple(core.Taint(key=taint.key, effect=taint.effect, value=taint.value) for taint in shape.taints),
        on_demand_price_per_hour=dollars(cloud.on_demand_price),
    )


def _offering(offering: Offering) -> ours.OfferingStatus:
    return ours.OfferingStatus(
        name=offering.name,
        source=offering.source,
        shape=offering.shape.name,
        zone=next((value for key, value in offering.domain.items() if key.endswith("/zone")), ""),
        capacity_type=offering.capacity_type.value,
        available=offering.available,
        total=offering.total,
        reservation_id=offering.reservation or "",
        domain=dict(offering.domain),
        price_per_hour=dollars(offering.price),
        unavailable=offering.unavailable,
        starts=_instant(offering.starts),
        ends=_instant(offering.ends),
    )


def _instant(seconds: int | None) -> str | None:
    return None if seconds is None else stamp(datetime.fromtimestamp(seconds, UTC))


def _reservation(use: ReservationUse, offerings: Iterable[Offering]) -> ours.ReservationStatus:
    first = next((offering for offering in offerings if offering.reservation == use.name), None)
    return ours.ReservationStatus(
        id=use.name,
        source=first.source if first else "",
        shape=use.shape,
        zone=use.zone,
        total=use.total,
        booked=use.booked,
        outside=use.outside,
        quarantined=use.quarantined,
        free=use.free,
        spare=use.spare,
        starts=_instant(first.starts) if first else None,
        ends=_instant(first.ends) if first else None,
    )


def _counts(view: View, nodes: Sequence[core.Node]) -> ours.NodeCounts:
    bad = [node for node in nodes if barred(view, node)]
    booked = [node for node in nodes if not quarantined(node) and view.booked_by(node)]
    bought = sum(map(launched, nodes))
    return ours.NodeCounts(
        launched=bought,
        adopted=len(nodes) - bought,
        booked=len(booked),
        idle=len(nodes) - len(booked) - len(bad),
        quarantined=len(bad),
    )


# --- conditions -----------------------------------------------------------------------------------------------------------


def _conditions(pool: ours.CapacityPool, seen: Look, now: datetime) -> tuple[Condition, ...]:
    found: Sequence[Mapping[str, Any]] = [condition.to_json() for condition in pool.status.conditions]
    entries = (
        _ready(pool, seen),
        _blocked(seen),
        _overlaps(seen),
        _labels(seen),
        _fit(seen),
        _orphans(seen),
        _silence(seen),
        _checkup(seen),
        *_checks(seen),
    )
    for type_, status, reason, message in entries:
        found = set_condition(found, type_, status, reason, message, generation=pool.metadata.generation, now=now)
    return tuple(decode(condition, Condition) for condition in found)


Entry = tuple[str, bool, str, str]


def _ready(pool: ours.CapacityPool, seen: Look) -> Entry:
    if pool.metadata.deletion_timestamp is not None:
        until = seen.holding or "nothing does now"
        return "Ready", False, "Deleting", f"nothing new is booked or bought; the pool goes once nothing holds it: {until}"
    if seen.trouble:
        return ("Ready", False, *seen.trouble)
    match pool.spec.mode:
        case "Observe":
            return "Ready", True, "Observing", "plans and explains only: set spec.mode to Active to let it book and buy"
        case "Paused":
            return "Ready", True, "Paused", "nothing new is booked or bought; what runs goes on"
        case _:
            return "Ready", True, "Ready", "the pool serves requests"


def _blocked(seen: Look) -> Entry:
    if seen.blocked.offenders or seen.blocked.missing:
        reason = "RequiredDaemonSets" if seen.blocked.required else "TolerationMissing"
        return "DaemonSetsBlocked", True, reason, seen.blocked.message
    return "DaemonSetsBlocked", False, "AllTolerate", "each DaemonSet of these nodes tolerates the booked taint"


def _overlaps(seen: Look) -> Entry:
    if seen.overlaps:
        first = sorted(seen.overlaps)[:5]
        named = "; ".join(f"{node} by {', '.join(sorted(seen.overlaps[node]))}" for node in first)
        more = f" and {len(seen.overlaps) - len(first)} more" if len(seen.overlaps) > len(first) else ""
        text = f"nodes that several pools select are not planned on: {named}{more}: narrow the nodeSelectors"
        return "Overlaps", True, "NodesSelectedTwice", text
    return "Overlaps", False, "NoOverlap", "no other pool selects these nodes"


def _labels(seen: Look) -> Entry:
    if seen.missing:
        return "LabelsMissing", True, "FlavorLabels", "; ".join(seen.missing.values())
    return "LabelsMissing", False, "AllThere", "each ResourceFlavor in use finds its node labels"


def _orphans(seen: Look) -> Entry:
    if seen.orphans:
        return "TooManyOrphans", True, "ReaperStopped", seen.orphans
    return "TooManyOrphans", False, "Plausible", "no more machines than is plausible are without booking and node"


def _silence(seen: Look) -> Entry:
    if seen.silence:
        return "TooManyNotReady", True, "NodesInDoubt", seen.silence
    return "TooManyNotReady", False, "Plausible", "no more nodes than is plausible are not Ready"


def _checkup(seen: Look) -> Entry:
    if seen.checkup:
        return ("HealthCheckRefused", True, *seen.checkup)
    return "HealthCheckRefused", False, "NoneRefused", "nothing is known to keep a health check of the pool from beginning"


def _fit(seen: Look) -> Entry:
    if seen.unfit:
        return "FlavorsUnfit", True, "FlavorMismatch", "; ".join(seen.unfit.values())
    return "FlavorsUnfit", False, "AllFit", "pods of each ResourceFlavor in use can run on the nodes that bear its labels"


def _checks(seen: Look) -> Iterable[Entry]:
    """What the cloud looked at before any money is spent."""
    for check in seen.market.known.inventory.checks if seen.market else ():
        yield check.type, not check.ok, check.reason, check.message
