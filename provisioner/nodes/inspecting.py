"""Looks at the nodes of one booking: what is marked, what runs there, and how far each is from what was promised."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from capacity.model import ZONE, Resources
from capacity.quantity import amount
from kube import core, nodes, ours
from provisioner.buying import launches
from provisioner.clouds.base import Instance
from provisioner.ending import notices
from provisioner.ending.disruption import is_stranger
from provisioner.ending.notices import Notice
from provisioner.nodes import checkups, hung, marks, verify
from provisioner.nodes.health import ailment, lost_devices
from provisioner.planning.daemons import ready_on
from provisioner.repairing import transfer
from provisioner.repairing.transfer import Grip
from provisioner.state import BOOKED, QUARANTINED_LABEL, State
from provisioner.steps import SeenNode, Verdict

NODES_BY_PROVIDER = "provider"


class Inspector:
    """Reads the stores alone."""

    def __init__(self, state: State, now: Callable[[], datetime]) -> None:
        self._state, self._now = state, now
        state.nodes.add_index(NODES_BY_PROVIDER, lambda node: [node.spec.provider_id] if node.spec.provider_id else [])

    def nodes(self, booking: ours.Booking, instances: Mapping[str, Instance]) -> dict[str, SeenNode]:
        """By name: those that the booking takes or took, and those of its machines."""
        seen: dict[str, SeenNode] = {}
        for planned in (*booking.spec.nodes, *booking.spec.former):
            node = self._state.nodes.get(("", planned.name))
            if node is not None:
                pool = self._state.pool(planned.pool)
                expected = _with_daemons(verify.Expected(devices={}, room=_room(booking.spec, planned.pods)), pool)
                found = self._seen(booking, node, planned.pods, expected, pool)
                seen[node.metadata.name] = self._from_giver(planned, node, found)
        promised = {each.name: self._promised(booking.spec, each) for each in booking.spec.purchases}
        for provider_id, purchase in _machines(booking, instances):
            for node in self._state.nodes.by(NODES_BY_PROVIDER, provider_id):
                seen[node.metadata.name] = self._seen(booking, node, purchase.pods, *promised[purchase.name])
        return seen

    def _from_giver(self, planned: ours.BookedNode, node: core.Node, seen: SeenNode) -> SeenNode:
        """A node that is taken over: the keys of the former booking are this one's to see to once that has let go."""
        giver = planned.taken_over
        if not giver:
            return seen
        keys = giver in marks.bookings_on(node.metadata.labels)
        others = tuple(each for each in seen.others if each != giver)
        match transfer.grip(self._state.bookings.get(("", giver)), planned):
            case Grip.LOOSE:
                return replace(seen, others=others, touched=seen.touched or keys, marked=seen.marked and not keys)
            case Grip.FIRM:
                return replace(seen, others=others, marked=False, giver=giver)
        return seen

    def _promised(
        self, spec: ours.BookingSpec, purchase: ours.BookedPurchase
    ) -> tuple[verify.Expected, ours.CapacityPool | None]:
        pool = self._state.pool(purchase.pool)
        return _with_daemons(self._expected(spec, purchase), pool), pool

    def _expected(self, spec: ours.BookingSpec, purchase: ours.BookedPurchase) -> verify.Expected:
        """Devices and taints are the shape's, as the pool's status keeps them over restarts."""
        pool = self._state.pool(purchase.pool)
        shape = next((each for each in pool.status.shapes if each.name == purchase.shape), None) if pool else None
        return verify.Expected(
            labels={key: value for key, value in {ZONE: purchase.zone, **purchase.domain, **purchase.labels}.items() if value},
            devices={name: amount(name, text) for name, text in shape.allocatable.items() if "/" in name} if shape else None,
            room=_room(spec, purchase.pods),
            taints=_repelling(shape.taints) if shape else None,
        )

    def _seen(
        self,
        booking: ours.Booking,
        node: core.Node,
        pods: Mapping[str, int],
        expected: verify.Expected,
        pool: ours.CapacityPool | None,
    ) -> SeenNode:
        name, mine = booking.metadata.name, marks.names(booking)
        held = expected.room if booking.status.phase == "Provisioned" else {}
        facts = self._facts(mine, node, pool, held)
        found, words = verify.verdict(expected, facts)
        doubted = booking.status.phase == "Provisioned" and hung.doubted(self._state, node)
        if doubted and found is Verdict.WAITING:
            found, words = Verdict.DOUBTED, "not Ready, and the network is in doubt"
        unchecked = hindered = False
        there = self._state.pods_on(node.metadata.name)
        used = any(mine & marks.bookings_on(pod.spec.node_selector) for pod in there)
        check = pool.spec.readiness.health_check if pool else None
        if found is Verdict.SOUND and pool and check and not used and _new(booking, node.metadata.name):
            found, words, unchecked, hindered = self._checked(name, node.metadata.name, pool, check)
        on_it = marks.bookings_on(node.metadata.labels)
        announced, staying = self._notice(node, pool)
        return SeenNode(
            name=node.metadata.name,
            provider_id=node.spec.provider_id,
            touched=name in on_it,
            marked=marks.marked(node, marks.labels(name, launches.keys(booking.spec, pods))),
            quarantined=QUARANTINED_LABEL in node.metadata.labels,
            others=tuple(sorted(on_it - mine)),
            holds=verify.holds(expected.room, facts),
            busy=any(is_stranger(pod, mine, home=self._state.home) for pod in hung.counting(self._state, there, self._now())),
            launched=marks.launched(node),
            ready=node.ready,
            closed=node.spec.unschedulable,
            verdict=found,
            words=words or ("" if found is Verdict.SOUND else "not as planned"),
            notice=announced,
            staying=staying,
            unchecked=unchecked,
            hindered=hindered,
            bare=verify.bare(expected, facts),
            draining=marks.DRAINING in node.metadata.annotations,
            doubted=doubted,
        )

    def _checked(
        self, booking: str, node: str, pool: ours.CapacityPool, check: ours.HealthCheck
    ) -> tuple[Verdict, str, bool, bool]:
        """What the health check of a node that is sound otherwise makes of it, whether it is still to begin, and whether it is
        kept from that.
        """
        found = self._state.jobs.get((self._state.home, checkups.name(booking, node)))
        if found is None:
            why, due = checkups.hindrance(self._state, pool, check, self._now())
            return Verdict.CHECKING, why or "its health check has not begun", due, bool(why)
        passed, words = checkups.result(found, self._state.home)
        verdict = Verdict.SOUND if passed else Verdict.CHECKING if passed is None else Verdict.SICK
        return verdict, words, False, passed is None and checkups.stuck(found)

    def _notice(self, node: core.Node, pool: ours.CapacityPool | None) -> tuple[Notice | None, bool]:
        """What the pool's cloud said last: all its machines with our tags are listed, whatever booking they were bought for. And
        whether it said that the machine stays.
        """
        known = self._state.known.get(pool.metadata.name) if pool else None
        machine = known.machine(node.spec.provider_id) if known else None
        if known is None or machine is None:
            return None, False
        there = next((each for each in known.inventory.reservations if each.id == machine.reservation), None)
        found = notices.notice(machine, pool, there, self._now())
        return found, found is None and (machine.reservation is None or there is not None)

    def _facts(self, mine: frozenset[str], node: core.Node, pool: ours.CapacityPool | None, held: Resources) -> verify.Facts:
        """`held` is what the node had, certainly, for the planned pods."""
        pods, there = self._state.pods_on(node.metadata.name), nodes.amounts(node.status.allocatable)
        return verify.Facts(
            ready=node.ready,
            labels=node.metadata.labels,
            allocatable=there,
            taken=nodes.requested(pod for pod in pods if not _of_ours(pod, self._state.home, mine)),
            daemon_sets=frozenset(ready_on(pods)),
            unschedulable=node.spec.unschedulable,
            taints=_repelling(node.spec.taints),
            ailment=ailment(node, pool) or lost_devices(held, there),
        )


