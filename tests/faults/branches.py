"""Runs that begin alike are played once up to where they part: there the process forks, and each copy plays its own end.

A run is the same as one played from its start, for a fault changes nothing before it strikes.
"""

import asyncio
import os
import pickle
import random
import signal
from collections.abc import Iterable, Iterator

from tests.faults.kinds import Fault, Script
from tests.faults.stage import Outcome, play

Faults = tuple[Fault, ...]
LONGEST = 120.0
"""Seconds of CPU time that a run may take: one that hangs without letting virtual time pass is ended."""


class Branches:
    """Strikes the first call at which one of the plays has a fault. `number` is that of the play, in a copy that plays it."""

    def __init__(self, plays: list[Faults]) -> None:
        self.plays, self.ended = plays, dict[int, Outcome]()
        self.number: int | None = None
        self._pipe = -1
        self._at: dict[tuple[str, int], list[int]] = {}
        for number, faults in enumerate(plays):
            for each in faults:
                self._at.setdefault((each.call, each.nth), []).append(number)

    def part(self, script: Script, call: str, nth: int) -> None:
        """Before each call. Returns in each copy, and at last in the process that plays on without a fault."""
        for number in self._at.pop((call, nth), ()) if self.number is None else ():
            if number not in self.ended and self._copied(number):
                script.take(self.plays[number])
                return

    def _copied(self, number: int) -> bool:
        """True in the copy; in the other process what the copy found is kept."""
        reading, writing = os.pipe()
        loop, dice = asyncio.get_running_loop(), random.getstate()
        child = os.fork()
        if child == 0:
            os.close(reading)
            random.setstate(dice)  # Python seeds it anew in each copy, from which no play could be played again
            asyncio._set_running_loop(loop)  # asyncio takes a loop for running in the process alone that has begun it
            self.number, self._pipe = number, writing
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        self.ended[number] = pickle.loads(told) if told else Outcome("", self.plays[number], [f"the run died: {status}"])
        return False

    def leave(self, outcome: Outcome) -> None:
        """Ends a copy."""
        with os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(pickle.dumps(outcome))
        os._exit(0)


def walk(scene: str, plays: Iterable[Faults]) -> Iterator[Outcome]:
    """The outcomes of these plays of one scene, in their order. A play whose faults are never reached ends as the calm one."""
    branches = Branches(list(plays))
    try:
        calm = play(scene, script=Script(part=branches.part))
    except BaseException as error:
        if branches.number is None:
            raise
        calm = Outcome(scene, branches.plays[branches.number], [f"the run broke off: {error!r}"])
    if branches.number is not None:
        branches.leave(calm)
    for number, faults in enumerate(branches.plays):
        found = branches.ended.get(number, calm)
        yield Outcome(scene, faults, found.broken, found.counts, found.struck, found.seconds)
