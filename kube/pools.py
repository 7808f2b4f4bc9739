"""Which nodes belong to a pool."""

from capacity.model import Labels
from kube.ours import CapacityPool

POOL_LABEL = "corral.dev/pool"
"""Names the pool that a node was launched for."""


def selects(pool: CapacityPool, labels: Labels) -> bool:
    """Whether a node with these labels was launched for the pool or bears what its `nodeSelector` asks for, if anything."""
    if labels.get(POOL_LABEL) == pool.metadata.name:
        return True
    wanted = pool.spec.node_selector.match_labels if pool.spec.node_selector else {}
    return bool(wanted) and wanted.items() <= labels.items()


def launched_labels(pool: CapacityPool) -> Labels:
    """What each node that is launched for the pool bears, besides the labels of its shape and place."""
    return {**pool.spec.node_labels, POOL_LABEL: pool.metadata.name}
