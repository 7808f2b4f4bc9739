"""Where a pod's volumes let it run, as the scheduler's volume plugins see it, and what about them can't be decided.

Sources: kube-scheduler 1.36.3, plugins volumebinding (binder.go), volumezone, volumerestrictions and nodevolumelimits (csi.go).
The number of volumes that a node takes is not counted here: a pod with a volume of a driver that limits it anywhere is
undecidable. Two pod sets that share one claim which is not bound yet are not seen to do so.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, structs

from capacity.requirements import Expression, NodeSelectorTerm
from kube.core import PodSpec, Volume
from kube.selectors import terms
from kube.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

Reach = tuple[NodeSelectorTerm, ...]
"""Terms of which a node must match one."""

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD = {"failure-domain.beta.kubernetes.io/zone": _ZONE, "failure-domain.beta.kubernetes.io/region": _REGION}
_PLACES = (*_OLD, _ZONE, _REGION)
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BOUND = "pv.kubernetes.io/bind-completed"
_CHOSEN_NODE = "volume.kubernetes.io/selected-node"
_LATE = "WaitForFirstConsumer"
_STATIC = ("", "kubernetes.io/no-provisioner")
_IN_TREE = ("aws_elastic_block_store", "gce_persistent_disk", "azure_disk", "cinder", "portworx_volume")


@dataclass(frozen=True, slots=True)
class Volumes:
    """What is known of storage: claims by (namespace, name), the rest by name. `limited` are the CSI drivers of which some node
    takes only so many volumes.
    """

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    drivers: Mapping[str, CSIDriver] = field(default_factory=dict)
    limited: frozenset[str] = frozenset()


NO_VOLUMES = Volumes()


def gathered(
    claims: Iterable[PersistentVolumeClaim],
    volumes: Iterable[PersistentVolume],
    classes: Iterable[StorageClass],
    drivers: Iterable[CSIDriver],
    nodes: Iterable[CSINode],
) -> Volumes:
    """All that is known of storage, from the objects of a cluster."""
    return Volumes(
        claims={(each.metadata.namespace, each.metadata.name): each for each in claims},
        volumes={each.metadata.name: each for each in volumes},
        classes={each.metadata.name: each for each in classes},
        drivers={each.metadata.name: each for each in drivers},
        limited=limited(nodes),
    )


class _UndecidableError(Exception):
    """The text says why, as the end of a phrase that names the volume."""


class _AwaitedError(_UndecidableError):
    """It will be clear once an object is there, or has come so far."""


def limited(nodes: Iterable[CSINode]) -> frozenset[str]:
    """The drivers of which some node takes only so many volumes."""
    drivers = (driver for node in nodes for driver in node.spec.drivers or ())
    return frozenset(driver.name for driver in drivers if driver.allocatable and driver.allocatable.count is not None)


@dataclass(frozen=True, slots=True)
class Reaches:
    """`terms`: what nodes must match, one entry a volume that limits it. `doubts`: why some volume can't be decided; `awaits`:
    why some can't be yet.
    """

    terms: tuple[Reach, ...] = ()
    doubts: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()


def reaches(spec: PodSpec, count: int, namespace: str, known: Volumes) -> Reaches:
    """What the volumes of `count` pods mean for where they may run."""
    found: list[Reach] = []
    doubts: list[str] = []
    awaits: list[str] = []
    for volume in spec.volumes:
        try:
            found.extend(_reaches(volume, count, namespace, known))
        except _UndecidableError as error:
            (awaits if isinstance(error, _AwaitedError) else doubts).append(f"volume {volume.name}: {error}")
    return Reaches(tuple(found), tuple(doubts), tuple(awaits))


def _reaches(volume: Volume, count: int, namespace: str, known: Volumes) -> Iterable[Reach]:
    if volume.persistent_volume_claim is not None:
        return _of_claim(namespace, volume.persistent_volume_claim.claim_name, count, known)
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template
        name = template.spec.storage_class_name if template else ""
        if name == "":
            raise _UndecidableError("its claim has no storage class")
        return _provisioned(_class(name, known), known)
    for each in structs.fields(Volume):
        if each.name not in ("name", "persistent_volume_claim", "ephemeral") and getattr(volume, each.name) not in (UNSET, None):
            raise _UndecidableError(f"{each.encode_name} is limited by what else is mounted on its node")
    return ()


def _of_claim(namespace: str, name: str, count: int, known: Volumes) -> Iterable[Reach]:
    claim = known.claims.get((namespace, name))
    what = f"PersistentVolumeClaim {name}"
    if claim is None:
        raise _AwaitedError(f"{what} isn't there: create it in namespace {namespace}")
    if claim.status.phase == "Lost" or claim.metadata.deletion_timestamp is not None:
        raise _AwaitedError(f"{what} is lost or being deleted: create it anew")
    if "ReadWriteOncePod" in claim.spec.access_modes:
        raise _UndecidableError(f"{what} is ReadWriteOncePod: no other pod may use it at the time")
    if claim.spec.volume_name:
        return _bound(claim, what, known)
    if _CHOSEN_NODE in claim.metadata.annotations:
        raise _AwaitedError(f"{what} is about to get its volume for one node")
    storage_class = _class_of(claim, what, known)
    if storage_class.volume_binding_mode != _LATE:
        raise _AwaitedError(f"{what} isn't bound yet: StorageClass {storage_class.metadata.name} makes its volume at once")
    if count > 1:
        raise _UndecidableError(f"{what} isn't bound yet: its volume goes where the first of the pods does")
    return _provisioned(storage_class, known)


def _class_of(claim: PersistentVolumeClaim, what: str, known: Volumes) -> StorageClass:
    name = claim.metadata.annotations.get(_OLD_CLASS, claim.spec.storage_class_name)
    if name == "":
        raise _AwaitedError(f"{what} has no storage class: bind a PersistentVolume to it")
    return _class(name, known)


def _class(name: str | None, known: Volumes) -> StorageClass:
    """The class of this name. For None it is the one that admission gives to a claim that names none: of several defaults the
    newest.
    """
    if name is not None:
        if name not in known.classes:
            raise _AwaitedError(f"StorageClass {name} isn't there: create it")
        return known.classes[name]
    marked = [each for each in known.classes.values() if each.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
    if not marked:
        raise _AwaitedError("its claim names no storage class, and none is the default: mark one")
    return max(marked, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))


def _bound(claim: PersistentVolumeClaim, what: str, known: Volumes) -> Iterator[Reach]:
    """A claim that names a volume is no more than promised to it until the binding is completed."""
    volume = known.volumes.get(claim.spec.volume_name)
    if volume is None:
        raise _AwaitedError(f"PersistentVolume {claim.spec.volume_name} of {what} isn't there: create it, or the claim anew")
    if _BOUND not in claim.metadata.annotations:
        raise _AwaitedError(f"{what} isn't bound to its volume yet")
    if any(getattr(volume.spec, each) not in (UNSET, None) for each in _IN_TREE):
        raise _UndecidableError(f"PersistentVolume {volume.metadata.name} is of a kind that moved to a CSI driver")
    if volume.spec.csi:
        _unlimited(volume.spec.csi.driver, known)
    yield from _affinity(volume)
    yield from (_place(key, volume.metadata.labels[key]) for key in _PLACES if _zones(volume.metadata.labels.get(key, "")))


def _affinity(volume: PersistentVolume) -> Iterator[Reach]:
    """Its node affinity; the scheduler matches it with a node's labels alone, so that fields hold everywhere."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    found = terms(required) if required else ()
    if required and not any(term.fields and not term.expressions for term in found):
        yield tuple(NodeSelectorTerm(term.expressions) for term in found)


