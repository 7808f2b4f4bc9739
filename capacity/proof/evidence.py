"""A plan as kube-scheduler will see it: its nodes, and which pods they let in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from capacity.fit import Host, host, needs, new_host, refusal, slots
from capacity.model import HOSTNAME, Node, Plan, Preferences, Snapshot
from capacity.programme.question import Question, question


@dataclass(frozen=True, slots=True)
class Place:
    """`count` alike nodes of the plan, the roles whose pods are let in, and how many of each may ever be on one. No two places of
    a plan have the same name.
    """

    name: str
    where: Host
    count: int
    node: Node | None
    caps: Mapping[int, int] = field(default_factory=dict)

    def domains(self, key: str) -> list[str]:
        """The domain of each of the nodes; one that is not there yet is a host of its own."""
        if key == HOSTNAME and self.node is None:
            return [f"{self.name}#{number}" for number in range(self.count)]
        return [self.where.labels.get(key, "")] * self.count


def asked_of(plan: Plan, snapshot: Snapshot, preferences: Preferences) -> Question:
    """Interchangeable pod sets are one role where they are let in on the same nodes."""
    marks = {
        one.name: (
            [use.node.name for use in plan.uses if one.name in use.pods],
            [number for number, purchase in enumerate(plan.purchases) if one.name in purchase.pods],
        )
        for one in plan.gang.pod_sets
    }
    return question(plan.gang, snapshot, preferences, lambda one, other: marks[one.name] == marks[other.name])


def places_of(asked: Question, plan: Plan) -> tuple[list[Place], list[str]]:
    """The nodes as kube-scheduler sees them, and where the plan promises more than they hold."""
    found = [_place(asked, use.node.name, host(use.node), 1, use.node, use.pods) for use in plan.uses]
    flaws = []
    for number, purchase in enumerate(plan.purchases):  # several may be of one offering
        where, name = new_host(purchase.offering, asked.snapshot.topology_keys), f"{purchase.offering.name}#{number}"
        found.append(_place(asked, name, where, purchase.count, None, purchase.pods))
    for place, pods in zip(found, [*(use.pods for use in plan.uses), *(one.pods for one in plan.purchases)], strict=True):
        for index, role in enumerate(asked.roles):
            most = max((pods.get(member.name, 0) for member in role.members), default=0)
            if most > place.caps.get(index, 0):
                flaws.append(f"{place.name} has fewer than {most} slots for {role.pod_set.name}")
    return found, flaws


def open_to_all(asked: Question, places: Sequence[Place]) -> list[Place]:
    """The same nodes where one mark lets in the pods of all roles that their filters admit."""
    everyone = range(len(asked.roles))
    return [
        replace(place, caps={index: _cap(asked, index, place.where) for index in everyone if not _refused(asked, index, place)})
        for place in places
    ]


def _refused(asked: Question, index: int, place: Place) -> str:
    pod_set = asked.pod_sets[index]
    return refusal(pod_set, place.where) or asked.neighbours.refusal(index, place.where.labels, place.where.unknown)


def _place(asked: Question, name: str, where: Host, count: int, node: Node | None, pods: Mapping[str, int]) -> Place:
    named = [index for index, role in enumerate(asked.roles) if any(member.name in pods for member in role.members)]
    return Place(name, where, count, node, {index: _cap(asked, index, where) for index in named})


def _cap(asked: Question, index: int, where: Host) -> int:
    pod_set = asked.pod_sets[index]
    most = min(pod_set.count, slots(needs(pod_set), where.free))
    return min(most, 1) if asked.couplings.alone(index, where.labels.keys() | where.unknown) else most
