"""Protections of the product, each taken out by the smallest patch: the explorer's judge must speak then (test_taken_out.py).

A patch leaves all as it is but the one guard: a function returns what it would without it.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

from msgspec import structs

from kube.autoscaling import ProvisioningRequest
from kube.core import Node
from kube.ours import Booking, BookingSpec, Launch
from provisioner import lifecycle, observing, rules
from provisioner.asking import authority
from provisioner.bookings import BookingReconciler
from provisioner.buying import launches
from provisioner.buying.creation import Creator
from provisioner.clouds.base import Cloud, Order
from provisioner.ending import reaper
from provisioner.ending.notices import Notice
from provisioner.ending.reaper import Claims, Reaper
from provisioner.ending.sightings import Sightings
from provisioner.ending.stray import StrayMarks
from provisioner.nodes import hung, marks, verify
from provisioner.observing import Observer
from provisioner.planning import cases
from provisioner.requests import Planner
from provisioner.state import TAG_INSTALLATION, TAG_POOL
from provisioner.steps import Owner, Step, Verdict, View
from provisioner.telling import answers, statuses
from runtime import conditions
from runtime.client import Client
from runtime.controller import DONE, Result
from runtime.errors import NotFound
from runtime.fence import Fence
from runtime.lease import Elector
from tests.faults import gangs, scenes, wire
from tests.faults.kinds import Fault
from tests.faults.scenes import Scene
from tests.faults.stage import Outcome, Stage, play

Out = tuple[Any, str, Any]
"""Where, which name, and what stands there instead."""


def rule(name: str, **new: Any) -> Out:
    """Another step of this rule of the lifecycle, or other phases."""
    changed = (replace(each, **new) if each.name == name else each for each in lifecycle.RULES)
    return lifecycle, "RULES", tuple(changed)


# --- scenes that `make faults` doesn't play -------------------------------------------------------------------------------


def _lose_quota(stage: Stage) -> None:
    """Kueue takes it away, and the request stays, as if admission were down."""
    gang = stage.gangs[0]
    gang._set_workload(QuotaReserved="False", Evicted="True")
    gang.quota_lost = stage.at


_GIVEN_UP = (gangs.Order("job", 2, cancel=4),)
_NEVER_JOINS = ({"kind": "never-joins", "times": 1},)
_CANCELLED = {"job": "cancelled"}
SCENES: Mapping[str, Scene] = {
    "given-up": Scene(_GIVEN_UP, on_demand=2, spoilt=_NEVER_JOINS, ends=_CANCELLED),
    "given-up-prepaid": Scene(_GIVEN_UP, reserved=2, never=True, ends=_CANCELLED),
    "given-up-prepaid-bad": Scene(_GIVEN_UP, reserved=2, never=True, spoilt=_NEVER_JOINS, ends=_CANCELLED),
    "passed-on": Scene(
        (gangs.Order("a", 2), gangs.Order("b", 2, at=1, cancel=52)), on_demand=2, ends={"a": "done", "b": "cancelled"}
    ),
    "no-quota": Scene(
        (gangs.Order("job", 2, cancel=20),),
        on_demand=2,
        events=((0.0, scenes._mode("Paused")), (3.0, _lose_quota), (12.0, scenes._mode("Active"))),
        ends=_CANCELLED,
    ),
}


@cache
def played(scene: str, faults: tuple[Fault, ...], out: tuple[Out, ...] = ()) -> Outcome:
    """One run of the product without these protections."""
    with mock.patch.dict(scenes.SCENES, SCENES):
        return _without(out, lambda: play(scene, faults))


def _without(out: tuple[Out, ...], run: Callable[[], Outcome]) -> Outcome:
    if not out:
        return run()
    with mock.patch.object(*out[0]):
        return _without(out[1:], run)


# --- nothing is bought twice, unwritten, for nobody or out of place ---------------------------------------------------------

_take = BookingReconciler._take
_order, _token, _tags = launches.order, launches.token, launches.tags


async def _bought_at_once(self: BookingReconciler, booking: Booking, name: str, step: Any) -> Result:
    if name != "order":
        return await _take(self, booking, name, step)
    return await self._buy(structs.replace(booking, status=step.status), step.status.launches[-1].token, name)


async def _no(*_: Any) -> bool:
    return False


async def _nothing(*_: Any) -> None: ...


def _another_token(booking: Booking, launch: Launch, cluster: str = "") -> Order:
    return replace(_order(booking, launch, cluster), token=f"{random.getrandbits(128):032x}")


def _token_of_request(spec: BookingSpec, purchase: str, number: int) -> str:
    return _token(structs.replace(spec, attempt=1), purchase, number)


WRITE_AHEAD: Out = (BookingReconciler, "_take", _bought_at_once)
TOKEN: Out = (launches, "order", _another_token)
TOKEN_BY_ATTEMPT: Out = (launches, "token", _token_of_request)
LIVE_LOOK_BEFORE_NEXT_ATTEMPT: Out = (Creator, "_before", _no)
QUOTA: Out = (authority, "reserved", lambda *_: None)
NO_MORE_THAN_QUOTA: Out = (authority, "within", lambda *_: None)
QUOTA_STILL: Out = (cases, "still_reserved", lambda *_: True)
CLOSED_POOLS: Out = (Observer, "_closed", lambda *_: "")
NOTHING_FOR_FAILING = rule("buy", phases=("Launching", "Joining", "Provisioned", "Failing"))
LEFT: Out = (View, "replacing", property(lambda view: view.status.phase in ("Joining", "Provisioned")))
POOL_TAG: Out = (launches, "tags", lambda booking, purchase: {**_tags(booking, purchase), TAG_POOL: ""})
INSTALLATION_TAG: Out = (launches, "tags", lambda booking, purchase: {**_tags(booking, purchase), TAG_INSTALLATION: ""})

# --- nothing is taken away from those who need it ----------------------------------------------------------------------------

_listed, _evict = observing._listed, Client.evict


def _finish_unless_waiting(view: View) -> Step | None:
    over = not view.consumers and view.seen.owner is not Owner.WAITING
    return rules.into(view, "Releasing", "OwnerDone") if over else None


async def _all_listed(cloud: Cloud | None, _: Mapping[str, str]) -> object:
    return await _listed(cloud, {})


REAPERS_VETO: Out = (Reaper, "_booked", _no)
SECOND_SIGHTING: Out = (Sightings, "ripe", lambda _, orphans, *__: sorted(orphans))
STRANGERS: Out = (hung, "is_stranger", lambda *_, **__: False)
CERTAINTY_OF_THE_END = rule("finish", step=_finish_unless_waiting)
UID_OF_THE_POD: Out = (Client, "evict", lambda self, name, namespace, _: _evict(self, name, namespace, ""))
DRAIN_IN_TIME: Out = (Notice, "begun", lambda *_: True)
OWN_MACHINES: Out = (observing, "_listed", _all_listed)

# --- what is promised is there, and is told by the rules of the API ----------------------------------------------------------

_status_of, _set, _body = statuses.status_of, conditions.set_condition, statuses.apply_body


def _moved_always(told: Any, type_: str, *args: Any, **more: Any) -> Any:
    return _set([each for each in told if each["type"] != type_], type_, *args, **more)


def _without_reason(told: Any, type_: str, status: bool, _: str, message: str, **more: Any) -> Any:
    return _set(told, type_, status, "", message, **more)


def _without_version(request: ProvisioningRequest, status: statuses.Status, _: str = "") -> Mapping[str, Any]:
    return _body(request, status)


def _accept_in_other_words(self: statuses._Conditions) -> None:
    self.set("Taken", True, "Taken", "")


VERIFICATION: Out = (verify, "verdict", lambda *_: (Verdict.SOUND, ""))
VERSION_OF_ANSWERS: Out = (answers, "apply_body", _without_version)
NO_REFUSAL_IN_HINDSIGHT: Out = (cases, "_unaccepted", lambda case, judged, *_: replace(case, finding=judged))
WHAT_WAS_TOLD: Out = (statuses._Conditions, "true", lambda *_: False)
OUR_CONDITIONS: Out = (statuses._Conditions, "accept", _accept_in_other_words)
TRANSITION_TIMES: Out = (statuses, "set_condition", _moved_always)
REASONS: Out = (statuses, "set_condition", _without_reason)
GENERATION: Out = (answers, "status_of", lambda old, _, *more: _status_of(old, 0, *more))
CLOCK: Out = (Planner, "_wake", lambda *_: 1e6)

# --- nothing is left over, and others are left alone -------------------------------------------------------------------------

_drop, _reconcile = BookingReconciler._drop, BookingReconciler.reconcile
_orphaned, _mark = Claims.orphan, marks.mark_patch


async def _dropped_in_one(self: BookingReconciler, booking: Booking) -> None:
    if booking.metadata.deletion_timestamp is None:
        await _drop(self, booking)


async def _any_404_is_its_own(self: BookingReconciler, name: str) -> Result:
    try:
        return await _reconcile(self, name)
    except NotFound:
        return DONE


async def _renewing(self: Elector) -> None:
    while True:
        await asyncio.sleep(self._retry)
        await self._try()


@contextmanager
def _once(_: str) -> Iterator[None]:
    yield


def _orphan(self: Claims, machine: Any) -> bool:
    return machine.reservation is None and _orphaned(self, machine)


def _requests(self: Planner) -> list[ProvisioningRequest]:
    return sorted(self._state.requests.values(), key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid))


def _unseen(self: Creator) -> Mapping[str, Booking]:
    return {name: booking for name, (booking, _) in self._created.items()}


def _marks_beside(node: Node, wanted: Mapping[str, str], _: Any = ()) -> Mapping[str, Any]:
    return _mark(node, wanted)


FINALIZER_LATER: Out = (BookingReconciler, "_drop", _dropped_in_one)
NAME_IN_A_404: Out = (BookingReconciler, "reconcile", _any_404_is_its_own)
TRIED_AGAIN: Out = (reaper, "_tried_again", _once)
REAPER: Out = (Reaper, "_reap", _nothing)
PREPAID_WITHOUT_NODE: Out = (Claims, "orphan", _orphan)
STRAY_MARKS: Out = (StrayMarks, "turn", _nothing)
GIVERS_MARKS: Out = (marks, "mark_patch", _marks_beside)
SEEN_AT_LAST: Out = (Creator, "unseen", _unseen)
USERS_ANNOTATIONS: Out = (marks, "_unguarded", lambda _: {})
USERS_TAINTS: Out = (marks, "_other_taints", lambda _: [])
OUR_CLASS: Out = (Planner, "_requests", _requests)
LAUNCHED_NODES: Out = (marks, "launched", lambda _: True)
LEASE_OF_OTHERS: Out = (Elector, "_free", lambda *_: True)
STEPPING_DOWN: Out = (Elector, "_keep", _renewing)
FENCE: Out = (Fence, "check", lambda _: None)
GUARD: Out = (wire.Guard, "feed", lambda *_: None)
