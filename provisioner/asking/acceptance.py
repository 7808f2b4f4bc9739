"""Whether a request is taken on: its parameters, its PodTemplates, and who stands behind it.

What is accepted is a snapshot: later edits of parameters, templates or policy don't touch a request that is under way; what its
pods name beside them is read anew (leaning.py).
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from capacity.model import Gang, PodSet
from kube import core, kueue, ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import ObjectKey
from kube.podspec import pod_set, template
from kube.request_marks import POD_SET
from kube.requests import PodSpecError
from kube.times import due, instant, seconds
from provisioner.asking import authority, tas
from provisioner.asking.authority import Look, NoQuota
from provisioner.asking.parameters import ParameterError, PolicyMissingError, Terms, named, poolless, terms
from provisioner.asking.producers import KUEUE_CONTROLLER, check_of, pod_set_of, stated
from provisioner.planning import growth
from provisioner.settings import ProvisionerSettings
from provisioner.state import CONTROLLER

MOST_PODS = 16_384
TEMPLATE_GRACE = ProvisionerSettings().template_grace_seconds
QUOTA_GRACE = 10
"""Seconds that the Workload's quota may seem missing: the stores can lag behind."""
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Accepted:
    """`priority` is the Workload's at acceptance, `waits_since` when it was made, `check` the admission check it waits for: the
    last two are "" for a bare request.

    `digest` is equal for requests that ask for the same on the same terms, whoever's pods they are: one plan answers them all
    where no rule looks at the pods' labels. `templates` are those of its pod sets, in order; `inherited` are by pod set the keys
    of earlier bookings that its template selects.
    """

    gang: Gang
    terms: Terms
    digest: str
    workload: ObjectKey | None = None
    check: str = ""
    priority: int = 0
    waits_since: str = ""
    templates: tuple[core.PodTemplate, ...] = ()
    inherited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotYet:
    """Not accepted so far. `until` is when it is refused if nothing changes."""

    reason: str
    message: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    message: str


Judgement = Accepted | NotYet | Refused


@dataclass(frozen=True, slots=True)
class Desk:
    """Ways to look things up. `template` takes (namespace, name). `taken` objects where (Workload, check, names of pod sets) are
    served already, in place of a request: by another request, or a booking that outlived its own.

    `pools` are the names of all pools. `template_grace`: seconds that a PodTemplate or the check's policy may be missing.
    """

    template: Callable[[tuple[str, str]], core.PodTemplate | None]
    policy: Callable[[str], ours.CapacityPolicy | None]
    look: Look
    pools: Collection[str]
    taken: Callable[[ProvisioningRequest, Workload, str, Collection[str]], NoQuota | None] = lambda *_: None
    template_grace: float = TEMPLATE_GRACE


def judge(request: ProvisioningRequest, desk: Desk, now: datetime) -> Judgement:
    """Decides on a request that is not accepted yet."""
    asked = sum(entry.count for entry in request.spec.pod_sets)
    if asked > MOST_PODS or any(entry.count < 1 for entry in request.spec.pod_sets):
        return Refused("InvalidArgument", f"podSets ask for {asked} pods: ask for 1 to {MOST_PODS}, and at least one of each")
    names = [entry.pod_template_ref.name for entry in request.spec.pod_sets]
    there = [desk.template((request.metadata.namespace, name)) for name in names]
    missing = [name for name, found in zip(names, there, strict=True) if found is None]
    if missing:
        text = f"PodTemplate {', '.join(missing)} not found in namespace {request.metadata.namespace}: create it"
        return _patient("MissingPodTemplates", text, request, _grace(request, desk), now)
    templates = [found for found in there if found is not None]
    try:
        agreed = terms(request.spec.parameters, desk.policy, authority.priority_class(request, desk.look))
        asked_for = offer(request, templates, agreed, desk.look)
    except (ParameterError, PodSpecError) as error:
        if isinstance(error, PolicyMissingError) and not authority.bare(request):
            # Its check chose the policy, not its author: it may come back, and the workload must not be deactivated for it.
            return _patient("NoPolicy", str(error), request, desk.template_grace, now)
        return Refused("InvalidArgument", str(error))
    if pools := poolless(agreed, desk.pools):
        return _patient("NoPool", pools, request, agreed.queued, now)
    if other := growth.foreign(chain.from_iterable(asked_for.inherited.values()), request, desk.look):
        return _patient("ForeignBooking", other, request, agreed.queued, now)
    return _authorised(request, templates, asked_for, desk, now)


def offer(request: ProvisioningRequest, templates: Sequence[core.PodTemplate], agreed: Terms, look: Look) -> Accepted:
    """What is asked for, whoever asks. Raises PodSpecError when a pod set can't be planned as it is written."""
    parts = [growth.parted(pod) for pod in pod_sets(request, templates, look)]
    inherited = {pod.name: keys for pod, keys in parts if keys}
    workload = authority.named_workload(request, look)
    pods = [_placed(pod, agreed) for pod in tas.placed(request, [pod for pod, _ in parts], look)]
    beside = (growth.beside(pod, inherited.get(pod.name, ()), agreed.one_zone, workload, look.booking) for pod in pods)
    gang = Gang(_title(request), tuple(beside), agreed.run_duration, tas.one_mark(request))
    nameless = tuple(replace(pod, namespace="", labels={}) for pod in gang.pod_sets)
    digest = hashlib.sha256(repr((nameless, agreed, gang.one_mark)).encode()).hexdigest()
    return Accepted(gang, agreed, digest, templates=tuple(templates), inherited=inherited)


def _title(request: ProvisioningRequest) -> str:
    said = stated(request)
    return f"{request.metadata.namespace}/{(said.workload if said else '') or request.metadata.name}"


