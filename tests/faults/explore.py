"""Which faults are played: each at every call, then pairs and triples by seed; and what a failure comes down to."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """So many pairs and triples. Rare calls are struck as often as frequent ones."""
    rng = random.Random(seed)
    scenes = sorted(SCENES)
    for _ in range(number):
        scene = rng.choice(scenes)
        yield scene, tuple(sorted(_fault(scene, rng) for _ in range(rng.choice((2, 2, 3)))))


def _fault(scene: str, rng: random.Random) -> Fault:
    """Also at calls that come only because of another fault: half as many again, and calls that a calm run doesn't make."""
    counts = moving(scene)
    call = rng.choice(sorted(counts))
    return Fault(call, rng.randint(1, counts[call] + 1 + counts[call] // 2), rng.choice(kinds(call)))


def shrunk(outcome: Outcome) -> Outcome:
    """The same failure with as few faults as will do."""
    for fault in outcome.faults:
        fewer = play(outcome.scene, [each for each in outcome.faults if each != fault])
        if fewer.broken:
            return shrunk(fewer)
    return outcome


def summary(outcomes: Iterable[Outcome]) -> str:
    """`calls=… faults=… runs=… broken=…`: names of calls that were struck, faults that came to pass, runs, runs that broke."""
    calls, faults, runs, broken = Counter[str](), 0, 0, 0
    for each in outcomes:
        calls.update(fault.call for fault in each.struck)
        faults += len(each.struck)
        runs += 1
        broken += bool(each.broken)
    return f"calls={len(calls)} faults={faults} runs={runs} broken={broken}"
