"""What to do next about one admission check of one workload: pure, and the only place where admission branches.

The contract with Kueue is that of v0.17.0 (pkg/controller/core/workload_controller.go): a check's state counts only while
quota is reserved and no eviction is under way. Kueue itself resets `Retry` and `Rejected` when it evicts, and counts in
`retryCount`; where we were first to evict (admission/release.py), we do.
"""

from datetime import datetime, timedelta

from admission.model import MESSAGE_LIMIT, Change, Decision, Entry, Request, State, View, bounded
from admission.steering import pod_set_updates

ACCEPT_TIMEOUT = timedelta(minutes=5)
ANSWER_GRACE = timedelta(seconds=3)  # nothing is written about a request that is about to be answered
LOOK_AGAIN = 30.0  # seconds until an obstacle without an event of its own is looked at again

# A new attempt can't mend what the workload itself gets wrong. Missing PodTemplates it can: they are ours, and are written anew.
FINAL_REASONS = frozenset({"InvalidArgument", "Undecidable"})

NOTHING = Decision()
NOT_NEEDED = Change(State.READY, "No capacity is needed: no pods on the flavors of this check")
WITHOUT_THE_CHECK = Change(State.READY, "The workload was admitted without this check, and keeps what it runs on")


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


def current_of(view: View) -> Request | None:
    """The request of the attempt under way; of two (made under different settings by two leaders) the older one."""
    matching = [r for r in view.requests if r.fingerprint == view.fingerprint and not r.deleting]
    return min(matching, key=lambda r: (r.created, r.name), default=None)


def _others(view: View, current: Request | None) -> tuple[Request, ...]:
    return tuple(r for r in view.requests if r is not current and not r.deleting)


def _without_quota(view: View) -> Decision:
    """Gives capacity back."""
    return Decision(change=put_back(view.entry, view.requeue_at), delete=_others(view, None))


def put_back(entry: Entry, requeue_at: str) -> Change | None:
    """What the entry says once quota is given back; None where it is Pending already.

    A state left over would act in the next reservation: Ready admits at once, Retry and Rejected never end (kueue#3543).
    """
    if entry.state == State.RETRY:
        return Change(State.PENDING, _until_the_next_try(entry, requeue_at), retries=entry.retries + 1)
    return None if entry.state == State.PENDING else Change(State.PENDING, "Waiting for quota")


def _until_the_next_try(entry: Entry, requeue_at: str) -> str:
    if not requeue_at:
        return "Waiting for quota"
    end = f"; next try at {requeue_at}, no quota is held until then"
    return bounded(entry.message, MESSAGE_LIMIT - len(end)) + end


def _running(view: View, current: Request | None) -> Decision:
    """An admitted workload keeps Ready whatever becomes of its request; only revoked capacity ends it.

    A check that its queue got since is no question any more. Pending it would be, wherever Kueue looks at the checks of what runs
    again: v0.17.0 does where it replaces a node (pkg/scheduler/scheduler.go admit), and takes back Admitted.
    """
    if current is None and view.entry.state == State.PENDING:
        return Decision(change=WITHOUT_THE_CHECK)
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
        return Decision(change=_failed(view, current), delete=old)
    if _true(current, "CapacityRevoked"):
        return Decision(change=_revoked(view, current.conditions["CapacityRevoked"].words), delete=old)
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
    return _uncounted(view, message, view.retry.wait(view.entry.retries + 1))


def _uncounted(view: View, why: str, wait: int) -> Change:
    """Another attempt, without end. One is lost at most: Kueue, when it evicts, or admission/release.py counts this one, too."""
    return Change(State.RETRY, bounded(why), requeue_after=wait, retries=max(view.entry.retries - 1, 0))


def _failed(view: View, current: Request) -> Change:
    condition = current.conditions["Failed"]
    if condition.reason in FINAL_REASONS:
        return _rejected(condition.words)
    if current.uncounted and view.retry.limit:
        wait = max(view.retry.wait(1), view.retry.longest if view.entry.retries else 0)
        return _uncounted(view, f"{condition.words}: it is tried again for as long as it takes", wait)
    return _retry(view, condition.words)


def _revoked(view: View, why: str) -> Change:
    """The end, as in Kueue's own controller, but not of a job that runs and can do without."""
    return _retry(view, why) if view.runs else _rejected(why)


def _retry(view: View, why: str) -> Change:
    """Another attempt after a wait that counts from now, or the end of them; for pods to be added there is none."""
    attempt, limit = view.entry.retries + 1, view.retry.limit
    if view.runs:
        return Change(State.RETRY, bounded(why))
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
