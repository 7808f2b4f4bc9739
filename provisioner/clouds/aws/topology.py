"""Network nodes as topology labels. Pure.

EC2 lists the nodes of its network from the top down, the last being the one nearest to the instance, in names that are hashed for
each account. The AWS cloud provider of Kubernetes labels nodes with them (topology.k8s.aws/network-node-layer-N).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from capacity.model import Labels

LAYER = "topology.k8s.aws/network-node-layer-"
LAYERS = 3
ULTRASERVER = "topology.corral.dev/ultraserver"
"""Its value is the id of a Capacity Block that is an UltraServer, one NVLink domain. Corral's own: nodes register with it."""


def labels(nodes: Sequence[str]) -> dict[str, str]:
    """`("nn-1", "nn-2")` -> layer 1 and 2; layers that aren't told have no label."""
    return {f"{LAYER}{number}": name for number, name in enumerate(nodes[:LAYERS], 1)}


def path(labels: Labels) -> str:
    """The network nodes among the labels, from the top down: "nn-1/nn-2"."""
    return "/".join(labels[key] for number in range(1, LAYERS + 1) if (key := f"{LAYER}{number}") in labels)


def of_item(answer: Mapping[str, Any]) -> dict[str, str]:
    """From an item of DescribeInstanceTopology or DescribeCapacityReservationTopology."""
    return labels(answer.get("NetworkNodes") or ())


def elsewhere(found: Labels, wanted: Labels) -> str:
    """Where a machine stands that should stand in `wanted`, "" if it does as far as is known."""
    wrong = [key for key, name in wanted.items() if key.startswith(LAYER) and found.get(key, name) != name]
    return ", ".join(f"{key.removeprefix('topology.k8s.aws/')} {found[key]} instead of {wanted[key]}" for key in wrong)
