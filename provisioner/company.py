"""What the state tells of a booking's gang: its pods, as their templates show them, and its name and end as others see it."""

from collections.abc import Mapping

from capacity.model import Holder, Running
from capacity.snapshot import arriving
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.podspec import pod_set, template
from kube.requests import PodSpecError
from kube.times import instant
from provisioner.acceptance import name_of
from provisioner.parameters import ParameterError, terms
from provisioner.state import State


def pods_of(booking: ours.Booking, state: State) -> Mapping[str, Running]:
    """One pod of each pod set, by its name, from the request's templates; what is gone by now is left out."""
    request = _request(booking, state)
    found: dict[str, Running] = {}
    for index, entry in enumerate(request.spec.pod_sets if request else ()):
        namespace = booking.spec.request.namespace
        there = state.templates.get((namespace, entry.pod_template_ref.name))
        if there is None:
            continue
        name = name_of(there, index)
        try:
            made = pod_set(name, 1, template(there.template), namespace=namespace, namespaces=state.namespace_labels())
        except PodSpecError:
            continue
        found[name] = arriving(made)
    return found


def holder_of(booking: ours.Booking, state: State) -> Holder:
    """It ends at the latest when its run time is over, if that is known and its first pod has come."""
    started, duration = booking.status.first_pod_at, _run_duration(booking, state)
    ends = int(instant(started).timestamp()) + duration if started and duration is not None else None
    return Holder(_title(booking, state), ends)


def _title(booking: ours.Booking, state: State) -> str:
    """The job's kind and name such as `job/llm`, else the name of the Workload or of a bare request."""
    key = booking.spec.workload
    if key is None:
        return booking.spec.request.name
    workload = state.workloads.get((key.namespace, key.name))
    owners = workload.metadata.owner_references if workload else ()
    return next((f"{owner.kind.lower()}/{owner.name}" for owner in owners if owner.controller), key.name)


def _run_duration(booking: ours.Booking, state: State) -> int | None:
    request = _request(booking, state)
    if request is None:
        return None
    try:
        return terms(request.spec.parameters, lambda name: state.policies.get(("", name))).run_duration
    except ParameterError:
        return None


def _request(booking: ours.Booking, state: State) -> ProvisioningRequest | None:
    key = booking.spec.request
    found = state.requests.get((key.namespace, key.name))
    return found if found and found.metadata.uid == key.uid else None
