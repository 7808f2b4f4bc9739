"""Bookings of a job that grew serve its pods together.

Kueue never touches the template of a job that runs, so pods that are added select the nodes of the job's first booking: the nodes
of a later one bear that booking's keys beside their own (designs/0008).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from capacity.model import ZONE, PodSet
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.slices import job_of, replaces
from provisioner.asking.authority import Look, bare, named_workload
from provisioner.nodes.marks import booking_of
from provisioner.steps import ENDED

Find = Callable[[str], ours.Booking | None]
"""A booking by its name."""


def parted(pods: PodSet) -> tuple[PodSet, tuple[str, ...]]:
    """The pod set without the keys of bookings that its template selects, and these: marks to be set, no demands on nodes."""
    keys = tuple(key for key, value in pods.node_selector.items() if booking_of(key) and value == "true")
    rest = {key: value for key, value in pods.node_selector.items() if key not in keys}
    return (replace(pods, node_selector=rest), keys) if keys else (pods, ())


def beside(pods: PodSet, keys: Iterable[str], one_zone: bool, workload: Workload | None, booking: Find) -> PodSet:
    """Pods that are added to a job that runs, kept to the domain in which its others are: that of the level that they require,
    else the zone where the policy wants but one.
    """
    level = pods.required_topology or (ZONE if one_zone else None)
    grows = workload is not None and replaces(workload) is not None and workload.condition("Evicted") is None
    if not (level and grows) or pods.placed_by_kueue or pods.topology_group:
        return pods
    held = (booking(booking_of(key) or "") for key in keys)
    found = next((each.spec.domains[level] for each in held if each and level in each.spec.domains), None)
    return replace(pods, node_selector={level: found, **pods.node_selector}) if found else pods


def foreign(keys: Iterable[str], request: ProvisioningRequest, look: Look) -> str:
    """Words for a key of a booking that is another's than this job's, "" if there is none. Keys of bookings that are over are
    nobody's: a job that was stopped keeps them in its template. Nothing is said while the request's own Workload isn't seen.
    """
    workload = named_workload(request, look)
    for key in keys:
        held = look.booking(booking_of(key) or "")
        if held is None or held.status.phase in ENDED or (workload is None and not bare(request)):
            continue
        owner = _owner(held, look)
        if not (workload and owner and _same_job(owner, workload)):
            return f"nodeSelector {key} is a mark of booking {held.metadata.name}, which is not this job's: remove it"
    return ""


def _owner(booking: ours.Booking, look: Look) -> Workload | None:
    key = booking.spec.workload
    found = look.workload((key.namespace, key.name)) if key else None
    return found if found and key and found.metadata.uid == key.uid else None


def _same_job(one: Workload, other: Workload) -> bool:
    if one.metadata.namespace != other.metadata.namespace:
        return False
    return one.metadata.uid == other.metadata.uid or (job_of(one) is not None and job_of(one) == job_of(other))
