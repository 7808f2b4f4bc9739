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


def limited(nodes: Iterable[CSINode]) -> frozenset[str]:
    """The drivers of which some node takes only so many volumes."""
    drivers = (driver for node in nodes for driver in node.spec.drivers or ())
    return frozenset(driver.name for driver in drivers if driver.allocatable and driver.allocatable.count is not None)


def reaches(spec: PodSpec, count: int, namespace: str, known: Volumes) -> tuple[tuple[Reach, ...], tuple[str, ...]]:
    """Of `count` pods: what their nodes must match, one entry a volume that limits it, and why some volume can't be decided."""
    found: list[Reach] = []
    doubts: list[str] = []
    for volume in spec.volumes:
        try:
            found.extend(_reaches(volume, count, namespace, known))
        except _UndecidableError as error:
            doubts.append(f"volume {volume.name}: {error}")
    return tuple(found), tuple(doubts)


def _reaches(volume: Volume, count: int, namespace: str, known: Volumes) -> Iterable[Reach]:
    if volume.persistent_volume_claim is not None:
        return _of_claim(namespace, volume.persistent_volume_claim.claim_name, count, known)
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template
        name = template.spec.storage_class_name if template else ""
        return _provisioned(_default(known) if name is None else name, known)
    for each in structs.fields(Volume):
        if each.name not in ("name", "persistent_volume_claim", "ephemeral") and getattr(volume, each.name) not in (UNSET, None):
            raise _UndecidableError(f"{each.encode_name} is limited by what else is mounted on its node")
    return ()


def _of_claim(namespace: str, name: str, count: int, known: Volumes) -> Iterable[Reach]:
    claim = known.claims.get((namespace, name))
    what = f"PersistentVolumeClaim {name}"
    if claim is None:
        raise _UndecidableError(f"{what} isn't known here, so neither is where its volume can be reached")
    if claim.status.phase == "Lost" or claim.metadata.deletion_timestamp is not None:
        raise _UndecidableError(f"{what} is lost or being deleted")
    if "ReadWriteOncePod" in claim.spec.access_modes:
        raise _UndecidableError(f"{what} is ReadWriteOncePod: no other pod may use it at the time")
    if claim.spec.volume_name:
        return _bound(claim, what, known)
    if _CHOSEN_NODE in claim.metadata.annotations:
        raise _UndecidableError(f"{what} is about to get its volume for one node")
    if count > 1:
        raise _UndecidableError(f"{what} isn't bound yet: its volume goes where the first of the pods does")
    return _provisioned(_class_of(claim, known), known)


def _class_of(claim: PersistentVolumeClaim, known: Volumes) -> str:
    name = claim.metadata.annotations.get(_OLD_CLASS, claim.spec.storage_class_name)
    return _default(known) if name is None else name


def _default(known: Volumes) -> str:
    """The class that admission gives to a claim that names none; of several defaults it is the newest."""
    marked = [each.metadata for each in known.classes.values() if each.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
    newest = max(marked, key=lambda meta: (meta.creation_timestamp or "", meta.name), default=None)
    return newest.name if newest else ""


def _bound(claim: PersistentVolumeClaim, what: str, known: Volumes) -> Iterator[Reach]:
    """A claim that names a volume is no more than promised to it until the binding is completed."""
    volume = known.volumes.get(claim.spec.volume_name)
    if volume is None:
        raise _UndecidableError(f"PersistentVolume {claim.spec.volume_name} of {what} isn't known here")
    if _BOUND not in claim.metadata.annotations:
        raise _UndecidableError(f"{what} isn't bound to its volume yet")
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


def _provisioned(name: str, known: Volumes) -> Iterator[Reach]:
    """Where a volume of the class can be made for the first pod that needs it."""
    found = known.classes.get(name)
    what = f"StorageClass {name}"
    if found is None:
        raise _UndecidableError(f"{what} isn't known here" if name else "its claim has no storage class")
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
