"""What the state tells of a booking's gang: its pods, as their templates show them, how many it has left, and its name and end as
others see it.
"""

from collections.abc import Mapping
from datetime import timedelta

from capacity.model import Holder, Running
from capacity.snapshot import arriving
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.podspec import pod_set, template
from kube.requests import PodSpecError
from kube.times import instant
from provisioner.asking import slices
from provisioner.asking.acceptance import name_of
from provisioner.asking.parameters import ParameterError, terms
from provisioner.state import State


def pods_of(booking: ours.Booking, state: State) -> Mapping[str, Running]:
    """One pod of each pod set, by its name, from the request's templates; what is gone by now is left out."""
    request = _request(booking, state)
    found: dict[str, Running] = {}
    if request is None:
        return found
    for index, entry in enumerate(request.spec.pod_sets):
        namespace = booking.spec.request.namespace
        there = state.templates.get((namespace, entry.pod_template_ref.name))
        if there is None:
            continue
        name = name_of(request, there, index)
        try:
            made = pod_set(name, 1, template(there.template), namespace=namespace, namespaces=state.namespace_labels())
        except PodSpecError:
            continue
        found[name] = arriving(made)
    return found


def left_of(booking: ours.Booking, state: State) -> Mapping[str, int]:
    """How many pods of each pod set are not over, by its name: none of a finished Workload. While it runs, over are those that
    its kind of job reports to have succeeded and not to run again (Workload `reclaimablePods`, Kueue 0.17.0); after partial
    admission some of them count as not over.
    """
    asked = {each.name: each.count for each in booking.spec.pod_sets}
    workload = _workload(booking, state)
    if workload is None:
        return asked
    workload = (workload, *slices.after(workload, state.replacing))[-1]
    over = {each.name: each.count for each in workload.status.reclaimable_pods}
    still = {each.name: 0 if workload.finished else each.count - over.get(each.name, 0) for each in workload.spec.pod_sets}
    return {name: min(count, still.get(name, count)) for name, count in asked.items()}


def holder_of(booking: ours.Booking, state: State) -> Holder:
    """It ends at the latest when its run time is over, if that is known; until its first pod has come, as if that came as late as
    it may.
    """
    spec, started, duration = booking.spec, booking.status.first_pod_at, _run_duration(booking, state)
    begins = instant(started) if started else instant(spec.provision_deadline) + timedelta(seconds=spec.booking_seconds)
    ends = int(begins.timestamp()) + duration if duration is not None else None
    return Holder(_title(booking, state), ends)


def _title(booking: ours.Booking, state: State) -> str:
    """The job's kind and name such as `job/llm`, else the name of the Workload or of a bare request."""
    key = booking.spec.workload
    if key is None:
        return booking.spec.request.name
    workload = _workload(booking, state)
    owners = workload.metadata.owner_references if workload else ()
    return next((f"{owner.kind.lower()}/{owner.name}" for owner in owners if owner.controller), key.name)


def _run_duration(booking: ours.Booking, state: State) -> int | None:
    request = _request(booking, state)
    if request is None:
        return None
    workload = _workload(booking, state)
    priority_class = workload.priority_class if workload else ""
    try:
        return terms(request.spec.parameters, lambda name: state.policies.get(("", name)), priority_class).run_duration
    except ParameterError:
        return None


def _workload(booking: ours.Booking, state: State) -> Workload | None:
    key = booking.spec.workload
    found = state.workloads.get((key.namespace, key.name)) if key else None
    return found if found and key and found.metadata.uid == key.uid else None


def _request(booking: ours.Booking, state: State) -> ProvisioningRequest | None:
    key = booking.spec.request
    found = state.requests.get((key.namespace, key.name))
    return found if found and found.metadata.uid == key.uid else None
