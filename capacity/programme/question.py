"""A gang as the planner looks at it: roles instead of pod sets, what ties them to each other, what they are planned against."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from capacity.model import Gang, PodSet, Preferences, Snapshot
from capacity.neighbours import Neighbours
from capacity.programme.couplings import Couplings, Even, couple
from capacity.programme.roles import Role, Together, one_role, roles
from capacity.programme.solver import Pattern


@dataclass(frozen=True, slots=True)
class Question:
    """A gang as the roles of its pods, what ties them to each other, and what it is planned against."""

    gang: Gang
    roles: tuple[Role, ...]
    snapshot: Snapshot
    preferences: Preferences
    neighbours: Neighbours
    couplings: Couplings
    reserve: Pattern = ()
    memo: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """One for each role, its count that of the whole role."""
        return tuple(role.pod_set for role in self.roles)

    @property
    def demand(self) -> Pattern:
        """Pods of each role to find slots for, the reserve included: slots beyond its pods, against those that others take."""
        counts = tuple(role.pod_set.count for role in self.roles)
        return tuple(map(sum, zip(counts, self.reserve, strict=True))) if self.reserve else counts

    @property
    def untied(self) -> bool:
        """Whether no pod of the gang minds where others are, nor others where it is."""
        return not self.neighbours.keys and self.couplings == Couplings()

    def remembered(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under this name, now or before; nothing of it may depend on the reserve but by name."""
        if name not in self.memo:
            self.memo[name] = make()
        return self.memo[name]

    def evens(self) -> tuple[Even, ...]:
        """The spreads whose running pods are counted on the nodes that are taken."""
        return tuple(rule for rule in self.couplings.wide() if isinstance(rule, Even) and rule.elsewhere is None)


def question(gang: Gang, snapshot: Snapshot, preferences: Preferences, together: Together = one_role) -> Question:
    """`together` tells which of the interchangeable pod sets are planned as one role."""
    found = roles(gang.pod_sets, together)
    pod_sets = tuple(role.pod_set for role in found)
    neighbours = Neighbours(snapshot, pod_sets)
    ties = couple(pod_sets, neighbours)
    if any(one.available > 0 and one.shape.pods and neighbours.minds(one.shape.pods) for one in snapshot.offerings):
        ties.loose.append("rules between pods name pods of DaemonSets that will run on nodes still to be bought")
    return Question(gang, found, snapshot, preferences, neighbours, ties)
