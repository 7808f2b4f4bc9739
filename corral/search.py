"""Finds the Workloads that stand for a target: its own, or those of an owner of it, as a pod has."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from corral.reading import Reader
from corral.targets import POD_GROUP, REQUEST, WORKLOAD, Target
from kube import resources
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.meta import ObjectMeta, OwnerReference, Record
from kube.queued_pods import GROUP_NAME
from kube.resources import Kind
from provisioner.asking.producers import stated
from runtime.errors import Forbidden

MOST = 10
"""Names that are listed where nothing was found."""
_HIGHEST = 5
_RAY_CLUSTERS = Kind("ray.io", "v1", "rayclusters", "RayCluster")
_BELOW = {
    kind.kind.lower(): kind
    for kind in (
        resources.PODS,
        resources.JOBS,
        resources.JOB_SETS,
        resources.STATEFUL_SETS,
        resources.LEADER_WORKER_SETS,
        _RAY_CLUSTERS,
    )
}
_GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
_WORDS = {REQUEST: "ProvisioningRequest", WORKLOAD: "Workload", POD_GROUP: "pod group"}


class Thing(Record, frozen=True, kw_only=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Found:
    """`request` is the one asked about, if it was one; without Workloads it is a bare one, or the Workload that it names is gone.

    `missed` are lines that tell what was looked for in vain.
    """

    workloads: tuple[Workload, ...] = ()
    request: ProvisioningRequest | None = None
    missed: tuple[str, ...] = ()


async def find(reader: Reader, target: Target, namespace: str) -> Found:
    """Raises Forbidden where the namespace's Workloads can't be read."""
    there = await reader.workloads(namespace)
    if target.kind == REQUEST:
        request = await reader.get(resources.PROVISIONING_REQUESTS, ProvisioningRequest, target.name, namespace)
        if request is None:
            return Found(missed=tuple(await _missed(reader, target, namespace, there)))
        said = stated(request)
        return Found(tuple(one for one in there if said and one.metadata.uid == said.uid), request)
    mine = await _of(reader, target, namespace, there)
    if not mine:
        return Found(missed=tuple(await _missed(reader, target, namespace, there)))
    alive = [one for one in mine if not one.finished] or mine[-1:]
    return Found(tuple(alive))


async def _of(reader: Reader, target: Target, namespace: str, there: Sequence[Workload]) -> list[Workload]:
    """Its Workloads, the oldest first; where it has none, those of the nearest of its owners that has."""
    found = _direct(target, there)
    if not found:
        async for each in _above(reader, target, namespace):
            found = [one for one in there if _belongs(one, each)]
            if found:
                break
    return sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def _direct(target: Target, there: Iterable[Workload]) -> list[Workload]:
    if target.kind in (WORKLOAD, POD_GROUP):
        return [one for one in there if one.metadata.name == target.name]
    return [one for one in there if any(target.owns(owner) for owner in one.metadata.owner_references)]


def _belongs(workload: Workload, owner: OwnerReference) -> bool:
    if owner.kind == _WORDS[WORKLOAD]:
        return workload.metadata.name == owner.name
    return any(each.uid == owner.uid for each in workload.metadata.owner_references)


async def _above(reader: Reader, target: Target, namespace: str) -> AsyncIterator[OwnerReference]:
    """Its owners, the nearest first; before a pod's the Workload of its group (Kueue v0.17.0 names both alike)."""
    kind, name = _BELOW.get(target.kind), target.name
    for _ in range(_HIGHEST):
        below = await reader.get(kind, Thing, name, namespace) if kind else None
        if below is None:
            return
        if group := below.metadata.labels.get(GROUP_NAME):
            yield OwnerReference(kind=_WORDS[WORKLOAD], name=group)
        owner = next((each for each in below.metadata.owner_references if each.controller), None)
        if owner is None:
            return
        yield owner
        kind, name = _kind(owner), owner.name


def _kind(owner: OwnerReference) -> Kind:
    """Where the API server has such owners: the plural of each kind that Kueue knows ends in a plain s."""
    group, _, version = owner.api_version.rpartition("/")
    return Kind(group, version, f"{owner.kind.lower()}s", owner.kind)


# --- nothing found --------------------------------------------------------------------------------------------------------


async def _missed(reader: Reader, target: Target, namespace: str, there: Sequence[Workload]) -> list[str]:
    lines = [f"UNKNOWN {target.text}: {_looked_for(target, namespace)}"]
    lines += [f"  it is in namespace {one}: add -n {one}" for one in (await _elsewhere(reader, target))[:MOST]]
    lines += [line async for line in _group(reader, target, namespace)]
    if target.kind == "deployment":
        lines.append("  Kueue makes a Workload for each pod of a Deployment: name one of its pods, pod/NAME")
    if target.kind != REQUEST:
        lines.append(_there(namespace, there))
    return lines


def _looked_for(target: Target, namespace: str) -> str:
    word = _WORDS.get(target.kind)
    if word:
        return f"there is no {word} {target.name} in namespace {namespace}"
    group = f" of group {target.group}" if target.group else ""
    return (
        f"no Workload in namespace {namespace} has an owner of kind {target.kind}{group} named {target.name}: "
        f"does it exist, with the label kueue.x-k8s.io/queue-name?"
    )


async def _group(reader: Reader, target: Target, namespace: str) -> AsyncIterator[str]:
    """Of a group of pods, or of a pod's: Kueue v0.17.0 makes no Workload before the last pod is there (jobs/pod)."""
    name = target.name if target.kind == POD_GROUP else ""
    if target.kind == "pod":
        pod = await reader.get(resources.PODS, Thing, target.name, namespace)
        name = pod.metadata.labels.get(GROUP_NAME, "") if pod else ""
    pods = await reader.all(resources.PODS, Thing, namespace, label_selector=f"{GROUP_NAME}={name}") if name else ()
    totals = {pod.metadata.annotations.get(_GROUP_SIZE, "?") for pod in pods}
    if pods:
        yield (
            f"  {len(pods)} pods of group {name} are there, {' or '.join(sorted(totals))} are to come in all: "
            f"Kueue makes a Workload of them when the last one is there"
        )


async def _elsewhere(reader: Reader, target: Target) -> list[str]:
    """Namespaces in which it is, as far as the user may look."""
    metas: Iterable[ObjectMeta]
    if target.kind == REQUEST:
        requests = await reader.all(resources.PROVISIONING_REQUESTS, ProvisioningRequest)
        metas = (one.metadata for one in requests if one.metadata.name == target.name)
    else:
        metas = (one.metadata for one in _direct(target, await _everywhere(reader)))
    return sorted({meta.namespace for meta in metas})


async def _everywhere(reader: Reader) -> tuple[Workload, ...]:
    try:
        return await reader.workloads("")
    except Forbidden:
        return ()


def _there(namespace: str, there: Sequence[Workload]) -> str:
    """What could have been meant."""
    names = sorted({_owner(one) for one in there if not one.finished})
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"  Kueue's Workloads in namespace {namespace} are of: {', '.join(names[:MOST]) or 'nothing'}{more}"


def _owner(workload: Workload) -> str:
    owners = [f"{each.kind.lower()}/{each.name}" for each in workload.metadata.owner_references]
    return owners[0] if len(owners) == 1 else f"workload/{workload.metadata.name}"
