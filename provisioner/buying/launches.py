"""Buying, the pure part: which cloud call comes next, with which token, and what its answer makes of the booking.

A launch is written Pending before its call. Its token derives from request, attempt, purchase and number alone, so a call that is
repeated after a crash or a lost reply buys nothing twice, and the machines of a lost call are found by it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from capacity.requirements import Taint
from kube.ours import BookedInstance, BookedPurchase, Booking, BookingSpec, BookingStatus, Launch
from kube.pools import POOL_LABEL
from kube.times import stamp
from provisioner.clouds.base import CloudError, ErrorKind, Instance, Order
from provisioner.nodes import marks
from provisioner.state import (
    BOOKED,
    SOURCE_LABEL,
    TAG_BOOKING,
    TAG_CLUSTER,
    TAG_INSTALLATION,
    TAG_POOL,
    TAG_PURCHASE,
    TAG_SOURCE,
)
from provisioner.steps import View

KEPT = 16
"""Refusals in a row that a booking remembers of a purchase: a gang that runs for weeks asks every five minutes."""

NOTED = 60
"""Seconds between two notes that a call under a running gang is repeated: it is every few, and each note is a write."""

REPEATABLE = frozenset({ErrorKind.UNKNOWN, ErrorKind.THROTTLED})
"""Failures that leave a launch Pending: it is looked up, then repeated with the same token."""

_SCARCE_FIRST = ("reserved", "capacity-block", "on-demand")


def token(spec: BookingSpec, purchase: str, number: int) -> str:
    """32 hex digits, unique to the n-th call (from 1) of one purchase of one attempt of one request. The last 8 are n."""
    text = "\0".join((spec.installation, spec.request.uid, str(spec.attempt), purchase, str(number)))
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}{number:08x}"


def tags(booking: Booking, purchase: BookedPurchase) -> dict[str, str]:
    """What every machine of a purchase is tagged with: enough to find it again without any memory."""
    return {
        TAG_INSTALLATION: booking.spec.installation,
        TAG_BOOKING: booking.metadata.name,
        TAG_PURCHASE: purchase.name,
        TAG_POOL: purchase.pool,
        TAG_SOURCE: purchase.source,
    }


def keys(spec: BookingSpec, pods: Mapping[str, int]) -> tuple[str, ...]:
    """The label keys of a node that holds `pods` (pods by pod set)."""
    return tuple(key for each in spec.pod_sets if pods.get(each.name, 0) > 0 for key in each.keys)


def order(booking: Booking, launch: Launch, cluster: str = "") -> Order:
    """The cloud call of a launch in the cluster of that uid. Nodes register booked: no pod can slip onto them."""
    purchase = next(each for each in booking.spec.purchases if each.name == launch.purchase)
    labels = {**purchase.labels, POOL_LABEL: purchase.pool, SOURCE_LABEL: purchase.source}
    return Order(
        token=launch.token,
        shape=purchase.shape,
        zone=purchase.zone,
        capacity_type=purchase.capacity_type,
        count=launch.count,
        reservation=purchase.reservation_id or None,
        domain=purchase.domain,
        labels=labels | marks.labels(booking.metadata.name, keys(booking.spec, purchase.pods)),
        annotations=marks.guards({}),
        taints=(Taint(BOOKED, "NoSchedule"),),
        tags=tags(booking, purchase) | ({TAG_CLUSTER: cluster} if cluster else {}),
    )


def to_make(view: View) -> Launch | None:
    """The pending call to be made, or to be repeated: none to a closed pool, nor for a gang of which nothing is replaced."""
    if view.status.phase == "Provisioned" and not view.replacing:
        return None
    open_ = (each for each in view.status.launches if each.purchase not in view.seen.closed)
    return next((each for each in open_ if each.state == "Pending"), None)


def repeated(view: View, launch: Launch) -> BookingStatus:
    """The status with a call that is made once more noted as made now, less often than it is: machines count from their call,
    and it may have an effect for a while after the last one.
    """
    due = view.age(launch.at) >= NOTED
    return with_launch(view.status, replace(launch, at=stamp(view.now))) if due else view.status


def first_launch(view: View) -> Launch | None:
    """The next purchase that has no launch yet, scarce capacity first; None when each has one.

    Reservations come in the order of their ids, and of the places in them: two installations that need the same ones then meet at
    the first, and whoever gets all of it gets the rest, too, instead of each holding what the other lacks.
    """
    begun = {launch.purchase for launch in view.status.launches}
    waiting = [each for each in view.spec.purchases if each.name not in begun]
    waiting.sort(key=_turn)
    return _launch(view, waiting[0], waiting[0].count) if waiting else None


def _turn(purchase: BookedPurchase) -> tuple[object, ...]:
    return _SCARCE_FIRST.index(purchase.capacity_type), purchase.reservation_id, sorted(purchase.domain.items()), purchase.name


def missing(view: View, purchase: BookedPurchase) -> int:
    """How many machines of a purchase are neither there nor under way."""
    return purchase.count - len(view.live(purchase.name)) - under_way(view.status, purchase)


def under_way(status: BookingStatus, purchase: BookedPurchase) -> int:
    """How many machines of a purchase are on order that haven't been seen so far."""
    return sum(
        max(0, launch.count - len(_of_token(status, launch.token)))
        for launch in status.launches
        if launch.purchase == purchase.name and launch.state == "Pending"
    )


