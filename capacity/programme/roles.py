"""Pod sets that differ only in name and count: to the scheduler their pods are interchangeable, so they are planned as one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from capacity.model import PodSet

Together = Callable[[PodSet, PodSet], bool]


@dataclass(frozen=True, slots=True)
class Role:
    """`pod_set` stands for all `members`; its count is that of all of them together."""

    pod_set: PodSet
    members: tuple[PodSet, ...]


def one_role(_one: PodSet, _other: PodSet) -> bool:
    """Interchangeable pods are planned as one."""
    return True


def roles(pod_sets: Sequence[PodSet], together: Together = one_role) -> tuple[Role, ...]:
    """In the order of the first member of each; pod sets without pods are left out, as are from one role those that `together`
    wants apart.
    """
    alike: list[list[PodSet]] = []
    for pod_set in pod_sets:
        if pod_set.count > 0:
            known = next((group for group in alike if _interchangeable(group[0], pod_set) and together(group[0], pod_set)), None)
            if known is None:
                alike.append([pod_set])
            else:
                known.append(pod_set)
    return tuple(Role(replace(group[0], count=sum(one.count for one in group)), tuple(group)) for group in alike)


def _interchangeable(one: PodSet, other: PodSet) -> bool:
    """Slices and units are of one pod set, and Kueue places one pod set after the other."""
    if one.slices or one.exclusive or one.placed_by_kueue:
        return False
    return replace(one, name=other.name, count=other.count) == other
