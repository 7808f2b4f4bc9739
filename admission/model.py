"""What admission's decisions are made of: a workload and one check of ours on it as they look, and what is to be done. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MESSAGE_LIMIT = 1024  # Kueue repeats the message in an event of the job, whose note holds no more


class State(StrEnum):
    """The states of an entry in `Workload.status.admissionChecks`."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a ProvisioningRequest."""

    true: bool
    reason: str = ""
    message: str = ""

    @property
    def words(self) -> str:
        """Reason and message; a message that begins with its reason already is left as it is."""
        if not self.message or self.message.startswith(self.reason):
            return self.message or self.reason
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class Request:
    """One of our ProvisioningRequests. `fingerprint` names the attempt it was made for, `pod_sets` those it asks capacity for.

    `templates` are the names of the PodTemplates written for it, `booking` is what the provisioner called the capacity.
    `uncounted`: failed for what time alone may mend.
    """

    name: str
    uid: str
    fingerprint: str
    created: datetime
    pod_sets: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    deleting: bool = False
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    booking: str = ""
    uncounted: bool = False


@dataclass(frozen=True, slots=True)
class RetryRule:
    """`limit` retries follow the first attempt; waits in seconds of backoff * 2^(n-1), at most `longest`."""

    limit: int
    backoff: int
    longest: int

    def wait(self, failures: int) -> int:
        """Seconds to wait after so many failures (1 or more). Never none: Kueue reserves quota again within the second."""
        return max(1, min(self.backoff << (failures - 1), self.longest))


@dataclass(frozen=True, slots=True)
class Entry:
    """Our entry of `status.admissionChecks`. `retries` counts the failed attempts before the one under way."""

    state: str
    message: str = ""
    retries: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """One workload and one check of ours on it, as the stores show them.

    `fingerprint` names the attempt that should be under way: workload uid, check, attempt, reservation, flavors and counts.
    `requeue_at` is when Kueue tries again, "" unless it waits for that. `pod_sets` need capacity. `obstacle` says why no request
    can be made for now, and the remedy; `mistake` why none can ever be made for this workload.
    `runs`: pods of an elastic job run that this Workload, once evicted, would stop. `reserved_at`: since when it holds quota.
    """

    entry: Entry
    fingerprint: str
    retry: RetryRule
    reserved: bool = True
    admitted: bool = False
    evicted: bool = False
    finished: bool = False
    active: bool = True
    requeue_at: str = ""
    pod_sets: tuple[str, ...] = ()
    obstacle: str = ""
    mistake: str = ""
    requests: tuple[Request, ...] = ()
    runs: bool = False
    reserved_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What our entry is to say from now on. `requeue_after` in seconds goes with Retry alone; `retries` None: as before."""

    state: State
    message: str
    requeue_after: int | None = None
    retries: int | None = None
    pod_set_updates: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Carried out in this order: the entry's change, deletions, creation of the request, another look in `look_again` seconds."""

    change: Change | None = None
    delete: tuple[Request, ...] = ()
    create: bool = False
    look_again: float | None = None


def bounded(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """The message, cut to what an event can carry."""
    return message if len(message) <= limit else message[: limit - 1] + "…"
