"""What requests are told, and what this process told them that its stores don't show yet."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import decode
from kube.resources import BOOKINGS, PROVISIONING_REQUESTS
from provisioner.buying.creation import Writer
from provisioner.planning.cases import Case
from provisioner.state import MANAGER
from provisioner.steps import Reason
from provisioner.telling.progress import Provisioned
from provisioner.telling.statuses import Status, apply_body, news, status_of, stored
from runtime.client import Resource
from runtime.errors import ApiError, Conflict, NotFound, TransportError
from runtime.events import Recorder
from runtime.logging import get_logger
from runtime.metrics import WAIT_BUCKETS
from runtime.telemetry import meter

REQUESTS, BOOKING = Resource(*PROVISIONING_REQUESTS), Resource(*BOOKINGS)
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
    """A status that this process wrote as `version`, believed until loop time `until`, and for as long as the store shows the
    version that the request had before."""

    status: Status
    until: float
    before: str
    version: str = ""


class Answers:
    """Writes the statuses of requests, each only when it says something new."""

    def __init__(self, client: Writer, recorder: Recorder) -> None:
        self._client, self._recorder = client, recorder
        self._said: dict[str, Said] = {}

    def forget(self, there: set[str]) -> None:
        """All requests but those of these UIDs."""
        for uid in self._said.keys() - there:
            del self._said[uid]

    def old(self, request: ProvisioningRequest) -> Status:
        """What the request says by now."""
        said = self._believed(request)
        return said.status if said else stored(request)

    def _believed(self, request: ProvisioningRequest) -> Said | None:
        said, version = self._said.get(request.metadata.uid), request.metadata.resource_version
        fresh = said and (said.until > asyncio.get_running_loop().time() or (version and version == said.before))
        return said if fresh else None

    async def tell(self, cases: Iterable[Case], now: datetime) -> bool:
        """Writes what changed, a few at a time. False when one could not be written and is to be tried again."""
        gate = asyncio.Semaphore(WRITERS)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._tell(case, gate, now)) for case in cases if case.finding is not None]
        return all(task.result() for task in tasks)

    async def _tell(self, case: Case, gate: asyncio.Semaphore, now: datetime) -> bool:
        assert case.finding is not None
        request, old, said = case.request, self.old(case.request), self._believed(case.request)
        new = status_of(old, request.metadata.generation, case.finding, case.tries, now)
        if new == old:
            return True
        version = said.version if said else request.metadata.resource_version
        async with gate:
            try:
                if not await self._still_whole(case, old):
                    return False
                body = apply_body(request, new, version)
                written = await self._client.apply(REQUESTS, body, manager=MANAGER, subresource="status")
            except NotFound:
                return True  # the store will tell
            except Conflict:
                self._said.pop(request.metadata.uid, None)  # somebody else wrote it, or a late write of our own came through
                return False
            except (ApiError, TransportError) as error:
                name = f"{request.metadata.namespace}/{request.metadata.name}"
                _log.warning("a request's status could not be written", request=name, error=str(error))
                return False
            until = asyncio.get_running_loop().time() + PATIENCE
            version = written.get("metadata", {}).get("resourceVersion", "")
            self._said[request.metadata.uid] = Said(new, until, request.metadata.resource_version, version)
            await self._announce(case, old, new, now)
        return True

    async def _still_whole(self, case: Case, old: Status) -> bool:
        """A live look right before the promise: a store that lags may show a booking that has ended or lost nodes since."""
        if not isinstance(case.finding, Provisioned) or old.is_true("Provisioned"):
            return True
        found = decode(await self._client.get(BOOKING, case.finding.booking.metadata.name), ours.Booking)
        return found.status.phase == "Provisioned" and found.status.reason != Reason.REVOKED and found.whole

    async def _announce(self, case: Case, old: Status, new: Status, now: datetime) -> None:
        if isinstance(case.finding, Provisioned) and not old.is_true("Provisioned") and case.since:
            _PROVISION_TIME.record((now - case.since).total_seconds())
        event = news(old, new)
        if event:
            await self._recorder.event(case.request.to_json(), *event)
