"""Drains, the pure part: which nodes are closed and emptied, because their machines end or are no use.

Who is asked to leave goes by the eviction API, so that PodDisruptionBudgets hold; nobody is forced, and a machine that is ours to
end waits for its last pod.
"""

import math
from collections.abc import Iterable

from provisioner.ending.notices import Notice
from provisioner.steps import Drain, SeenNode, View


def first(view: View) -> Drain | None:
    """The drain to begin with: of nodes that are about to end and have not been asked anything so far."""
    fresh = [name for name in _announced(view) if not view.seen.nodes[name].draining]
    return Drain(tuple(fresh), everyone=True) if fresh else None


def due(view: View) -> Drain | None:
    """The drain to go on with, None when no node is to be emptied or all are empty and closed."""
    announced = _announced(view)
    if announced:
        return Drain(tuple(announced), everyone=True)
    strangers = sorted(node.name for node in _ending(view) if node.busy and not _used(view, node))
    return Drain(tuple(strangers), everyone=False) if strangers else None


def called_off(view: View) -> tuple[str, ...]:
    """Nodes that were closed for a drain whose machine stays after all, for certain: one that a list lacks may end all the same.
    Never a quarantined one, nor one of a machine to go.
    """
    going = {node.name for node in _ending(view)}
    nodes = (node for node in view.seen.nodes.values() if node.draining and node.closed and not node.quarantined)
    return tuple(sorted(node.name for node in nodes if node.staying and node.name not in going))


def words(view: View) -> str:
    """What takes nodes of the booking away, and from when on they are emptied; "" if nothing does."""
    return "; ".join(f"node {name}: {notice.words}" for name, notice in _told(view))


def reason(view: View) -> str:
    """One word for the first of them."""
    return next((notice.reason for _, notice in _told(view)), "")


def begun(view: View) -> list[str]:
    """The nodes whose drain has begun."""
    return [name for name, notice in _told(view) if notice.begun(view.now)]


def wait(view: View) -> float:
    """Seconds until the next drain begins; infinite if none is announced."""
    moments = [node.notice.drain for node in view.seen.nodes.values() if node.touched and node.notice]
    return min(((each - view.now).total_seconds() for each in moments if each > view.now), default=math.inf)


def _told(view: View) -> list[tuple[str, Notice]]:
    """By name. Of nodes that were given up, and that no pod of the gang is on, nothing is told: they are taken from nobody."""
    former = {each.name for each in view.spec.former if not view.seen.consumers.get(each.name)}
    nodes = (node for name, node in sorted(view.seen.nodes.items()) if name not in former and node.touched)
    return [(node.name, node.notice) for node in nodes if node.notice]


def _noticed(view: View) -> Iterable[SeenNode]:
    return (node for node in view.seen.nodes.values() if node.touched and node.notice and node.notice.begun(view.now))


def _announced(view: View) -> list[str]:
    return sorted(node.name for node in _noticed(view) if not node.closed or node.busy or _used(view, node))


def _ending(view: View) -> Iterable[SeenNode]:
    """Nodes of machines that are to go."""
    return (node for each in view.status.instances if each.state == "Terminating" and (node := view.node_of(each)))


def _used(view: View, node: SeenNode) -> bool:
    return view.seen.consumers.get(node.name, 0) > 0
