"""Which levels must hold for which pod set, and in what order to give up preferred ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from capacity.model import HOSTNAME, Labels, PodSet, Preferences
from capacity.programme.couplings import Bind

Keys = tuple[str, ...]
Wish = tuple[str, str]  # topology key, topology group


@dataclass(frozen=True, slots=True)
class Levels:
    """One way to read the gang's wishes: which pod sets, by index, must share a domain, and how many preferred levels that
    breaks.
    """

    binds: tuple[Bind, ...]
    broken: int


def required_key(pod_set: PodSet, preferences: Preferences) -> str | None:
    """The policy's level holds for pod sets that name none of their own."""
    return pod_set.required_topology or preferences.required_topology


def ways(pod_sets: Sequence[PodSet], topology_keys: Keys, preferences: Preferences) -> Iterator[Levels]:
    """All ways to meet the required levels, from every preferred level kept to none; ties in a fixed order.

    Each preferred key is given up a level at a time, towards the widest, as Kueue's preferred topology request does. Pod sets
    that name the same preferred key in the same topology group keep or break it together.
    """
    wishes = [_wish(pod_set.preferred_topology, pod_set, preferences.preferred_topology) for pod_set in pod_sets]
    needs = [_wish(pod_set.required_topology, pod_set, preferences.required_topology) for pod_set in pod_sets]
    preferred = sorted({wish for wish in wishes if wish})
    ladders = [_ladder(key, topology_keys) for key, _ in preferred]
    choices = sorted(product(*(range(len(ladder)) for ladder in ladders)), key=lambda steps: (sum(steps), steps))
    for steps in choices:
        kept = {wish: ladder[step] for wish, ladder, step in zip(preferred, ladders, steps, strict=True)}
        bound: dict[Wish, set[int]] = {}
        for index, (need, wish) in enumerate(zip(needs, wishes, strict=True)):
            level = kept[wish] if wish else None
            for one in {need, (level, wish[1]) if wish and level else None} - {None}:
                bound.setdefault(one, set()).add(index)  # type: ignore[arg-type]  # None is taken out above
        yield Levels(tuple(Bind(key, frozenset(bound[key, group])) for key, group in sorted(bound)), sum(steps))


def _wish(own: str | None, pod_set: PodSet, policy: str | None) -> Wish | None:
    """A level that the policy sets holds for all pod sets together."""
    if own:
        return own, pod_set.topology_group
    return (policy, "") if policy else None


def wider(key: str, topology_keys: Keys) -> str | None:
    """The next level above `key`, None above the widest or for a key that is no level here."""
    levels = (*topology_keys, HOSTNAME)
    place = levels.index(key) if key in levels else 0
    return levels[place - 1] if place else None


def path(labels: Labels, topology_keys: Keys) -> tuple[str, ...]:
    """Where something stands in the tree, "" where a level is not known."""
    return tuple(labels.get(key, "") for key in topology_keys)


def _ladder(key: str, topology_keys: Keys) -> list[str | None]:
    ladder: list[str | None] = []
    level: str | None = key
    while level is not None:
        ladder.append(level)
        level = wider(level, topology_keys)
    return [*ladder, None]
