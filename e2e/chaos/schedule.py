"""What a run plays, from its seed alone: gangs with their fates, and faults. Pure."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["job", "group"]
Queue = Literal["reserved", "on-demand", "any", "hopeless"]
Fate = Literal["runs", "impossible", "cancelled", "namespace", "request", "machine"]
ABLE: frozenset[Fate] = frozenset({"runs", "request", "machine"})
"""Fates of gangs that must finish: one may lose its request or a machine while it runs."""

MOST: Mapping[Queue, int] = {"reserved": 4, "on-demand": 5, "any": 6, "hopeless": 6}
"""Nodes that a gang of the queue may want; `any` has a reservation of four and must buy the remainder."""
FATES: Mapping[Fate, int] = {"runs": 60, "impossible": 8, "cancelled": 12, "namespace": 4, "request": 8, "machine": 8}
_JOBS: frozenset[Fate] = frozenset({"machine", "namespace"})
"""Fates of Jobs alone. Nobody makes a lost pod of a group anew; and the namespace of a group that runs can't go: Kubernetes 1.36
deletes pods first and all else once they are gone, Kueue 0.17.0 lets a deleted pod of a group go when its Workload is.
"""
SERVICES: Mapping[str, float] = {
    "kill": 4,
    "freeze": 24,
    "cut-api": 12,
    "stall-api": 12,
    "slow-api": 15,
    "cut-cloud": 12,
    "stall-cloud": 12,
    "slow-cloud": 15,
    "clock": 20,
    "etcd": 1,
    "apiserver": 1,
    "cloud": 1,
    "restore": 20,
}
"""Faults of processes and connections, and how many seconds each lasts; a restore, how old its snapshot is."""
APART: Mapping[str, float] = {"restore": 600}
"""Seconds at least from one strike of the kind to the next."""
WORLD: Mapping[str, float] = {
    "stock-out": 15,
    "reservation-out": 15,
    "late": 10,
    "gpu-missing": 10,
    "never-joins": 10,
    "error": 8,
    "lost-reply": 8,
    "timeout": 8,
    "daemon-set": 15,
    "health-check": 6,
}
"""Faults of clouds, machines and cluster, likewise."""


@dataclass(frozen=True, slots=True)
class Gang:
    """`at` and `seconds` (of running) count in seconds; `after` is how long after its begin a gang is cancelled."""

    name: str
    at: float
    kind: Kind
    nodes: int
    seconds: int
    queue: Queue
    fate: Fate
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that begins at `at` and lasts `seconds`. `luck` (0 to 1) chooses whom it strikes and how."""

    at: float
    kind: str
    seconds: float
    luck: float


def gangs(seed: int, length: float) -> list[Gang]:
    """One every 6 to 12 s for `length` seconds."""
    dice, at, found = random.Random(f"gangs {seed}"), 0.0, list[Gang]()
    while at < length:
        found.append(_gang(dice, len(found), at))
        at += dice.uniform(6, 12)
    return found


def _gang(dice: random.Random, number: int, at: float) -> Gang:
    [fate] = dice.choices([*FATES], [*FATES.values()])
    queue: Queue = "hopeless" if fate == "impossible" else dice.choice(("reserved", "on-demand", "on-demand", "any", "any"))
    nodes = MOST[queue] if fate == "impossible" else dice.randint(1, MOST[queue])
    seconds = dice.choice((5, 8, 12, 45)) if fate not in ("request", "machine") else 45
    kind: Kind = dice.choice(("job", "job", "group")) if fate not in _JOBS else "job"
    return Gang(f"g{number:03}", round(at, 1), kind, nodes, seconds, queue, fate, round(dice.uniform(1, 25), 1))


def neighbours(seed: int, length: float) -> list[Gang]:
    """Those of another installation: small ones that run, one every 25 to 45 s."""
    dice, at, found = random.Random(f"neighbours {seed}"), 5.0, list[Gang]()
    while at < length:
        kind: Kind = dice.choice(("job", "group"))
        queue: Queue = dice.choice(("reserved", "on-demand", "on-demand", "any", "any"))
        found.append(Gang(f"n{len(found):03}", round(at, 1), kind, dice.randint(1, 2), dice.choice((8, 45)), queue, "runs"))
        at += dice.uniform(25, 45)
    return found


def strikes(seed: int, length: float, kinds: Mapping[str, float], gap: float) -> list[Strike]:
    """One after the other, `gap` seconds or up to twice as many between two, each kind once before any comes again, unless that
    would be too soon for it.
    """
    dice, at, found, last = random.Random(f"strikes {seed} {sorted(kinds)}"), gap, list[Strike](), dict[str, float]()
    for kind in _dealt(dice, [*kinds]):
        if at + kinds[kind] > length:
            return found
        if kind in last and at - last[kind] < APART.get(kind, 0):
            continue
        last[kind] = at
        found.append(Strike(round(at, 1), kind, kinds[kind], dice.random()))
        at += kinds[kind] + dice.uniform(gap, 2 * gap)
    raise AssertionError("the deck is never empty")


def _dealt(dice: random.Random, deck: list[str]) -> Iterator[str]:
    while True:
        dice.shuffle(deck)
        yield from deck
