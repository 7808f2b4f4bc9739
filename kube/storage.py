"""Volumes and who provides them (core/v1, storage.k8s.io/v1), reduced to what the scheduler filters nodes by."""

from typing import Any

from msgspec import UNSET, UnsetType

from kube.meta import ObjectKey, ObjectMeta, Record
from kube.selectors import VolumeNodeAffinity


class ClaimSource(Record, frozen=True, kw_only=True):
    claim_name: str = ""


class ClaimSpec(Record, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimTemplate(Record, frozen=True, kw_only=True):
    spec: ClaimSpec = ClaimSpec()


class EphemeralSource(Record, frozen=True, kw_only=True):
    """Each pod gets a claim of its own from the template."""

    volume_claim_template: ClaimTemplate | None = None


class ClaimStatus(Record, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolumeClaim(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class CSISource(Record, frozen=True, kw_only=True):
    driver: str = ""


class VolumeSpec(Record, frozen=True, kw_only=True):
    """The sources that were moved to CSI drivers are kept raw, for only their presence matters. UNSET when absent."""

    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    claim_ref: ObjectKey | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: Any | UnsetType = UNSET
    gce_persistent_disk: Any | UnsetType = UNSET
    azure_disk: Any | UnsetType = UNSET
    cinder: Any | UnsetType = UNSET
    portworx_volume: Any | UnsetType = UNSET


class PersistentVolume(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: VolumeSpec = VolumeSpec()


class TopologyRequirement(Record, frozen=True, kw_only=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Record, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class CSIDriverSpec(Record, frozen=True, kw_only=True):
    storage_capacity: bool = False


class CSIDriver(Record, frozen=True, kw_only=True):
    """The scheduler minds the free space of drivers with `storage_capacity`."""

    metadata: ObjectMeta
    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeLimit(Record, frozen=True, kw_only=True):
    count: int | None = None


class NodeDriver(Record, frozen=True, kw_only=True):
    name: str = ""
    allocatable: VolumeLimit | None = None


class CSINodeSpec(Record, frozen=True, kw_only=True):
    """The API server sends null for a node without drivers."""

    drivers: tuple[NodeDriver, ...] | None = None


class CSINode(Record, frozen=True, kw_only=True):
    """What the CSI drivers of the node of the same name say; `count` is how many volumes of a driver it takes."""

    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()
