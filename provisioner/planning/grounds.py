"""The planner's nodes from one pass to the next: what did not change is not made again, and the index of nodes is kept up."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from capacity.index.fleet import Fleet, Stock
from capacity.model import Bystander, CapacityType, Labels, Node, Running
from kube import core
from kube.nodes import bystander
from kube.nodes import node as plan_node
from provisioner.clouds.base import Reservation
from provisioner.nodes.marks import booking_of
from provisioner.state import BOOKED

_NOTHING: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made of a node and the pods on it; `made` is None where an amount can't be read."""

    view: core.Node
    pods: tuple[core.Pod, ...]
    pool: str
    made: Node | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a node stands at the moment. `reservation` is its machine's, with when the machine must be empty (epoch seconds);
    `coming` are the pods still to come for its booking.
    """

    holder: str | None
    launched: bool
    going: bool
    reservation: tuple[Reservation, int | None] | None = None
    coming: tuple[Running, ...] = ()


class Grounds:
    """Each answer holds for as long as neither the node nor its pods changed. Call `on` first in each pass."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Made] = {}
        self._beside: dict[str, tuple[core.Node, tuple[core.Pod, ...], Bystander]] = {}
        self._selected: dict[str, tuple[tuple[core.Pod, ...], Counter[str]]] = {}
        self._last: tuple[Bystander, ...] = ()
        self._namespaces: Mapping[str, Labels] = {}
        self._placed: dict[str, tuple[Node, Standing, Node]] = {}
        self._shown: dict[str, Node] = {}
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

    def placed(self, made: Node, standing: Standing) -> Node:
        """The node as it stands."""
        old = self._placed.get(made.name)
        if old is None or old[0] is not made or old[1] != standing:
            old = self._placed[made.name] = (made, standing, _placed(made, standing))
        return old[2]

    def stock(self, nodes: Iterable[Node]) -> Stock:
        """The index of exactly these nodes; one that is what it was before costs nothing."""
        fresh = {node.name: node for node in nodes}
        for name in self._shown.keys() - fresh.keys():
            self._fleet.remove(name)
        for known in (self._nodes, self._selected, self._placed):  # bookings name nodes that are gone, too
            for name in known.keys() - fresh.keys():
                del known[name]
        for name, node in fresh.items():
            if self._shown.get(name) is not node:
                self._fleet.put(node)
        self._shown = fresh
        return self._fleet.stock()


def _placed(node: Node, standing: Standing) -> Node:
    """The node with what the cloud knows of its machine. Keeping one that is there adds nothing to a plan's cost.

    A booked node is shown without our taint, as it will be once its booking is over.
    """
    reservation, end = standing.reservation or (None, None)
    on_demand = CapacityType.ON_DEMAND if standing.launched else None
    return replace(
        node,
        booked_by=standing.holder,
        ready=node.ready and not standing.going,
        taints=tuple(taint for taint in node.taints if taint.key != BOOKED),
        capacity_type=CapacityType(reservation.capacity_type) if reservation else on_demand,
        reservation=reservation.id if reservation else None,
        ends=end,
        pods=(*node.pods, *standing.coming),
    )


def _same(old: tuple[core.Pod, ...], new: tuple[core.Pod, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
