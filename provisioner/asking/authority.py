"""Who may ask: nobody spends without quota.

A request speaks for a Workload when its PodTemplates are that Workload's own (by UID), the Workload holds quota and waits
for a check of ours, the request is on the terms of the policy that this check chooses, and it asks for no more than what that
quota was reserved for. All others are bare requests, which a policy admits by namespace.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from capacity.model import Labels, PodSet
from kube import core, kueue, ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import OwnerReference
from kube.podspec import pod_set, template
from kube.request_marks import WORKLOAD_UID
from kube.requests import PodSpecError
from kube.times import instant
from kube.volumes import NO_VOLUMES, Volumes
from provisioner.asking.owners import reserved_since
from provisioner.asking.parameters import DEFAULT_POLICY
from provisioner.asking.producers import Stated, stated
from provisioner.state import CONTROLLER
from provisioner.steps import BEFORE


@dataclass(frozen=True, slots=True)
class NoQuota:
    """`lasting`: nothing that our stores may still be missing could change it. `reason` is what the request is then told."""

    message: str
    lasting: bool = False
    reason: str = "NoQuota"


@dataclass(frozen=True, slots=True)
class Look:
    """Ways to look things up: Workloads by (namespace, name); AdmissionChecks, RuntimeClasses, and Kueue's configs, flavors and
    topologies by name.

    `booking` gives Bookings by name; `namespaces` are their labels by name, `volumes` what is known of storage,
    `device_resources` what DeviceClasses serve.
    """

    workload: Callable[[tuple[str, str]], kueue.Workload | None]
    check: Callable[[str], kueue.AdmissionCheck | None]
    runtime_classes: Mapping[str, core.RuntimeClass]
    config: Callable[[str], kueue.ProvisioningRequestConfig | None] = lambda _: None
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    volumes: Volumes = NO_VOLUMES
    device_resources: frozenset[str] = frozenset()
    flavor: Callable[[str], kueue.ResourceFlavor | None] = lambda _: None
    topology: Callable[[str], kueue.Topology | None] = lambda _: None
    booking: Callable[[str], ours.Booking | None] = lambda _: None


def bare(request: ProvisioningRequest) -> bool:
    return stated(request) is None


def admit_bare(request: ProvisioningRequest, policy: str, namespaces: Sequence[str]) -> NoQuota | None:
    namespace = request.metadata.namespace
    if namespace in namespaces:
        return None
    return NoQuota(
        f"no Workload stands behind this request: queue the job through Kueue with a check of {CONTROLLER}, or add namespace "
        f"{namespace} to bareRequests.namespaces of CapacityPolicy {policy}",
        lasting=True,
    )


def workload_of(request: ProvisioningRequest, templates: Sequence[core.PodTemplate], look: Look) -> kueue.Workload | NoQuota:
    """The Workload that the request truly belongs to."""
    said, found = stated(request), named_workload(request, look)
    assert said is not None
    name = said.workload[:80]
    if found is None:
        return NoQuota(f"there is no Workload {request.metadata.namespace}/{name}, which the request names")
    if found.metadata.uid != said.uid:
        return NoQuota(f"Workload {name} has UID {found.metadata.uid}, not that of label {WORKLOAD_UID}: it was made anew")
    return _not_owned(request, said, templates) or found


def _not_owned(request: ProvisioningRequest, said: Stated, templates: Sequence[core.PodTemplate]) -> NoQuota | None:
    """Kueue hands its templates over from the Workload to the request; ours stay the Workload's and own the request."""
    mine = request.metadata.owner_references
    if not said.by_kueue and not any(_owned(mine, "PodTemplate", each.metadata.uid) for each in templates):
        return NoQuota("the request is not owned by one of its PodTemplates")
    for each in templates:
        owners = each.metadata.owner_references
        handed_over = said.by_kueue and _owned(owners, "ProvisioningRequest", request.metadata.uid)
        if not handed_over and not _owned(owners, "Workload", said.uid):
            return NoQuota(f"PodTemplate {each.metadata.name} is not owned by Workload {said.workload[:80]}")
    return None


def named_workload(request: ProvisioningRequest, look: Look) -> kueue.Workload | None:
    """The Workload that the request names, before anybody has checked that it is its own; None for a bare request."""
    said = stated(request)
    return look.workload((request.metadata.namespace, said.workload)) if said else None


def priority_class(request: ProvisioningRequest, look: Look) -> str:
    """That of the Workload that the request names; "" for a bare request."""
    found = named_workload(request, look)
    return found.priority_class if found else ""


def _owned(owners: Sequence[OwnerReference], kind: str, uid: str) -> bool:
    return bool(uid) and any(owner.kind == kind and owner.uid == uid for owner in owners)


