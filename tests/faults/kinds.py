"""What can go wrong with one call, and which call of a run it strikes."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from provisioner import calls
from provisioner.clouds.base import ErrorKind


class Fault(NamedTuple):
    """Strikes the `nth` (from 1) call of this name in a run: `api get bookings`, `cloud launch`."""

    call: str
    nth: int
    kind: str


CRASHES = ("crash-before", "crash-after")
"""The process dies: nothing of it runs on, and another one starts some seconds later."""
LOST = ("lost-reply", "late-reply", "lost-request", "no-answer", "runs-on", "runs-on-long")
"""lost-reply: done, and the connection breaks. late-reply: done, and the caller's patience ends before the answer. lost-request,
no-answer: the same two, not done. runs-on: the caller gives up on it, and it is done half a minute after that; -long: minutes."""
UNDONE = ("lost-request", "no-answer")
STATUSES = {
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "409": "Conflict",
    "410": "Expired",
    "422": "Invalid",
    "429": "TooManyRequests",
    "500": "InternalError",
}
"""Answers of an API server that did nothing. 401 comes again once the credentials were read anew; 404 is that of a path that
isn't served; 422 is for writes alone."""
DONE_BUT = ("500-done",)
SLOW = ("slow",)
"""Done, and answered seconds later."""
ODD = ("empty",)
"""One list without anything on it, as if all were well; what watches from its version is told a minute later to list again."""
REFUSED = ("401", "403", "422", "500")
STREAMS = ("cut", "410", *REFUSED, "lag", "silent", "bare")
"""Of a watch: cut after the first events, told to list again, refused (422: as where there are no streaming lists), seconds
behind, without a sign of life, and a first list without anything on it, which is put right a minute later."""
ERRORS = tuple(kind.value for kind in ErrorKind)
PARTIAL = ("partial",)
"""A launch that delivers one machine less."""


def kinds(call: str) -> tuple[str, ...]:
    """All that can go wrong with a call of this name."""
    place, _, what = call.partition(" ")
    verb = what.partition(" ")[0]
    if verb == "watch":
        return STREAMS
    if place == "cloud":
        reads = what in ("instances", "inventory")
        more = ODD if reads else PARTIAL if what == "launch" else ()
        return (*CRASHES, *(each for each in LOST if not (reads and each.startswith("runs-on"))), *ERRORS, *SLOW, *more)
    if verb in ("get", "list"):
        refusals = (each for each in STATUSES if each != "422")
        return (*CRASHES, *UNDONE, *refusals, *SLOW, *(ODD if verb == "list" else ()))
    return (*CRASHES, *LOST, *STATUSES, *DONE_BUT, *SLOW)


KNOWN = frozenset({*(f"api {call}" for call in calls.API), *(f"cloud {call}" for call in calls.CLOUD)})


class Script:
    """The faults of one run. `counts` are the calls so far, `struck` the faults that came to pass. `part` is called before each
    call with its name and number, and may have the script take other faults.
    """

    def __init__(self, faults: Iterable[Fault] = (), part: "Callable[[Script, str, int], None] | None" = None) -> None:
        self.counts: Counter[str] = Counter()
        self.struck: list[Fault] = []
        self._part = part
        self.take(faults)

    def take(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        self._kinds = {(each.call, each.nth): each.kind for each in self.faults}

    def strikes(self, call: str) -> str:
        """What befalls this call, "" for nothing. Raises AssertionError for a call that isn't on the list."""
        assert call in KNOWN, f"{call} is not on the list of calls (provisioner/calls.py)"
        self.counts[call] += 1
        if self._part:
            self._part(self, call, self.counts[call])
        kind = self._kinds.get((call, self.counts[call]), "")
        if kind:
            self.struck.append(Fault(call, self.counts[call], kind))
        return kind
