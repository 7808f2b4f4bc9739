"""Which levels must hold for which pod set, and in what order to give up preferred ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from capacity.model import HOSTNAME, Labels, PodSet, Preferences

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Levels:
    """One way to read the gang's wishes: the label keys that each pod set must not span, and how many preferred levels that
    breaks.
    """

    keys: tuple[Keys, ...]
    broken: int

    def used(self) -> Keys:
        return tuple(sorted({key for one in self.keys for key in one}))


def required_key(pod_set: PodSet, preferences: Preferences) -> str | None:
    """The policy's level holds for pod sets that name none of their own."""
    return pod_set.required_topology or preferences.required_topology


def ways(pod_sets: Sequence[PodSet], topology_keys: Keys, preferences: Preferences) -> Iterator[Levels]:
    """All ways to meet the required levels, from every preferred level kept to none; ties in a fixed order.

    Each preferred key is given up a level at a time, towards the widest, as Kueue's preferred topology request does. Pod sets
    that name the same preferred key keep or break it together.
    """
    wishes = [pod_set.preferred_topology or preferences.preferred_topology for pod_set in pod_sets]
    preferred = sorted({wish for wish in wishes if wish})
    ladders = [_ladder(key, topology_keys) for key in preferred]
    choices = sorted(product(*(range(len(ladder)) for ladder in ladders)), key=lambda steps: (sum(steps), steps))
    for steps in choices:
        kept = {key: ladder[step] for key, ladder, step in zip(preferred, ladders, steps, strict=True)}
        keys = tuple(
            _keys(required_key(pod_set, preferences), kept.get(wish or ""), topology_keys)
            for pod_set, wish in zip(pod_sets, wishes, strict=True)
        )
        yield Levels(keys, sum(steps))


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


def _keys(required: str | None, kept: str | None, topology_keys: Keys) -> Keys:
    """Both levels where they differ, the widest first."""
    order = {key: place for place, key in enumerate((*topology_keys, HOSTNAME))}
    return tuple(sorted({key for key in (required, kept) if key}, key=lambda key: (order.get(key, -1), key)))
