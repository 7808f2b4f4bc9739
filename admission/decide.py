"""What to do next about one admission check of one workload: pure, and the only place where admission branches.

The contract with Kueue is that of v0.17.0 (pkg/controller/core/workload_controller.go): a check's state counts only while
quota is reserved and no eviction is under way. Kueue itself resets `Retry` and `Rejected` when it evicts, and counts in
`retryCount`; where we were first to evict (admission/release.py), we do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

ACCEPT_TIMEOUT = timedelta(minutes=5)
ANSWER_GRACE = timedelta(seconds=3)  # nothing is written about a request that is about to be answered
LOOK_AGAIN = 30.0  # seconds until an obstacle without an event of its own is looked at again
MESSAGE_LIMIT = 1024  # Kueue repeats the message in an event of the job, whose note holds no more
BOOKING_DOMAIN = "booking.corral.dev"
BOOKED_TAINT = "corral.dev/booked"

# A new attempt can't mend what the workload itself gets wrong. Missing PodTemplates it can: they are ours, and are written anew.
FINAL_REASONS = frozenset({"InvalidArgument", "Undecidable"})


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
    `runs`: pods of an elastic job run that this Workload, once evicted, would stop.
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


NOTHING = Decision()
NOT_NEEDED = Change(State.READY, "No capacity is needed: no pods on the flavors of this check")


def decide(view: View, now: datetime) -> Decision:
    """The next step for one check of one workload; `NOTHING` when it is somebody else's turn."""
    if view.finished:
        return Decision(delete=_others(view, None))
    if view.evicted or not view.reserved:
        return _without_quota(view)
    if not view.active:
        return NOTHING
    current = current_of(view)
    if view.admitted:
        return _running(view, current)
    if view.entry.state in (State.RETRY, State.REJECTED):
        return NOTHING
    enough = view.runs and not (view.pod_sets or view.obstacle or view.mistake)  # an elastic job that shrank while it waited
    return _begin(view) if current is None or enough else _follow(view, current, now)


def booking_key(booking: str, pod_set: str) -> str:
    """The node label key that marks the nodes of one pod set of a booking."""
    return f"{booking}.{BOOKING_DOMAIN}/{pod_set}"