def _zones(label: str) -> tuple[str, ...]:
    """The zones or regions that a volume's label lists; one with an empty entry says nothing."""
    zones = tuple(part.strip() for part in label.split("__"))
    return zones if all(zones) else ()


def _place(key: str, label: str) -> Reach:
    """VolumeZone: the node's label must be in the volume's, an old key's new name standing in; a node without any such label
    will do.
    """
    inside = NodeSelectorTerm((Expression(key, "In", _zones(label)),))
    placeless = NodeSelectorTerm(tuple(Expression(each, "DoesNotExist") for each in _PLACES))
    if key not in _OLD:
        return inside, placeless
    renamed = NodeSelectorTerm((Expression(key, "DoesNotExist"), Expression(_OLD[key], "In", _zones(label))))
    return inside, renamed, placeless


def _provisioned(found: StorageClass, known: Volumes) -> Iterator[Reach]:
    """Where a volume of the class can be made for the first pod that needs it."""
    name = found.metadata.name
    what = f"StorageClass {name}"
    if found.volume_binding_mode != _LATE:
        raise _UndecidableError(f"{what} makes the volume before it is known where the pod runs")
    if found.provisioner in _STATIC or any(_to_be_had(each, name) for each in known.volumes.values()):
        raise _UndecidableError(f"any of the free volumes of {what} may be chosen")
    driver = known.drivers.get(found.provisioner)
    if driver and driver.spec.storage_capacity:
        raise _UndecidableError(f"{what} makes it where driver {found.provisioner} has space left")
    _unlimited(found.provisioner, known)
    allowed = tuple(
        NodeSelectorTerm(tuple(Expression(each.key, "In", each.values) for each in term.match_label_expressions))
        for term in found.allowed_topologies
    )
    if allowed:
        yield allowed


def _to_be_had(volume: PersistentVolume, storage_class: str) -> bool:
    """Whether a claim of the class may be bound to it; one that is reserved for a claim counts until it is bound."""
    return volume.spec.storage_class_name == storage_class and not (volume.spec.claim_ref and volume.spec.claim_ref.uid)


def _unlimited(driver: str, known: Volumes) -> None:
    if driver in known.limited:
        raise _UndecidableError(f"driver {driver} limits how many volumes a node takes")
