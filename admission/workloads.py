"""Reconciles one Workload: its requests and our entries among its admission checks."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from admission import journeys, requests, slices
from admission.decide import LOOK_AGAIN, decide
from admission.gang import WorkloadMistakeError
from admission.model import Change, Decision, Request, State, bounded
from admission.release import Push, push
from admission.requests import Attempt
from admission.view import Prospect, Stores, is_own, own_entries, prospect, requests_of, retry_of, running, terms_of, view
from admission.writer import make_request, remove_request, write_entries, write_push
from kube.kueue import AdmissionCheckState, Workload
from runtime.client import Client
from runtime.controller import DONE, Result
from runtime.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from runtime.events import Recorder
from runtime.store import Key
from runtime.telemetry import TRACEPARENT, link, traceparent

STALE = 0.2  # seconds until what another writer did should have reached the stores
OBSTRUCTED = 1.0  # seconds until something in the way of a request may be gone; a foreign finalizer can hold it for long


@dataclass(slots=True)
class Turn:
    """What one reconcile is about to do for all checks of ours on a workload."""

    workload: Workload
    own: tuple[AdmissionCheckState, ...]
    decisions: dict[str, Decision] = field(default_factory=dict)
    prospects: dict[str, Prospect] = field(default_factory=dict)
    orphans: list[Request] = field(default_factory=list)  # of checks that the workload no longer has
    refused: bool = False  # the API server would not have one of the requests or its templates

    @property
    def changes(self) -> dict[str, Change]:
        return {name: each.change for name, each in self.decisions.items() if each.change is not None}

    @property
    def deletions(self) -> list[Request]:
        return [*self.orphans, *(request for each in self.decisions.values() for request in each.delete)]

    @property
    def attempts(self) -> list[Attempt]:
        found = [self.prospects[name].attempt for name, each in self.decisions.items() if each.create]
        return [each for each in found if each is not None]

    @property
    def result(self) -> Result:
        waits = [each.look_again for each in self.decisions.values() if each.look_again]
        return Result(min([*waits, LOOK_AGAIN] if self.refused else waits, default=None))


class Workloads:
    """The reconciler. `annotation` is the key under which a request carries its trace context."""

    def __init__(
        self, client: Client, stores: Stores, recorder: Recorder, now: Callable[[], datetime], annotation: str = TRACEPARENT
    ) -> None:
        self._client, self._stores, self._recorder, self._now = client, stores, recorder, now
        self._annotation = annotation
        self._journeys = journeys.Journeys()

    async def reconcile(self, key: Key) -> Result:
        """One turn. Conflicts come back soon, other errors of the API server by the controller's backoff."""
        workload = self._stores.workloads.get(key)
        if workload is None:
            self._journeys.lost(key, self._now())
            return DONE
        link(traceparent(workload.metadata.uid))
        turn = self._look(workload)
        if turn.own:
            self._journeys.follow(workload, self._now())
        nudge = push(workload, turn.own)
        try:
            await (self._push(turn, nudge) if nudge else self._act(turn))
        except Conflict:
            return Result(STALE)
        except AlreadyExists:
            return Result(OBSTRUCTED)
        except NotFound:
            return DONE  # deleted meanwhile, the workload or its namespace: its event brings what is left to do
        return turn.result

    def _look(self, workload: Workload) -> Turn:
        present = requests_of(self._stores, workload)
        turn = Turn(workload, own_entries(self._stores, workload))
        begins = workload.quota_reserved and not workload.admitted
        runs = begins and bool(running(self._stores, workload))
        for entry in turn.own:
            check = self._stores.checks.get(("", entry.name))
            assert check is not None
            conditions = terms_of(self._stores, check, workload.priority_class)
            trace = {self._annotation: traceparent(workload.metadata.uid)}
            found = prospect(self._stores, workload, entry, conditions, trace) if begins else Prospect()
            turn.prospects[entry.name] = found
            seen = view(workload, entry, found, retry_of(conditions, workload), present.get(entry.name, []), runs)
            decision = decide(seen, self._now())
            turn.decisions[entry.name] = slices.spared(seen, decision, self._now()) if runs else decision
        if not (workload.admitted and not workload.finished):
            turn.orphans = self._orphans(workload, present)
        return turn

    def _orphans(self, workload: Workload, present: Mapping[str, Iterable[Any]]) -> list[Request]:
        """Requests for checks that Kueue has taken off the workload, or that are another controller's by now.

        A check that we don't know at the moment is still on it, and ours.
        """
        known = {each.name: self._stores.checks.get(("", each.name)) for each in workload.status.admission_checks}
        kept = {name for name, check in known.items() if check is None or is_own(check)}
        return [requests.seen(each) for check, found in present.items() if check not in kept for each in found]

    async def _act(self, turn: Turn) -> None:
        if turn.changes:
            await self._write(turn, turn.changes)
        for request in turn.deletions:
            if not request.deleting:
                await remove_request(self._client, turn.workload.metadata.namespace, request)
        for attempt in turn.attempts:
            await self._make(turn, attempt)

    async def _push(self, turn: Turn, nudge: Push) -> None:
        """Nothing else in this turn: the workload is another one afterwards."""
        now = self._now()
        with journeys.change_spans(turn.workload, nudge.changes, now):
            await write_push(self._client, turn.workload, turn.own, nudge, now)
        await asyncio.gather(*(self._tell(turn, name, change) for name, change in nudge.changes.items()))
        await self._recorder.event(_reference(turn.workload), "Normal", nudge.event, nudge.message)

    async def _write(self, turn: Turn, changes: Mapping[str, Change]) -> None:
        now = self._now()
        with journeys.change_spans(turn.workload, changes, now):
            await write_entries(self._client, turn.workload, turn.own, changes, now)
        await asyncio.gather(*(self._tell(turn, name, change) for name, change in changes.items()))

    async def _tell(self, turn: Turn, name: str, change: Change) -> None:
        before = next(each.state for each in turn.own if each.name == name)
        if before == change.state:
            return
        words = f" with message: {change.message}" if change.message else ""
        kind = "Warning" if change.state in (State.RETRY, State.REJECTED) else "Normal"
        text = f"Admission check {name} updated state from {before} to {change.state}{words}"
        await self._recorder.event(_reference(turn.workload), kind, "AdmissionCheckUpdated", text)  # type: ignore[arg-type]

    async def _make(self, turn: Turn, attempt: Attempt) -> None:
        try:
            with journeys.request_span(attempt):
                await make_request(self._client, attempt)
        except (Conflict, AlreadyExists, NotFound):
            raise
        except WorkloadMistakeError as error:  # no job's template comes so far, only that of a Workload made by hand
            await self._write(turn, {attempt.check: Change(State.REJECTED, bounded(str(error)))})
            return
        except (Forbidden, Invalid) as error:  # it says why, and trying at once again would not help
            await self._complain(turn, attempt, error)
            turn.refused = True
            return
        except ApiError as error:
            await self._complain(turn, attempt, error)
            raise
        text = f'Created ProvisioningRequest: "{attempt.name}" (attempt {attempt.number})'
        await self._recorder.event(_reference(turn.workload), "Normal", "ProvisioningRequestCreated", text)

    async def _complain(self, turn: Turn, attempt: Attempt, error: ApiError) -> None:
        message = bounded(f'Error creating ProvisioningRequest "{attempt.name}": {error.message}')
        entry = next(each for each in turn.own if each.name == attempt.check)
        if entry.message == message:
            return
        await self._recorder.event(_reference(turn.workload), "Warning", "FailedCreate", message)
        if attempt.check not in turn.changes:
            await self._write(turn, {attempt.check: Change(State.PENDING, message)})


def _reference(workload: Workload) -> dict[str, Any]:
    meta = workload.metadata
    version = meta.resource_version
    names = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": version}
    return {"apiVersion": workload.api_version, "kind": workload.kind, "metadata": names}
