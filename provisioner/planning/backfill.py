"""Whether a gang may pass one that is ahead of it: only if it is surely over by the time at which that one can begin. Pure.

As EASY backfilling has it (Lifka, "The ANL/IBM SP Scheduling System", 1995): the head alone gets such a time, from the latest
ends of what runs. Each gang that passes is over by then, so no number of them puts it off.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

from capacity.model import Snapshot
from capacity.why import loosen
from capacity.why.loosen import Question
from provisioner.asking.parameters import Terms

MOST_INSTANTS = 16
"""Instants at which a head is tried, for each takes a plan. One that has to wait for longer is passed by nobody."""


def latest_end(terms: Terms, now: int) -> int | None:
    """When a gang booked now is over at the latest, in epoch seconds; None when its run time is unknown.

    It may take until its timeouts to get its machines, and then its first pod.
    """
    return None if terms.run_duration is None else now + terms.provision + terms.booking + terms.run_duration


def latest_start(question: Question, fits: Callable[[Question], bool]) -> int | None:
    """When the gang of the question can begin at the latest, in epoch seconds; None when nobody can tell."""
    return next((instant for instant in _instants(question[1]) if fits(_at(question, instant))), None)


def _instants(snapshot: Snapshot) -> Iterator[int]:
    """When something ends or starts, soonest first. What should be over already may go on for any time."""
    ends = (holder.ends for holder in snapshot.holders.values())
    starts = (offering.starts for offering in snapshot.offerings)
    later = sorted({each for each in (*ends, *starts) if each is not None and each > snapshot.now})
    yield from later[:MOST_INSTANTS]


def _at(question: Question, instant: int) -> Question:
    """With all over that ends by then."""
    snapshot = question[1]
    over = [name for name, holder in snapshot.holders.items() if holder.ends and snapshot.now < holder.ends <= instant]
    gang, emptier, preferences = reduce(loosen.without, over, question)
    return gang, replace(emptier, now=instant, stock=None), preferences