def _placed(pod: PodSet, agreed: Terms) -> PodSet:
    """The policy's topology holds for pod sets that have none of their own; its required level for all of these together. Kueue
    does not know of it: it places pods as they ask, on nodes that the planner keeps to the policy.
    """
    if pod.placed_by_kueue:
        return pod
    wanted = agreed.preferences
    preferred = pod.preferred_topology or wanted.preferred_topology
    if pod.required_topology or not wanted.required_topology:
        return replace(pod, preferred_topology=preferred)
    return replace(pod, required_topology=wanted.required_topology, preferred_topology=preferred, topology_group="")


def _grace(request: ProvisioningRequest, desk: Desk) -> float:
    """Seconds: its policy's `timeouts.accept`, the service's own where there is none."""
    policy = desk.policy(named(request.spec.parameters))
    accept = policy.spec.timeouts.accept if policy else None
    return seconds(accept) if accept else desk.template_grace


def _patient(reason: str, text: str, request: ProvisioningRequest, grace: float, now: datetime) -> NotYet | Refused:
    created = instant(request.metadata.creation_timestamp) if request.metadata.creation_timestamp else now
    if (now - created).total_seconds() >= grace:
        return Refused(reason, text)
    until = datetime.fromtimestamp(created.timestamp() + grace, now.tzinfo)
    return NotYet(reason, f"{text}; refused at {due(until, now)}", until)


# --- the gang -------------------------------------------------------------------------------------------------------------


def pod_sets(request: ProvisioningRequest, templates: Sequence[core.PodTemplate], look: Look) -> list[PodSet]:
    """The pod sets in the request's order. Raises PodSpecError when one can't be planned as it is written."""
    found = [
        _pod_set(request, entry.count, each, index, look)
        for index, (entry, each) in enumerate(zip(request.spec.pod_sets, templates, strict=True))
    ]
    names = [pod.name for pod in found]
    for name in names:
        if names.count(name) > 1:
            raise PodSpecError(f'two pod sets are named "{name}": give each PodTemplate its own label {POD_SET}')
    return found


def _pod_set(request: ProvisioningRequest, count: int, each: core.PodTemplate, index: int, look: Look) -> PodSet:
    spec = template(each.template)
    try:
        made = pod_set(
            name_of(request, each, index),
            count,
            spec,
            namespace=each.metadata.namespace,
            runtime_classes=look.runtime_classes,
            namespaces=look.namespaces,
            volumes=look.volumes,
            device_resources=look.device_resources,
        )
    except PodSpecError as error:
        raise PodSpecError(f"PodTemplate {each.metadata.name}: {error}") from None
    if not set(made.requests) - {"pods"} and not spec.spec.resource_claims:
        container = spec.spec.containers[0].name if spec.spec.containers else ""
        raise PodSpecError(
            f'pod set {made.name}: container "{container}" requests nothing: set requests for cpu, memory or a device '
            f"in PodTemplate {each.metadata.name}"
        )
    return made


def name_of(request: ProvisioningRequest, each: core.PodTemplate, index: int) -> str:
    """The pod set's name as producers tell it, else the template's where that can be part of a label key, else its number."""
    for name in (each.metadata.labels.get(POD_SET, ""), pod_set_of(request, each.metadata.name), each.metadata.name):
        if _LABEL.fullmatch(name):
            return name
    return f"podset-{index}"


# --- who asks -------------------------------------------------------------------------------------------------------------


def _authorised(
    request: ProvisioningRequest, templates: Sequence[core.PodTemplate], offer: Accepted, desk: Desk, now: datetime
) -> Judgement:
    found = _standing(request, templates, offer, desk)
    if not isinstance(found, NoQuota):
        return found
    if found.lasting:
        return Refused(found.reason, found.message)
    return _patient("NoQuota", found.message, request, QUOTA_GRACE, now)


def _standing(
    request: ProvisioningRequest, templates: Sequence[core.PodTemplate], offer: Accepted, desk: Desk
) -> Accepted | NoQuota:
    if authority.bare(request):
        return authority.admit_bare(request, offer.terms.policy, offer.terms.bare_namespaces) or offer
    workload = authority.workload_of(request, templates, desk.look)
    if isinstance(workload, NoQuota):
        return workload
    check = check_of(request, workload)
    objections: Iterable[NoQuota | None] = (
        authority.reserved(workload, check, desk.look, _controller(offer)),
        authority.on_terms(check, named(request.spec.parameters), desk.look),
        authority.within(workload, offer.gang.pod_sets, desk.look),
        desk.taken(request, workload, check, [pod_set.name for pod_set in offer.gang.pod_sets]),
    )
    objection = next((each for each in objections if each), None)
    if objection:
        return objection
    born = workload.metadata.creation_timestamp or ""
    return replace(offer, workload=_key(workload), check=check, priority=workload.spec.priority or 0, waits_since=born)


def _key(workload: Workload) -> ObjectKey:
    meta = workload.metadata
    return ObjectKey(namespace=meta.namespace, name=meta.name, uid=meta.uid)


def still_reserved(accepted: Accepted, look: Look) -> bool:
    """Whether an accepted request may still be planned: its Workload, if it has one, holds its quota."""
    key = accepted.workload
    if key is None:
        return True
    found: kueue.Workload | None = look.workload((key.namespace, key.name))
    return (
        found is not None
        and found.metadata.uid == key.uid
        and authority.reserved(found, accepted.check, look, _controller(accepted)) is None
    )


def _controller(accepted: Accepted) -> str:
    """Whose check asks: Kueue's own has one mark for all pod sets."""
    return KUEUE_CONTROLLER if accepted.gang.one_mark else CONTROLLER