def _of_ours(pod: core.Pod, home: str, mine: frozenset[str]) -> bool:
    return checkups.is_checkup(pod, home) or bool(mine & marks.bookings_on(pod.spec.node_selector))


def _new(booking: ours.Booking, node: str) -> bool:
    """Whether it was not found sound before: who has passed the check once is not checked again, though it is not Ready for a
    moment. All that was launched before the booking was Provisioned had passed by then. What was given up is checked no more.
    """
    if any(each.name == node for each in (*booking.spec.nodes, *booking.spec.former)):
        return booking.status.phase == "Joining"
    proven = booking.status.provisioned_at or ""
    machines = (each for each in booking.status.instances if each.node == node)
    return not any(each.state == "Ready" or each.launched_at < proven for each in machines)


def _with_daemons(expected: verify.Expected, pool: ours.CapacityPool | None) -> verify.Expected:
    return replace(expected, daemon_sets=pool.spec.readiness.required_daemon_sets if pool else ())


def _machines(booking: ours.Booking, instances: Mapping[str, Instance]) -> Iterable[tuple[str, ours.BookedPurchase]]:
    """The providerID and purchase of each machine of the booking that may have a node."""
    purchases = {each.name: each for each in booking.spec.purchases}
    by_token = {each.token: each.purchase for each in booking.status.launches}
    found = {each.provider_id: each.purchase for each in booking.status.instances if each.state not in ("Gone", "Transferred")}
    left = {each.provider_id for each in booking.status.instances} - set(found)
    for each in instances.values():
        if each.provider_id not in left:
            found.setdefault(each.provider_id, by_token.get(each.token, ""))
    return [(provider_id, purchases[name]) for provider_id, name in found.items() if provider_id and name in purchases]


def _room(spec: ours.BookingSpec, pods: Mapping[str, int]) -> Resources:
    """What the pods planned on one node ask for together."""
    total: Counter[str] = Counter()
    for each in spec.pod_sets:
        for name, number in each.requests.items():
            total[name] += number * pods.get(each.name, 0)
    return {name: number for name, number in total.items() if number}


def _repelling(taints: Iterable[core.Taint]) -> frozenset[tuple[str, str]]:
    """The taints (key, effect) that keep pods off, ours apart: it is told by the marks."""
    return frozenset((each.key, each.effect) for each in taints if each.effect != "PreferNoSchedule" and each.key != BOOKED)
