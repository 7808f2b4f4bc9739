"""The planner's reconciler: one pass over all requests, woken by any change of what they rest on.

A Booking is created before its request says anything of it, and before anything is marked or bought. What this process wrote but
does not see in its stores yet is remembered, so that a pass never plans twice on the same room.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from capacity.model import Plan as Made
from capacity.model import Reason
from capacity.plan import plan
from capacity.quantity import dollars
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from provisioner.asking import authority
from provisioner.asking.acceptance import Accepted, Desk, NotYet
from provisioner.asking.authority import Look, NoQuota
from provisioner.asking.leaning import Leaning, leaning
from provisioner.asking.producers import check_of
from provisioner.buying.creation import Creator, Writer, traced
from provisioner.ending.closing import closed
from provisioner.planning.cases import Case, case_of
from provisioner.planning.grounds import Grounds
from provisioner.planning.ordering import Turn, turn
from provisioner.planning.patience import Patience
from provisioner.planning.room import Planner as Plan
from provisioner.planning.snapshots import room
from provisioner.planning.turns import Candidate, Memo, Pass
from provisioner.state import BOOKINGS_BY_REQUEST, BOOKINGS_BY_WORKLOAD, CLASS, REQUESTS_BY_WORKLOAD, State
from provisioner.telling.answers import Answers
from provisioner.telling.outcomes import Book, broken, pools_of
from provisioner.telling.progress import Failed, Taken, Waiting, attempts, standing
from provisioner.view import View, take
from runtime.controller import Result
from runtime.errors import ApiError
from runtime.events import Recorder
from runtime.logging import get_logger

ALL = "all"
"""The one key of the planner."""
LONGEST = 30.0
"""Seconds between two passes at most: an age or a deadline may have passed without any event."""
SOON = 1.0
SLOW = 20.0
"""Seconds of a pass after which those who wait for it are told that they are accepted."""

_log = get_logger("planner")


class Planner:
    """Serves all requests of the class. `waiting` counts them by reason, as of the last pass; `leaning` is what they lean on."""

    def __init__(
        self, state: State, client: Writer, recorder: Recorder, now: Callable[[], datetime], planner: Plan = plan
    ) -> None:
        self.waiting: Counter[str] = Counter()
        self.leaning = Leaning()
        self._state, self._now, self._plan = state, now, planner
        self._answers = Answers(client, recorder)
        self._creator = Creator(client, state)
        self._accepted: dict[str, Accepted] = {}
        self._grounds, self._memo = Grounds(), Memo()
        self._patience = Patience(state.settings.inventory_seconds)

    async def reconcile(self, _key: str) -> Result:
        """One pass: what is new of each request, then plans in turn, then the statuses that changed."""
        now = self._now()
        requests = self._requests()
        self._forget({request.metadata.uid for request in requests})
        cases = self._cases(requests, now)
        todo = [case for case in cases if case.todo]
        self.leaning = leaning(case.accepted for case in todo if case.accepted)
        known = await self._answers.tell(cases, now)
        planned, whole = await self._planned(todo, now)
        sent = await self._answers.tell(planned, now)
        self._count((*cases, *planned))
        return Result(SOON if not (known and sent and whole) else self._wake((*cases, *planned), now))

    async def _planned(self, todo: Sequence[Case], now: datetime) -> tuple[list[Case], bool]:
        """Each case with its finding; False when the pass broke off. Nobody waits unanswered for a pass that takes long."""
        view = take(self._state, now)
        self._creator.begin()
        async with asyncio.TaskGroup() as group:
            meanwhile = group.create_task(self._accept_meanwhile(todo))
            found = await self._in_turn(view, todo, now)
            meanwhile.cancel()
        return found

    async def _accept_meanwhile(self, todo: Sequence[Case]) -> None:
        """Admission gives up on a request that nobody answers, and its next one would wait for the next pass in the same way."""
        while True:
            await asyncio.sleep(SLOW)
            now, known = self._now(), {case.uid for case in todo}
            new = self._cases([each for each in self._requests() if each.metadata.uid not in known], now)
            taken = [replace(case, finding=Taken()) if case.todo else case for case in (*todo, *new)]
            await self._answers.tell(taken, now)

    def accepted(self, uid: str) -> Accepted | None:
        """What the request of this UID asks for, if it is known."""
        return self._accepted.get(uid)

    # --- what each stands for ---

    def _requests(self) -> list[ProvisioningRequest]:
        """Those that are ours to serve, the oldest first."""
        ours = (each for each in self._state.requests.values() if each.spec.provisioning_class_name == CLASS)
        there = (each for each in ours if each.metadata.deletion_timestamp is None)
        return sorted(there, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid))

    def _forget(self, there: set[str]) -> None:
        self._answers.forget(there)
        for uid in self._accepted.keys() - there:
            del self._accepted[uid]

    def _cases(self, requests: Iterable[ProvisioningRequest], now: datetime) -> list[Case]:
        desk = self._desk()
        return [case for request in requests if (case := self._case(request, desk, now))]

    def _case(self, request: ProvisioningRequest, desk: Desk, now: datetime) -> Case | None:
        """None for a request that can't be judged for a fault of ours: the others are served all the same."""
        uid = request.metadata.uid
        bookings = self._creator.with_unseen(uid, self._state.bookings.by(BOOKINGS_BY_REQUEST, uid))
        try:
            case = case_of(request, self._answers.old(request), self._accepted.get(uid), bookings, desk, now)
        except Exception:
            _log.exception("a request could not be judged", request=f"{request.metadata.namespace}/{request.metadata.name}")
            return None
        if case.accepted is not None:
            self._accepted[uid] = case.accepted
        return case

    def _desk(self) -> Desk:
        state = self._state
        classes = {each.metadata.name: each for each in state.runtime_classes.values()}
        return Desk(
            state.templates.get,
            lambda name: state.policies.get(("", name)),
            Look(
                state.workloads.get,
                lambda name: state.checks.get(("", name)),
                classes,
                lambda name: state.configs.get(("", name)),
                state.namespace_labels(),
                state.known_volumes(),
                state.device_resources(),
                lambda name: state.flavors.get(("", name)),
                lambda name: state.topologies.get(("", name)),
                lambda name: state.bookings.get(("", name)),
            ),
            [pool.metadata.name for pool in state.pools.values()],
            self._taken,
            state.settings.template_grace_seconds,
        )

    def _taken(self, request: ProvisioningRequest, workload: Workload, check: str, pod_sets: Collection[str]) -> NoQuota | None:
        """What serves the same Workload for the same check or pod sets already: one quota buys once.

        A booking goes on when its request is deleted under it: a new request must not buy for the same pods again.
        """
        for other in self._state.requests.by(REQUESTS_BY_WORKLOAD, workload.metadata.uid):
            ours = other.spec.provisioning_class_name == CLASS
            if other.metadata.uid == request.metadata.uid or not (ours and self._serves(other)):
                continue
            known = self._accepted.get(other.metadata.uid)
            shared = {each.name for each in known.gang.pod_sets} & set(pod_sets) if known else ()
            found = authority.rivalry(other.metadata.name, workload.metadata.name, check_of(other, workload), check, shared)
            if found:
                return found
        uid = workload.metadata.uid
        unseen = (each for each in self._creator.unseen().values() if each.spec.workload and each.spec.workload.uid == uid)
        bookings = (*self._state.bookings.by(BOOKINGS_BY_WORKLOAD, uid), *unseen)
        held = authority.holding(bookings, request, workload, pod_sets)
        return NoQuota(f"booking {held} of another request serves Workload {workload.metadata.name} already") if held else None

    def _serves(self, other: ProvisioningRequest) -> bool:
        status = self._answers.old(other)
        taken_on = other.metadata.uid in self._accepted or status.accepted_at is not None
        return taken_on and other.metadata.deletion_timestamp is None and not (status.over or status.is_true("BookingExpired"))

    # --- planning ---

    async def _in_turn(self, view: View, cases: Sequence[Case], now: datetime) -> tuple[list[Case], bool]:
        """Each case with its finding. False: the pass broke off, because a booking of an earlier run came to light."""
        if not cases:
            return [], True
        modes = {name: pool.spec.mode for name, pool in view.pools.items()}
        ground = room(view, view.pools.values(), self._grounds)
        heard = {name: known.at for name, known in view.known.items()}
        adopting = frozenset(name for name, pool in view.pools.items() if pool.spec.node_selector)
        current = Pass(ground, modes, self._plan, self._memo.on(ground), heard, self._patience.on(), adopting)
        done: list[Case] = []
        for case in sorted(cases, key=_turn):
            found = await self._one(case, current, now)
            done.append(found or case)
            if found is None:
                return done, False
        return done, True

    async def _one(self, case: Case, current: Pass, now: datetime) -> Case | None:
        assert case.accepted is not None
        assert case.todo is not None
        assert case.since is not None
        candidate = Candidate(case.accepted, case.todo, case.since, now)
        try:
            outcome = await asyncio.to_thread(current.turn, candidate)
        except Exception as error:
            _log.exception("a gang could not be planned", gang=case.accepted.gang.name)
            return replace(case, finding=broken(error, case.todo, now))
        if not isinstance(outcome, Book):
            self._trace_wait(case, outcome, now)
            return replace(case, finding=outcome)
        if shut := self._shut(outcome.plan):
            return replace(case, finding=Waiting(Reason.GANG_INCOMPLETE.value, shut))
        with traced("plan", case.request, now) as span:
            span.set_attribute("corral.cost_per_hour", dollars(outcome.plan.cost))
        try:
            made = await self._creator.create(case, outcome.plan, now)
        except ApiError as error:
            return replace(case, finding=Waiting(Reason.GANG_INCOMPLETE.value, f"its booking can't be written: {error.message}"))
        if made is None:
            return None
        current.book(outcome.plan, made.metadata.name)
        return _booked(case, case.accepted, made, now)

    def _shut(self, plan: Made) -> str:
        """What closed a pool of the plan while it was made, "" if nothing did: planning takes time."""
        pools = [(name, self._state.pool(name)) for name in sorted(pools_of(plan))]
        shut = (closed(pool) if pool else f"pool {name} was deleted" for name, pool in pools)
        return next(filter(None, shut), "")

    def _trace_wait(self, case: Case, outcome: Waiting | Failed, now: datetime) -> None:
        """A span when the answer is another than before: a request that just waits on leaves no trace of each pass."""
        known = [condition.get("reason") for condition in case.old.conditions]
        if outcome.reason not in known:
            with traced("plan", case.request, now) as span:
                span.set_attribute("corral.reason", outcome.reason)

    def _count(self, cases: Iterable[Case]) -> None:
        last = {case.uid: case.finding for case in cases if case.finding is not None}
        self.waiting = Counter(finding.reason for finding in last.values() if isinstance(finding, Waiting | NotYet))

    def _wake(self, cases: Iterable[Case], now: datetime) -> float:
        """Seconds until the clock alone changes something."""
        moments = [case.finding.wake for case in cases if isinstance(case.finding, Waiting)]
        moments += [case.finding.until for case in cases if isinstance(case.finding, NotYet)]
        moments.append(self._state.backoffs.next_end(now))
        waits = [(moment - now).total_seconds() for moment in moments if moment]
        return min(LONGEST, max(0.2, min(waits, default=LONGEST)))


def _turn(case: Case) -> Turn:
    taken = case.accepted
    return turn(case.request, taken.priority, taken.waits_since) if taken else turn(case.request, 0)


def _booked(case: Case, accepted: Accepted, made: ours.Booking, now: datetime) -> Case:
    """The case once its booking is there: its attempts go up with the same status write that tells of it."""
    tries = attempts(case.tries, [made])
    found = standing(accepted.terms, case.since or now, False, tries, made, now)
    return replace(case, tries=tries, finding=found if isinstance(found, Waiting) else None)
