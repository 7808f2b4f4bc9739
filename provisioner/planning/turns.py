"""One planning pass over all requests in turn. Pure: what each gets, given the room and the planner.

A gang that waits holds the places it could use against all behind it; one that could never fit holds nothing. Those that need
none of the held places pass, and those that are over before the one that holds them can begin.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from capacity.model import Gang, Labels, Outcome, Plan, Shortfall, Undecidable
from provisioner.asking.acceptance import Accepted
from provisioner.planning.backfill import latest_end, latest_start
from provisioner.planning.patience import Patience
from provisioner.planning.room import Planner, Room
from provisioner.planning.watching import Watchers, seen, watchers
from provisioner.telling.outcomes import (
    Book,
    Next,
    behind,
    bound,
    by_policy,
    deserted,
    hopeless,
    observed,
    pools_of,
    too_large,
    undecidable,
    unheard,
    waiting,
)
from provisioner.telling.progress import ToPlan


@dataclass(frozen=True, slots=True)
class Candidate:
    accepted: Accepted
    todo: ToPlan
    asked_at: datetime
    now: datetime


@dataclass(slots=True)
class Pass:
    """`modes` are the pools' by name, `heard` when their clouds gave the answers that all rests on: none for a cloud that wasn't
    heard yet. `adopting` are the pools that take up nodes of others. `room` shrinks with each booking; `held` maps places to the
    gang they are kept for, `heads` are these gangs.
    """

    room: Room
    modes: Mapping[str, str]
    planner: Planner
    memo: "Memo"
    heard: Mapping[str, datetime]
    patience: Patience = field(default_factory=Patience)
    adopting: frozenset[str] = frozenset()
    held: dict[str, str] = field(default_factory=dict)
    heads: dict[str, Candidate] = field(default_factory=dict)
    starts: dict[str, int | None] = field(default_factory=dict)
    ends: dict[str, int | None] = field(default_factory=dict)
    booked: tuple[str, ...] = ()
    watchers: Watchers | None = None

    def turn(self, candidate: Candidate) -> Next:
        """What the next gang in line gets. The caller books a plan with `book`."""
        allowed = self._pools(candidate.accepted)
        if not allowed:
            return deserted(candidate.accepted.terms, candidate.todo, candidate.asked_at, candidate.now)
        active = frozenset(name for name in allowed if self.modes[name] != "Observe")
        outcome = self._plan(candidate, active, held=True)
        if isinstance(outcome, Plan):
            return self._booked(candidate, outcome)
        if isinstance(outcome, Undecidable):
            return undecidable(outcome, candidate.todo, candidate.asked_at, candidate.now)
        if self.held and isinstance(found := self._plan(candidate, active, held=False), Plan):
            heads = self._delayed(candidate, found)
            if not heads:
                return self._booked(candidate, found)
            self._hold(candidate, outcome)
            return behind(heads[0], candidate.todo, candidate.now, candidate.asked_at, candidate.accepted.gang)
        if active != allowed and isinstance(dry := self._plan(candidate, allowed, held=False), Plan):
            watching = [name for name in pools_of(dry) if self.modes[name] == "Observe"]
            return observed(dry, watching, candidate.todo, candidate.now)
        self._hold(candidate, outcome)
        unknown = allowed - self.heard.keys()
        lasting = active == allowed and not unknown and _lasting(outcome)
        if lasting and self._sure(candidate, allowed):
            return hopeless(outcome, self.room, candidate.todo, self.adopting & allowed)
        next_look = self.patience.next_look(candidate.now) if lasting else None
        told = unheard(outcome, unknown)
        return waiting(told, self.room, candidate.todo, candidate.asked_at, candidate.now, next_look)

    def book(self, plan: Plan, booking: str) -> None:
        self.room = self.room.book(plan, booking, self.ends.get(plan.gang.name))
        self.booked = (*self.booked, booking)
        self.watchers = None

    def _booked(self, candidate: Candidate, found: Plan) -> Next:
        self.ends[candidate.accepted.gang.name] = latest_end(candidate.accepted.terms, self.room.snapshot.now)
        return too_large(found) or Book(found)

    def _pools(self, accepted: Accepted) -> frozenset[str]:
        wanted = set(accepted.terms.pools)
        return frozenset(name for name in self.modes if not wanted or name in wanted)

    def _plan(self, candidate: Candidate, pools: frozenset[str], *, held: bool) -> Outcome:
        accepted = candidate.accepted
        names = frozenset(self.held) if held else frozenset[str]()
        key = (accepted.digest, self._seen(accepted.gang), pools, names, self.booked)
        found = self.memo.get(key)
        if found is None:
            room = self.room.only(pools).without(names, "a gang that is first in turn")
            asked = bound(accepted.gang, accepted.terms, room.snapshot)
            found = by_policy(self.planner(asked, room.snapshot, accepted.terms.preferences), accepted.gang, asked)
            self.memo.known[key] = found
        return replace(found, gang=accepted.gang) if isinstance(found, Plan) else found

    def _sure(self, candidate: Candidate, pools: frozenset[str]) -> bool:
        heard = {pool: self.heard[pool] for pool in pools}
        return self.patience.over(candidate.accepted.gang.name, candidate.asked_at, heard)

    def _delayed(self, candidate: Candidate, found: Plan) -> list[str]:
        """The gangs ahead that the plan might keep waiting for longer than they must."""
        places = (*(use.node.name for use in found.uses), *(purchase.offering.name for purchase in found.purchases))
        ahead = dict.fromkeys(self.held[place] for place in places if place in self.held)
        end = latest_end(candidate.accepted.terms, self.room.snapshot.now)
        return [head for head in ahead if end is None or (start := self._start(head)) is None or start < end]

    def _start(self, head: str) -> int | None:
        """When a gang that holds places can begin at the latest."""
        if head not in self.starts:
            accepted = self.heads[head].accepted
            room = self.room.only(self._pools(accepted))
            asked = bound(accepted.gang, accepted.terms, room.snapshot)
            question = (asked, room.snapshot, accepted.terms.preferences)
            self.starts[head] = latest_start(question, lambda later: isinstance(self.planner(*later), Plan))
        return self.starts[head]

    def _seen(self, gang: Gang) -> str:
        if self.watchers is None:
            self.watchers = watchers(self.room.snapshot)
        return seen(gang, self.watchers)

    def _hold(self, candidate: Candidate, outcome: Shortfall) -> None:
        """Keeps the places that the gang waits for. One without the label of a level that all its pods need is no use to it."""
        if outcome.hopeless:
            return
        gang = bound(candidate.accepted.gang, candidate.accepted.terms, self.room.snapshot)
        self.heads[gang.name] = candidate
        needed = [pod_set.required_topology for pod_set in gang.pod_sets if pod_set.count]
        for name, labels in _places(self.room):
            if name in outcome.competes and any(key is None or key in labels for key in needed):
                self.held.setdefault(name, candidate.accepted.gang.name)


def _lasting(outcome: Shortfall) -> bool:
    """Whether it would not fit even if all were free. A limit may be lifted, by its owner or by a new day."""
    return outcome.hopeless and "LimitExceeded" not in outcome.message


def _places(room: Room) -> Iterable[tuple[str, Labels]]:
    yield from ((node.name, node.labels) for node in room.snapshot.nodes)
    yield from ((o.name, {**o.shape.labels, **o.domain}) for o in room.snapshot.offerings)


Key = tuple[str, str, frozenset[str], frozenset[str], tuple[str, ...]]


@dataclass(slots=True)
class Memo:
    """Outcomes of the passes on one and the same room: nothing is planned twice on equal ground. What a whole pass didn't look up
    is forgotten: gangs come and go.
    """

    ground: Room | None = None
    known: dict[Key, Outcome] = field(default_factory=dict)
    before: dict[Key, Outcome] = field(default_factory=dict)

    def on(self, room: Room) -> "Memo":
        """For a new pass, on this ground; another ground starts anew. Time alone changes nothing where nothing starts or ends."""
        timed = any(o.starts or o.ends for o in room.snapshot.offerings) or any(n.ends for n in room.snapshot.nodes)
        ground = Room(replace(room.snapshot, now=room.snapshot.now // 30 if timed else 0))
        self.before, self.known = self.known if ground == self.ground else {}, {}
        self.ground = ground
        return self

    def get(self, key: Key) -> Outcome | None:
        found = self.known.get(key) or self.before.get(key)
        if found is not None:
            self.known[key] = found
        return found
