"""A gang as the planner looks at it: roles instead of pod sets, what ties them to each other, what they are planned against."""

from dataclasses import dataclass

from capacity.couplings import Couplings, Even, couple
from capacity.model import Gang, PodSet, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.roles import Role, roles
from capacity.solver import Pattern


@dataclass(frozen=True, slots=True)
class Question:
    """A gang as the roles of its pods, what ties them to each other, and what it is planned against."""

    gang: Gang
    roles: tuple[Role, ...]
    snapshot: Snapshot
    preferences: Preferences
    neighbours: Neighbours
    couplings: Couplings

    @property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """One for each role, its count that of the whole role."""
        return tuple(role.pod_set for role in self.roles)

    @property
    def demand(self) -> Pattern:
        return tuple(role.pod_set.count for role in self.roles)

    def evens(self) -> tuple[Even, ...]:
        """The spreads whose running pods are counted on the nodes that are taken."""
        return tuple(rule for rule in self.couplings.wide() if isinstance(rule, Even) and rule.elsewhere is None)


def question(gang: Gang, snapshot: Snapshot, preferences: Preferences) -> Question:
    found = roles(gang.pod_sets)
    pod_sets = tuple(role.pod_set for role in found)
    neighbours = Neighbours(snapshot, pod_sets)
    return Question(gang, found, snapshot, preferences, neighbours, couple(pod_sets, neighbours))
