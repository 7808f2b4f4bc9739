"""Is whoever wanted a booking still there? Pure; only a certain answer is DONE.

A workload that lost its quota and got it again stands for a new attempt with a new request: its old booking has no owner.
"""

from collections.abc import Sequence
from datetime import datetime

from kube.kueue import Workload
from kube.times import instant
from provisioner.asking import slices
from provisioner.steps import Owner


def of_workload(workload: Workload, request: bool | None, booked: datetime, newer: Sequence[Workload] = ()) -> tuple[Owner, str]:
    """The state of the Workload (the very one, by UID) behind a booking made at `booked`, and words for it.

    `request`: whether the booking's ProvisioningRequest is there, None when not known. `newer`: the slices that came in its
    place.
    """
    named = f"workload {workload.metadata.namespace}/{workload.metadata.name}"
    goes_on = slices.lives_on(workload, newer, booked)
    if goes_on is not False:
        return (Owner.ADMITTED if goes_on else Owner.UNKNOWN), f"{named} goes on as {newer[-1].metadata.name}"
    if workload.finished:
        return Owner.DONE, f"{named} finished"
    quota = workload.condition("QuotaReserved")
    if quota is None or quota.status != "True":
        evicted = workload.condition("Evicted")
        return Owner.DONE, f"{named} has no quota any more{f' ({evicted.reason})' if evicted else ''}"
    if request is False and reserved_since(workload, booked):
        return Owner.DONE, f"{named} was evicted and has quota for a new attempt"
    return (Owner.ADMITTED if workload.admitted else Owner.WAITING), named


def reserved_since(workload: Workload, booked: datetime) -> bool:
    """Whether the quota that the Workload holds was reserved after `booked`."""
    quota = workload.condition("QuotaReserved")
    return bool(quota and quota.last_transition_time and instant(quota.last_transition_time) > booked)


def of_bare(request: bool | None) -> tuple[Owner, str]:
    """A request that no workload stands behind is its own owner."""
    if request is None:
        return Owner.UNKNOWN, "its ProvisioningRequest could not be looked up"
    return (Owner.WAITING, "") if request else (Owner.DONE, "its ProvisioningRequest was deleted")
