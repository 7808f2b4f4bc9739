"""What the files tell of a cluster beside its nodes: all that the API server, or the scheduler, looks up for a pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capacity.model import Labels
from corral.files import Object, of_kind
from kube import core, storage
from kube.volumes import NO_VOLUMES, Volumes, gathered


@dataclass(frozen=True, slots=True)
class Known:
    """Names and meaning as in `kube.podspec.pod_set`."""

    runtime_classes: Mapping[str, core.RuntimeClass] = field(default_factory=dict)
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    volumes: Volumes = NO_VOLUMES
    device_resources: frozenset[str] = frozenset()


def known(items: Sequence[Object]) -> Known:
    """Raises InputError naming an object that can't be read."""
    served = (each.spec.extended_resource_name for each in of_kind(items, "DeviceClass", core.DeviceClass))
    return Known(
        runtime_classes={each.metadata.name: each for each in of_kind(items, "RuntimeClass", core.RuntimeClass)},
        namespaces={each.metadata.name: each.metadata.labels for each in of_kind(items, "Namespace", core.Namespace)},
        volumes=gathered(
            of_kind(items, "PersistentVolumeClaim", storage.PersistentVolumeClaim),
            of_kind(items, "PersistentVolume", storage.PersistentVolume),
            of_kind(items, "StorageClass", storage.StorageClass),
            of_kind(items, "CSIDriver", storage.CSIDriver),
            of_kind(items, "CSINode", storage.CSINode),
        ),
        device_resources=frozenset(filter(None, served)),
    )
