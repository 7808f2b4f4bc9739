"""The pools that a waiting request may use, and how their reservations are used up. Pure."""

from collections.abc import Iterable, Iterator

from capacity.model import Reason, ReservationUse
from capacity.why.explain import account
from corral.asked import Standing
from kube.autoscaling import ProvisioningRequest
from kube.ours import CapacityPolicy, CapacityPool, ReservationStatus
from provisioner.asking.parameters import DEFAULT_POLICY

MOST = 3
_SHORT = (Reason.TOPOLOGY_UNSATISFIED, Reason.RESERVATION_MISMATCH, Reason.GANG_INCOMPLETE)


def allowed(
    request: ProvisioningRequest, pools: Iterable[CapacityPool], policies: Iterable[CapacityPolicy], priority_class: str = ""
) -> list[CapacityPool]:
    """Those of the pools that the policy which serves it may use; all where the policy isn't there or can't be read."""
    known = {policy.metadata.name: policy for policy in policies}
    policy = known.get(request.spec.parameters.get("policy") or DEFAULT_POLICY)
    serving = known.get(policy.serving(priority_class)) if policy else None
    names = serving.spec.pools if serving else ()
    return [pool for pool in pools if not names or pool.metadata.name in names]


def reservations(pool: CapacityPool) -> list[str]:
    """How each of its reservations is used up, those with the most that is free first."""
    ordered = sorted(pool.status.reservations, key=lambda one: (-one.free, one.id))
    return [account(use(one)) for one in ordered]


def figures(found: Standing, pools: Iterable[CapacityPool]) -> Iterator[str]:
    """For a gang that lacks capacity: what is there, where its message doesn't say it, and how to see who holds it."""
    if found.reason not in _SHORT or found.over:
        return
    told = [(pool.metadata.name, pool) for pool in pools]
    if not any(one.id in found.message for _, pool in told for one in pool.status.reservations):
        lines = [f"  pool {name}: {line}" for name, pool in told for line in reservations(pool)]
        yield from lines[:MOST]
    if told:
        yield f"  who holds what: {' | '.join(f'corral why pool/{name}' for name, _ in told[:MOST])}"


def use(one: ReservationStatus) -> ReservationUse:
    """The planner's record of it."""
    return ReservationUse(one.id, one.shape, one.zone, one.total, one.booked, one.outside, one.quarantined, one.spare, one.free)
