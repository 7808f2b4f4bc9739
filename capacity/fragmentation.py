"""Which of alike nodes to take so that the least is lost to the pods that are usual here.

The measure is that of fragmentation gradient descent: how much of what is free on a node a pod drawn from the usual ones could
use (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC
2023). A gang takes a node whole, so all that others could have used of it is fragmented then; what they could not, already was.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from capacity.model import Node, Resources

Size = tuple[tuple[str, int], ...]  # resource and amount, sorted
Usual = tuple[tuple[int, Size], ...]  # how frequent pods of a size are, coarsely, and the size

MOST_SIZES = 8
_SHARES = 16
_TIES = 1 << 20


def sizes(node: Node) -> Iterable[Size]:
    """The sizes of the pods on a node, as far as they are known; zero requests are left out."""
    return [
        tuple(sorted((name, amount) for name, amount in pod.requests.items() if amount > 0)) for pod in node.pods if pod.requests
    ]


def usual(counts: Counter[Size]) -> Usual:
    """The most frequent sizes; where some pods ask for devices, of these alone: the others are mostly daemons.

    Frequencies are powers of two in sixteenths of the whole, so that they don't change with every pod.
    """
    some = {size: count for size, count in counts.items() if count > 0 and size}
    devices = {size: count for size, count in some.items() if any("/" in name for name, _ in size)}
    chosen = devices or some
    whole = sum(chosen.values())
    shares = [((count * _SHARES // whole).bit_length(), size) for size, count in chosen.items()]
    return tuple(sorted((one for one in shares if one[0]), key=lambda one: (-one[0], one[1]))[:MOST_SIZES])


def spare(pods: Usual, node: Node) -> int:
    """The lower, the sooner a node is taken: by what the usual pods could use of it, then by what is free at all; both in
    thousandths of each resource, added up.
    """
    free = {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}
    ties = sum([amount * 1000 // whole for amount, whole in zip(free.values(), node.allocatable.values(), strict=True) if whole])
    return lost(pods, free, node.allocatable) * _TIES + max(-_TIES // 2, min(_TIES // 2 - 1, ties))


def lost(pods: Usual, free: Mapping[str, int], whole: Resources) -> int:
    """What the usual pods could use of what is free, weighed by how frequent they are."""
    total = 0
    for weight, size in pods:
        slots = max(0, min(free.get(name, 0) // amount for name, amount in size))
        total += weight * sum(_share(slots * amount, whole[name]) for name, amount in size if slots)
    return total


def _share(amount: int, whole: int) -> int:
    return amount * 1000 // whole if whole else 0