def reserved(workload: kueue.Workload, check: str, look: Look, controller: str = CONTROLLER) -> NoQuota | None:
    """Whether quota is reserved for the Workload and it waits for the check of this name, which is one of `controller`."""
    name = workload.metadata.name
    if workload.finished or workload.evicted or not workload.quota_reserved or not workload.spec.active:
        return NoQuota(f"Workload {name} holds no quota: it is served once Kueue has reserved it")
    entry = any(state.name == check for state in workload.status.admission_checks)
    known = look.check(check)
    if not entry or known is None or known.spec.controller_name != controller:
        return NoQuota(f'Workload {name} has no check "{check[:80]}" of {controller}: put the check on its ClusterQueue')
    return None


def on_terms(check: str, policy: str, look: Look) -> NoQuota | None:
    """Whether `policy` is the one that the check's parameters lead to: whoever writes a request can't choose better terms."""
    found = look.check(check)
    chosen = _chosen(found.spec.parameters, look) if found else None
    if chosen == policy:
        return None
    if chosen is None:
        return NoQuota(
            f'AdmissionCheck "{check[:80]}" chooses no CapacityPolicy: set its spec.parameters to one, '
            f"or to a ProvisioningRequestConfig that is there"
        )
    return NoQuota(
        f'the request names CapacityPolicy "{policy}", AdmissionCheck "{check[:80]}" chooses "{chosen}": '
        f"name that one in parameter policy, or change the check's parameters"
    )


def _chosen(reference: kueue.ParametersReference | None, look: Look) -> str | None:
    """The policy's name. None where the parameters lead nowhere."""
    if reference is None:
        return None
    if (reference.api_group, reference.kind) == (ours.GROUP, "CapacityPolicy"):
        return reference.name
    if (reference.api_group, reference.kind) == (kueue.GROUP, "ProvisioningRequestConfig"):
        config = look.config(reference.name)
        return config.spec.parameters.get("policy", DEFAULT_POLICY) if config else None
    return None


def rivalry(other: str, workload: str, others_check: str, check: str, shared: Collection[str]) -> NoQuota | None:
    """What stands against a request for `check` beside the `other` that is served: one for the same check, or pod sets that both
    ask for. Pods can't select the nodes of two bookings, and no new attempt would change which checks their queue has.
    """
    if check == others_check:
        return NoQuota(f"request {other} serves Workload {workload} already")
    if not shared:
        return None
    return NoQuota(
        f'pod set {", ".join(sorted(shared))} is served for AdmissionCheck "{others_check[:80]}", by request {other}: '
        f"one quota buys once; give each check of the ClusterQueue flavors of its own (onFlavors)",
        lasting=True,
        reason="InvalidArgument",
    )


def holding(
    bookings: Iterable[ours.Booking], request: ProvisioningRequest, workload: kueue.Workload, pod_sets: Collection[str]
) -> str | None:
    """The name of another request's booking that holds capacity for one of the pod sets under the quota reserved now.

    One made under an earlier reservation is on its way out, as soon as its last pods are.
    """
    for booking in bookings:
        held = {each.name for each in booking.spec.pod_sets} & set(pod_sets)
        another = booking.spec.request.uid != request.metadata.uid and booking.status.phase in (*BEFORE, "Provisioned")
        made = booking.metadata.creation_timestamp
        if held and another and not (made and reserved_since(workload, instant(made))):
            return booking.metadata.name
    return None


def within(workload: kueue.Workload, gang: Sequence[PodSet], look: Look) -> NoQuota | None:
    """Whether the request asks for no more than the Workload's admitted pod sets, each once."""
    admitted = {ps.name: ps for ps in workload.spec.pod_sets}
    assigned = workload.status.admission.pod_set_assignments if workload.status.admission else ()
    counts = {ps.name: ps.count for ps in workload.spec.pod_sets} | {a.name: a.count for a in assigned if a.count is not None}
    for asked in gang:
        ps = admitted.get(asked.name)
        if ps is None:
            return NoQuota(f'pod set "{asked.name[:63]}" is not one of Workload {workload.metadata.name}')
        if asked.count > counts[asked.name]:
            return NoQuota(f"pod set {asked.name} asks for {asked.count} pods, quota is reserved for {counts[asked.name]}")
        try:
            allowed = pod_set(ps.name, ps.count, template(ps.template), runtime_classes=look.runtime_classes).requests
        except PodSpecError as error:
            return NoQuota(f"pod set {ps.name} of Workload {workload.metadata.name}: {error}")
        for resource, amount in asked.requests.items():
            if amount > allowed.get(resource, 0):
                return NoQuota(f"a pod of pod set {asked.name} asks for more {resource} than its Workload has quota for")
    return None
