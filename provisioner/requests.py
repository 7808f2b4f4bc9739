"""The planner's reconciler: one pass over all requests, woken by any change of what they rest on.

A Booking is created before its request says anything of it, and before anything is marked or bought. What this process wrote but
does not see in its stores yet is remembered, so that a pass never plans twice on the same room.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from capacity.model import Plan as Made
from capacity.model import Reason
from capacity.plan import plan
from capacity.quantity import dollars
from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.kueue import Workload
from kube.resources import PROVISIONING_REQUESTS
from provisioner import authority
from provisioner.acceptance import Accepted, Desk, NotYet
from provisioner.authority import Look
from provisioner.cases import Case, case_of
from provisioner.closing import closed
from provisioner.creation import Creator, Writer, traced
from provisioner.grounds import Grounds
from provisioner.leaning import Leaning, leaning
from provisioner.ordering import Turn, turn
from provisioner.outcomes import Book, broken, pools_of
from provisioner.patience import LOOKS, Patience
from provisioner.producers import check_of
from provisioner.progress import Failed, Provisioned, Waiting, attempts, standing
from provisioner.room import Planner as Plan
from provisioner.snapshots import room
from provisioner.state import BOOKINGS_BY_REQUEST, BOOKINGS_BY_WORKLOAD, CLASS, MANAGER, REQUESTS_BY_WORKLOAD, State
from provisioner.statuses import Status, apply_body, news, status_of, stored
from provisioner.turns import Candidate, Memo, Pass
from provisioner.view import View, take
from runtime.client import Resource
from runtime.controller import Result
from runtime.errors import ApiError, Conflict, NotFound, TransportError
from runtime.events import Recorder
from runtime.logging import get_logger
from runtime.metrics import WAIT_BUCKETS
from runtime.telemetry import meter

REQUESTS = Resource(*PROVISIONING_REQUESTS)
ALL = "all"
"""The one key of the planner."""
LONGEST = 30.0
"""Seconds between two passes at most: an age or a deadline may have passed without any event."""
SOON = 1.0
PATIENCE = 5.0
"""Seconds for which what this process wrote is believed more than a store that lags."""
WRITERS = 8

_log = get_logger("planner")
_PROVISION_TIME = meter().create_histogram(
    "corral_time_to_provision",
    "s",
    "From acceptance of a request to Provisioned",
    explicit_bucket_boundaries_advisory=WAIT_BUCKETS,
)


@dataclass(slots=True)
class Said:
    """A status that this process wrote, believed until loop time `until`, and for as long as the store shows the version that the
    request had before."""

    status: Status
    until: float
    before: str


class Planner:
    """Serves all requests of the class. `waiting` counts them by reason, as of the last pass; `leaning` is what they lean on."""

    def __init__(
        self, state: State, client: Writer, recorder: Recorder, now: Callable[[], datetime], planner: Plan = plan
    ) -> None:
        self.waiting: Counter[str] = Counter()
        self.leaning = Leaning()
        self._state, self._client, self._recorder, self._now, self._plan = state, client, recorder, now, planner
        self._creator = Creator(client, state)
        self._accepted: dict[str, Accepted] = {}
        self._said: dict[str, Said] = {}
        self._grounds, self._memo = Grounds(), Memo()
        self._patience = Patience(LOOKS * state.settings.inventory_seconds)

    async def reconcile(self, _key: str) -> Result:
        """One pass: what is new of each request, then plans in turn, then the statuses that changed."""
        now = self._now()
        requests = sorted(self._requests(), key=lambda r: (r.metadata.creation_timestamp or "", r.metadata.uid))
        self._forget({request.metadata.uid for request in requests})
        view = take(self._state, now, self._creator.unseen())
        desk = self._desk()
        cases = [case for request in requests if (case := self._case(request, desk, now))]
        self.leaning = leaning(case.accepted for case in cases if case.todo and case.accepted)
        planned, whole = await self._in_turn(view, [case for case in cases if case.todo], now)
        told = [case for case in (*cases, *planned) if case.finding is not None]
        sent = await self._tell_all(told, now)
        self._count((*cases, *planned))
        return Result(SOON if not (sent and whole) else self._wake(told, now))

    # --- what each stands for ---

    def _requests(self) -> Iterable[ProvisioningRequest]:
        for request in self._state.requests.values():
            if request.spec.provisioning_class_name == CLASS and request.metadata.deletion_timestamp is None:
                yield request

    def _forget(self, there: set[str]) -> None:
        for known in (self._accepted, self._said):
            for uid in known.keys() - there:
                del known[uid]

    def _case(self, request: ProvisioningRequest, desk: Desk, now: datetime) -> Case | None:
        """None for a request that can't be judged for a fault of ours: the others are served all the same."""
        uid = request.metadata.uid
        bookings = self._creator.with_unseen(uid, self._state.bookings.by(BOOKINGS_BY_REQUEST, uid))
        try:
            case = case_of(request, self._old(request), self._accepted.get(uid), bookings, desk, now)
        except Exception:
            _log.exception("a request could not be judged", request=f"{request.metadata.namespace}/{request.metadata.name}")
            return None
        if case.accepted is not None:
            self._accepted[uid] = case.accepted
        return case

    def _old(self, request: ProvisioningRequest) -> Status:
        said, version = self._said.get(request.metadata.uid), request.metadata.resource_version
        if said and (said.until > asyncio.get_running_loop().time() or (version and version == said.before)):
            return said.status
        return stored(request)

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

    def _taken(self, request: ProvisioningRequest, workload: Workload, check: str, pod_sets: Collection[str]) -> str | None:
        """What serves the same Workload for the same check or pod sets already: one quota buys once.

        A booking goes on when its request is deleted under it: a new request must not buy for the same pods again.
        """
        for other in self._state.requests.by(REQUESTS_BY_WORKLOAD, workload.metadata.uid):
            same = check_of(other, workload) == check and other.spec.provisioning_class_name == CLASS
            if same and other.metadata.uid != request.metadata.uid and self._serves(other):
                return f"request {other.metadata.name}"
        uid = workload.metadata.uid
        unseen = (each for each in self._creator.unseen().values() if each.spec.workload and each.spec.workload.uid == uid)
        bookings = (*self._state.bookings.by(BOOKINGS_BY_WORKLOAD, uid), *unseen)
        held = authority.holding(bookings, request, workload, pod_sets)
        return f"booking {held} of another request" if held else None

    def _serves(self, other: ProvisioningRequest) -> bool:
        status = self._old(other)
        taken_on = other.metadata.uid in self._accepted or status.accepted_at is not None
        return taken_on and other.metadata.deletion_timestamp is None and not (status.over or status.is_true("BookingExpired"))

    # --- planning ---

    async def _in_turn(self, view: View, cases: Sequence[Case], now: datetime) -> tuple[list[Case], bool]:
        """Each case with its finding. False: the pass broke off, because a booking of an earlier run came to light."""
        if not cases:
            return [], True
        modes = {name: pool.spec.mode for name, pool in view.pools.items()}
        ground = room(view, view.pools.values(), self._grounds)
        unknown = frozenset(view.pools) - view.known.keys()
        current = Pass(ground, modes, self._plan, self._memo.on(ground), self._patience.on(), unknown)
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

    # --- telling ---

    async def _tell_all(self, cases: Sequence[Case], now: datetime) -> bool:
        """Writes what changed, a few at a time. False when one could not be written and is to be tried again."""
        gate = asyncio.Semaphore(WRITERS)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._tell(case, gate, now)) for case in cases]
        return all(task.result() for task in tasks)

    async def _tell(self, case: Case, gate: asyncio.Semaphore, now: datetime) -> bool:
        assert case.finding is not None
        request = case.request
        new = status_of(case.old, request.metadata.generation, case.finding, case.tries, now)
        if new == case.old:
            return True
        async with gate:
            try:
                await self._client.apply(REQUESTS, apply_body(request, new), manager=MANAGER, subresource="status")
            except (NotFound, Conflict):
                return True  # deleted, or made anew under the same name: the store will tell
            except (ApiError, TransportError) as error:
                name = f"{request.metadata.namespace}/{request.metadata.name}"
                _log.warning("a request's status could not be written", request=name, error=str(error))
                return False
            until = asyncio.get_running_loop().time() + PATIENCE
            self._said[request.metadata.uid] = Said(new, until, request.metadata.resource_version)
            await self._announce(case, new, now)
        return True

    async def _announce(self, case: Case, new: Status, now: datetime) -> None:
        if isinstance(case.finding, Provisioned) and not case.old.is_true("Provisioned") and case.since:
            _PROVISION_TIME.record((now - case.since).total_seconds())
        event = news(case.old, new)
        if event:
            await self._recorder.event(case.request.to_json(), *event)

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
