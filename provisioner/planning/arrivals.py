"""Pods and machines that live bookings still wait for: they count for what other pods may do as if they were there."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from capacity.model import HOSTNAME, ZONE, Bystander, Labels, Running
from kube import ours
from kube.pools import POOL_LABEL
from provisioner.view import GOING, View

_JOINED = frozenset({"Joined", "Ready"})

Slots = Mapping[str, int]
"""Pods of each pod set that a node is to hold at most, by name."""


@dataclass(frozen=True)
class Plan:
    """What is to come for a live booking: `nodes` maps those there to their slots, `missing` lists the machines that are not."""

    booking: ours.Booking
    nodes: Mapping[str, Slots]
    missing: tuple[ours.BookedPurchase, ...] = ()
    pods: Mapping[str, Running] = field(default_factory=dict)

    def at(self, slots: Slots, there: Counter[str]) -> tuple[Running, ...]:
        """The pods still to come on a node of which pods with the node selector keys `there` run. Which slots of a plan with more
        slots than pods stay empty isn't known, so all count.
        """
        here = {each.name: _running(each, there) for each in self.booking.spec.pod_sets}
        return tuple(pod for name, pod in self.pods.items() for _ in range(max(0, slots.get(name, 0) - here.get(name, 0))))


def plans(view: View, there: Callable[[str], Counter[str]]) -> Mapping[str, Plan]:
    """Booking -> what is to come for it. `there` gives the node selector keys of the pods on a node and how many bear each."""
    return {booking.metadata.name: _plan(view, booking, there) for booking in view.live if booking.status.phase not in GOING}


def machines(view: View, coming: Mapping[str, Plan]) -> Iterator[Bystander]:
    """The machines that aren't there yet, with what their offering promises of them."""
    for name, plan in coming.items():
        for number, purchase in enumerate(plan.missing):
            unnamed = {HOSTNAME: f"<{name}/{number}>"}  # no valid label value: a host of its own
            labels = {**_shape_labels(view, purchase), ZONE: purchase.zone, **purchase.domain, **unnamed}
            yield Bystander(f"<{name}/{number}>", labels, plan.at(purchase.pods, Counter()))


def _plan(view: View, booking: ours.Booking, there: Callable[[str], Counter[str]]) -> Plan:
    purchases = {purchase.name: purchase for purchase in booking.spec.purchases}
    joined = [machine for machine in booking.status.instances if machine.state in _JOINED and machine.purchase in purchases]
    nodes = {node.name: node.pods for node in booking.spec.nodes}
    nodes |= {machine.node: purchases[machine.purchase].pods for machine in joined}
    counts = Counter(machine.purchase for machine in joined)
    missing = tuple(each for each in purchases.values() for _ in range(each.count - counts[each.name]))
    return Plan(booking, nodes, missing, _pods(view, booking, nodes, there))


def _pods(
    view: View, booking: ours.Booking, nodes: Mapping[str, Slots], there: Callable[[str], Counter[str]]
) -> Mapping[str, Running]:
    """One pod of each pod set of which not all run that are not over."""
    running: Counter[str] = Counter()
    for node in nodes:
        running.update(there(node))
    left = view.left_of(booking)
    short = {each.name for each in booking.spec.pod_sets if _running(each, running) < left[each.name]}
    return {name: pod for name, pod in view.pods_of(booking).items() if name in short} if short else {}


def _running(pod_set: ours.BookedPodSet, there: Counter[str]) -> int:
    """Pods of the pod set among those with these selector keys: one that selects several keys is still one pod."""
    return max(there[key] for key in pod_set.keys)


def _shape_labels(view: View, purchase: ours.BookedPurchase) -> Labels:
    known = view.known.get(purchase.pool)
    shapes = known.inventory.shapes if known else ()
    found = next((each.shape.labels for each in shapes if each.shape.name == purchase.shape), {})
    return {**found, **purchase.labels, POOL_LABEL: purchase.pool}
