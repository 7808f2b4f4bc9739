"""What about a node decides whether any gang may have it, and by which name it is told of, apart from room, labels and taints."""

from capacity.model import Node

Standing = tuple[object, ...]


def standing(node: Node) -> Standing:
    """Equal for nodes between which this makes no difference."""
    held = (node.booked_by, node.ready, node.unschedulable, busy(node))
    return node.pool, node.reservation, node.capacity_type, node.ends, held


def busy(node: Node) -> bool:
    """Whether pods hold devices of it."""
    return any(amount and "/" in name for name, amount in node.requested.items())