def replacement(view: View) -> Launch | None:
    """A launch for machines that turned out bad or went away, unless the last try failed too lately or the pool is closed."""
    for purchase in view.spec.purchases:
        if purchase.name in view.seen.closed:
            continue
        short = missing(view, purchase)
        if short > 0 and _retry_due(view, purchase.name):
            return _launch(view, purchase, short)
    return None


def _retry_due(view: View, purchase: str) -> bool:
    """At once after the first refusal whose room was made since; else 30 s after it, then twice as long each time."""
    failures = refusals(view.status, purchase)
    if not failures or made_room(view.status, purchase, failures[-1].at):
        return True
    wait: int = min(view.terms.longest_retry, view.terms.retry * 2 ** min(len(failures) - 1, 10))
    return view.age(failures[-1].at) >= wait


def refusals(status: BookingStatus, purchase: str) -> list[Launch]:
    """The failed calls of a purchase since the last one that delivered, oldest first."""
    failures: list[Launch] = []
    for launch in status.launches:
        if launch.purchase == purchase and launch.state != "Pending":
            failures = [*failures, launch] if launch.state == "Failed" else []
    return failures


def made_room(status: BookingStatus, purchase: str, since: str) -> int:
    """Machines of the purchase that are gone since an instant: the cloud may sell their places again."""
    return sum(each.purchase == purchase and each.state == "Gone" and each.since > since for each in status.instances)


def with_order(status: BookingStatus, launch: Launch) -> BookingStatus:
    """The status with one more call, less the oldest refusals before it: the object must not outgrow what can be stored."""
    old = {each.token for each in refusals(status, launch.purchase)[:-KEPT]}
    return replace(status, launches=(*(each for each in status.launches if each.token not in old), launch))


def _launch(view: View, purchase: BookedPurchase, count: int) -> Launch:
    """Counts on from the last one that is remembered."""
    made = [each.token for each in view.status.launches if each.purchase == purchase.name]
    number = 1 + max([len(made), *(int(each[24:] or "0", 16) for each in made)])
    return Launch(
        purchase=purchase.name,
        token=token(view.spec, purchase.name, number),
        count=count,
        state="Pending",
        at=stamp(view.now),
    )


def answered(status: BookingStatus, launch: Launch, found: Sequence[Instance], now: datetime) -> BookingStatus:
    """The status after the cloud delivered `found`; fewer than asked is a failure that keeps what came."""
    known = {each.id for each in status.instances}
    fresh = tuple(new_instance(each, launch.purchase, launch, now) for each in found if each.id not in known)
    done = replace(launch, state="Answered")
    if len(found) < launch.count:
        words = f"{len(found)} of {launch.count} machines were delivered"
        done = replace(launch, state="Failed", at=stamp(now), reason=ErrorKind.CAPACITY.value, message=words)
    return replace(with_launch(status, done), instances=status.instances + fresh)


def refused(status: BookingStatus, launch: Launch, error: CloudError, now: datetime) -> BookingStatus:
    """The status after the cloud said no for certain. Not for REPEATABLE kinds: those change nothing."""
    failed = replace(launch, state="Failed", at=stamp(now), reason=error.kind.value, message=error.message[:1024])
    return with_launch(status, failed)


def with_launch(status: BookingStatus, launch: Launch) -> BookingStatus:
    return replace(status, launches=tuple(launch if each.token == launch.token else each for each in status.launches))


def new_instance(found: Instance, purchase: str, launch: Launch | None, now: datetime) -> BookedInstance:
    """The record of a machine seen for the first time. Already ended ones are Gone."""
    return BookedInstance(
        id=found.id,
        purchase=purchase,
        state="Gone" if found.state.ending else "Launched",
        provider_id=found.provider_id,
        since=stamp(now),
        token=found.token,
        launched_at=launch.at if launch else stamp(now),
    )


def _of_token(status: BookingStatus, wanted: str) -> list[BookedInstance]:
    return [each for each in status.instances if each.token == wanted]