def pod_set_updates(booking: str, pod_sets: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Steers each pod set to its own booked nodes: one selector key and one toleration, which nothing else sets."""
    toleration = {"key": BOOKED_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    return tuple(
        {"name": name, "nodeSelector": {booking_key(booking, name): "true"}, "tolerations": [toleration]} for name in pod_sets
    )


def bounded(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """The message, cut to what an event can carry."""
    return message if len(message) <= limit else message[: limit - 1] + "…"


def current_of(view: View) -> Request | None:
    """The request of the attempt under way; of two (made under different settings by two leaders) the older one."""
    matching = [r for r in view.requests if r.fingerprint == view.fingerprint and not r.deleting]
    return min(matching, key=lambda r: (r.created, r.name), default=None)


def _others(view: View, current: Request | None) -> tuple[Request, ...]:
    return tuple(r for r in view.requests if r is not current and not r.deleting)


def _without_quota(view: View) -> Decision:
    """Gives capacity back.

    A state left over would act in the next reservation: Ready admits at once, Retry and Rejected never end (kueue#3543).
    """
    change = None
    if view.entry.state == State.RETRY:
        change = Change(State.PENDING, _until_the_next_try(view), retries=view.entry.retries + 1)
    elif view.entry.state != State.PENDING:
        change = Change(State.PENDING, "Waiting for quota")
    return Decision(change=change, delete=_others(view, None))


def _until_the_next_try(view: View) -> str:
    if not view.requeue_at:
        return "Waiting for quota"
    end = f"; next try at {view.requeue_at}, no quota is held until then"
    return bounded(view.entry.message, MESSAGE_LIMIT - len(end)) + end


def _running(view: View, current: Request | None) -> Decision:
    """An admitted workload keeps Ready whatever becomes of its request; only revoked capacity ends it."""
    if current is None or view.entry.state == State.REJECTED:
        return NOTHING
    if _true(current, "CapacityRevoked"):
        return Decision(change=_rejected(current.conditions["CapacityRevoked"].words))
    if view.entry.state == State.PENDING and _true(current, "Provisioned") and current.booking:
        return Decision(change=_ready(current))  # Kueue wrote over our Ready from an older copy
    return NOTHING


def _begin(view: View) -> Decision:
    old = _others(view, None)
    if view.mistake:
        return Decision(change=_rejected(view.mistake), delete=old)
    if view.obstacle:
        return Decision(change=_pending(view, view.obstacle), delete=old, look_again=LOOK_AGAIN)
    if not view.pod_sets:
        return Decision(change=_unless_same(view, NOT_NEEDED), delete=old)
    lost = view.entry.state == State.READY
    change = Change(State.PENDING, "The capacity that was ready belongs to another reservation or is gone") if lost else None
    return Decision(change=change, delete=old, create=True)


def _follow(view: View, current: Request, now: datetime) -> Decision:
    """Failed > CapacityRevoked > BookingExpired > Provisioned > Accepted, as in Kueue's own controller."""
    old = _others(view, current)
    if _true(current, "Failed"):
        return Decision(change=_failed(view, current.conditions["Failed"]), delete=old)
    if _true(current, "CapacityRevoked"):
        return Decision(change=_rejected(current.conditions["CapacityRevoked"].words), delete=old)
    if _true(current, "BookingExpired"):
        return Decision(change=_retry(view, f"Booking expired: {current.conditions['BookingExpired'].words}"), delete=old)
    if _true(current, "Provisioned") and current.booking:
        return Decision(change=_unless_same(view, _ready(current)), delete=old)
    answered = current.conditions.keys() & {"Accepted", "Provisioned"}
    if not answered and now - current.created < ANSWER_GRACE:
        return Decision(delete=old, look_again=(current.created + ANSWER_GRACE - now).total_seconds())
    left = (current.created + ACCEPT_TIMEOUT - now).total_seconds()
    if not answered and left <= 0:
        return Decision(change=_unanswered(view, current), delete=old)
    return Decision(change=_pending(view, _waiting(current)), delete=old, look_again=None if answered else left)


def _waiting(current: Request) -> str:
    """Why there is no capacity yet, in words that stay the same as long as the reason does."""
    said = current.conditions.get("Provisioned") or current.conditions.get("Accepted")
    if said is None:
        return f"ProvisioningRequest {current.name} waits to be accepted"
    if _true(current, "Provisioned"):
        return f"ProvisioningRequest {current.name} is Provisioned but its class details name no Booking: upgrade the provisioner"
    return "Capacity is being planned" if said.true else said.words


def _unanswered(view: View, current: Request) -> Change:
    """Gives the quota back and asks again later, without end: that nobody is there costs a workload one attempt at most."""
    message = f"The provisioner doesn't answer ProvisioningRequest {current.name}: is corral-provisioner running?"
    wait, spent = view.retry.wait(view.entry.retries + 1), max(view.entry.retries - 1, 0)
    return Change(State.RETRY, bounded(message), requeue_after=wait, retries=spent)


def _failed(view: View, condition: Condition) -> Change:
    return _rejected(condition.words) if condition.reason in FINAL_REASONS else _retry(view, condition.words)


def _retry(view: View, why: str) -> Change:
    """Another attempt after a wait that counts from now, or the end of them."""
    attempt, limit = view.entry.retries + 1, view.retry.limit
    if attempt > limit:
        return _rejected(f"Gave up after {attempt} {'attempt' if attempt == 1 else 'attempts'}: {why}")
    message = bounded(f"Attempt {attempt} of {limit + 1} failed: {why}")
    return Change(State.RETRY, message, requeue_after=view.retry.wait(attempt), retries=view.entry.retries or None)


def _rejected(why: str) -> Change:
    return Change(State.REJECTED, bounded(why))


def _ready(current: Request) -> Change:
    message = bounded(current.conditions["Provisioned"].message)
    return Change(State.READY, message, pod_set_updates=pod_set_updates(current.booking, current.pod_sets))


def _pending(view: View, message: str) -> Change | None:
    return _unless_same(view, Change(State.PENDING, bounded(message)))


def _unless_same(view: View, change: Change) -> Change | None:
    """None when the entry says so already. Ready isn't written twice: Kueue's webhook holds its podSetUpdates immutable."""
    if view.entry.state != change.state:
        return change
    return None if change.state == State.READY or view.entry.message == change.message else change


def _true(request: Request, kind: str) -> bool:
    condition = request.conditions.get(kind)
    return condition is not None and condition.true
