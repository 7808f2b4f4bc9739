"""Which faults are played: each at every call, then pairs and triples by seed; and what a failure comes down to."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from tests.faults.kinds import Fault, kinds
from tests.faults.scenes import SCENES
from tests.faults.stage import Outcome, play

MOVING = ("nodes", "pods", "provisioningrequests", "workloads", "bookings", "capacitypools")
"""Kinds whose objects change in the scenes."""
Play = tuple[str, tuple[Fault, ...]]
"""A scene and its faults."""


@cache
def calm(scene: str) -> Mapping[str, int]:
    """How often each call is made when nothing goes wrong."""
    return play(scene).counts


def singles(scene: str, most: int | None = None, only: str = "") -> Iterator[Play]:
    """No fault, then every fault at every call whose name begins with `only`; with `most` at so many of the calls of a name, the
    first and the last among them."""
    yield scene, ()
    for call, count in sorted(calm(scene).items()):
        for nth in _some(count, most) if call.startswith(only) else ():
            for kind in kinds(call):
                yield scene, (Fault(call, nth, kind),)


def moving(scene: str) -> Mapping[str, int]:
    """The same without the watches on which nothing comes."""
    return {call: n for call, n in calm(scene).items() if not call.startswith("api watch") or call.split()[-1] in MOVING}


def _some(count: int, most: int | None) -> Sequence[int]:
    if most is None or count <= most:
        return range(1, count + 1)
    step = (count - 1) / (most - 1) if most > 1 else 1
    return sorted({1 + round(step * at) for at in range(most)})


def combinations(number: int, seed: int) -> Iterator[Play]:
    """So many pairs and triples, of which at least one fault strikes. Rare calls are struck as often as frequent ones."""
    rng = random.Random(seed)
    scenes = sorted(SCENES)
    for _ in range(number):
        scene = rng.choice(scenes)
        yield scene, tuple(sorted(_fault(scene, rng, surely=at == 0) for at in range(rng.choice((2, 2, 3)))))


def _fault(scene: str, rng: random.Random, *, surely: bool) -> Fault:
    """Unless it is to strike `surely`, also at calls that come only because of another fault: half as many again."""
    counts = moving(scene)
    call = rng.choice(sorted(counts))
    most = counts[call] if surely else counts[call] + 1 + counts[call] // 2
    return Fault(call, rng.randint(1, most), rng.choice(kinds(call)))


def shrunk(outcome: Outcome) -> Outcome:
    """The same failure with as few faults as will do."""
    for fault in outcome.faults:
        fewer = play(outcome.scene, [each for each in outcome.faults if each != fault])
        if fewer.broken:
            return shrunk(fewer)
    return outcome
