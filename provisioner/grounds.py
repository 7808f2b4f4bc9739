"""The planner's nodes from one pass to the next: what did not change is not made again, and the index of nodes is kept up."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from capacity.fleet import Fleet, Stock
from capacity.model import Bystander, Labels, Node
from kube import core
from kube.nodes import bystander
from kube.nodes import node as plan_node
from provisioner.marks import booking_of

_NOTHING: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made of a node and the pods on it; `made` is None where an amount can't be read."""

    view: core.Node
    pods: tuple[core.Pod, ...]
    pool: str
    made: Node | None


class Grounds:
    """Each answer holds for as long as neither the node nor its pods changed. Call `on` first in each pass."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Made] = {}
        self._beside: dict[str, tuple[core.Node, tuple[core.Pod, ...], Bystander]] = {}
        self._selected: dict[str, tuple[tuple[core.Pod, ...], Counter[str]]] = {}
        self._last: tuple[Bystander, ...] = ()
        self._namespaces: Mapping[str, Labels] = {}
        self._placed: dict[str, Node] = {}
        self._fleet = Fleet()

    def on(self, namespaces: Mapping[str, Labels]) -> None:
        """The labels of the namespaces by name; anti-affinity of running pods may look at them."""
        if namespaces != self._namespaces:
            self._namespaces = namespaces
            self._nodes.clear()
            self._beside.clear()

    def get(self, view: core.Node, pods: Iterable[core.Pod], pool: str) -> Node | None:
        """None for a node whose amounts can't be read."""
        name, there = view.metadata.name, tuple(pods)
        old = self._nodes.get(name)
        if old is None or old.view is not view or old.pool != pool or not _same(old.pods, there):
            old = self._nodes[name] = _Made(view, there, pool, self._made(view, there, pool))
        return old.made

    def _made(self, view: core.Node, pods: tuple[core.Pod, ...], pool: str) -> Node | None:
        try:
            return plan_node(view, pods, pool=pool, namespaces=self._namespaces)
        except ValueError:
            return None

    def selected(self, name: str, pods: Iterable[core.Pod]) -> Counter[str]:
        """How many of the pods on a node select it by each key of a booking's labels."""
        there = tuple(pods)
        old = self._selected.get(name)
        if old is None or not _same(old[0], there):
            keys = Counter(key for pod in there for key in pod.spec.node_selector if booking_of(key))
            old = self._selected[name] = (there, keys or _NOTHING)
        return old[1]

    def beside(self, view: core.Node, pods: Iterable[core.Pod]) -> Bystander:
        name, there = view.metadata.name, tuple(pods)
        old = self._beside.get(name)
        if old is None or old[0] is not view or not _same(old[1], there):
            old = self._beside[name] = (view, there, bystander(view, there, self._namespaces))
        return old[2]

    def bystanders(self, found: tuple[Bystander, ...]) -> tuple[Bystander, ...]:
        """The very same tuple for as long as nothing in it changes: what was worked out of it stays good."""
        if found != self._last:
            self._last = found
            for name in self._beside.keys() - {each.name for each in found}:
                del self._beside[name]
        return self._last

    def stock(self, nodes: Iterable[Node]) -> Stock:
        """The index of exactly these nodes; a node that is equal to what it was before costs nothing."""
        fresh = {}
        for node in nodes:
            old = self._placed.get(node.name)
            fresh[node.name] = old if old == node else node
        for name in self._placed.keys() - fresh.keys():
            self._fleet.remove(name)
            self._nodes.pop(name, None)
            self._selected.pop(name, None)
        for node in fresh.values():
            self._fleet.put(node)
        self._placed = fresh
        return self._fleet.stock()


def _same(old: tuple[core.Pod, ...], new: tuple[core.Pod, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
