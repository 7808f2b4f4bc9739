"""The end of a pool. Pure: whether it is open for anything new, and what of it must end before it may go.

A finalizer holds the pool object for so long: without it nobody would know the cloud any more in which machines still run.
"""

from collections.abc import Iterable

from kube import ours
from kube.pools import POOL_LABEL
from provisioner.state import SOURCE_LABEL, TAG_POOL, TAG_SOURCE
from provisioner.view import ALIVE, View

POOL_FINALIZER = "corral.dev/pool"
MOST_NAMES = 5


def closed(pool: ours.CapacityPool) -> str:
    """Why nothing new may be booked or bought from the pool, "" if it may."""
    if pool.metadata.deletion_timestamp is not None:
        return f"pool {pool.metadata.name} is being deleted"
    return f"pool {pool.metadata.name} is Paused" if pool.spec.mode == "Paused" else ""


def holders(view: View, pool: ours.CapacityPool) -> str:
    """What still keeps the pool from going, "" if nothing does: live bookings, and machines that scale-in is to end."""
    name = pool.metadata.name
    bookings = sorted(each.metadata.name for each in view.live if name in _pools(each))
    parts = [f"{len(bookings)} bookings hold capacity of it ({_some(bookings)})"] if bookings else []
    kept = {source.name for source in pool.spec.sources if source.idle_seconds is None}
    machines = {machine for machine, source in _machines(view, name) if source not in kept}
    if machines:
        parts.append(f"{len(machines)} machines of it are there: scale-in ends them when they are idle")
    return "; ".join(parts)


def _pools(booking: ours.Booking) -> set[str]:
    return {each.pool for each in booking.spec.nodes} | {each.pool for each in booking.spec.purchases}


def _machines(view: View, pool: str) -> Iterable[tuple[str, str]]:
    """providerID and source of each machine launched for the pool, as its cloud or its node tells."""
    for machine in view.instance_of.values():
        if machine.tags.get(TAG_POOL) == pool and machine.state in ALIVE:
            yield machine.provider_id, machine.tags.get(TAG_SOURCE, "")
    for node in view.nodes:
        if node.metadata.labels.get(POOL_LABEL) == pool:
            yield node.spec.provider_id, node.metadata.labels.get(SOURCE_LABEL, "")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
