"""Where a request stands. Accepted at 10:00; queued for an hour at most, 40 minutes to provide it from the first booking on."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kube import ours
from kube.meta import Condition
from provisioner.asking.parameters import terms
from provisioner.telling.progress import Attempts, Ended, Failed, Keep, Provisioned, Standing, ToPlan, Waiting, attempts, standing
from tests.provisioner.make import NOW, booking, machine, policy, purchase

TERMS = terms({}, lambda _: policy(timeouts={"queued": "1h", "provision": "40m", "booking": "15m"}))
ONE = Attempts(1, NOW, "InsufficientCapacity: no")
TWO = Attempts(2, NOW, "InsufficientCapacity: no")
AT = "2026-09-01T10:05:00Z"
FAILED: dict[str, Any] = {"phase": "Failed", "reason": "InsufficientCapacity", "message": "no", "phase_since": AT}


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("now", "provisioned", "tries", "newest", "expected"),
    [
        pytest.param(at(1), False, Attempts(), None, ToPlan(at(60)), id="to-be-planned"),
        pytest.param(at(70), False, Attempts(), None, ToPlan(at(60)), id="past-the-deadline-the-plan-decides"),
        pytest.param(
            at(1),
            False,
            ONE,
            booking("b", purchase(count=4)),
            Waiting("CapacityProvisioning", "0 of 4 machines ready; deadline 10:40Z (40m left)"),
            id="booked",
        ),
        pytest.param(
            at(1),
            False,
            ONE,
            booking("b", purchase(count=2), nodes=("n",), phase="Joining", marked_at=AT, instances=(machine(1, "Ready"),)),
            Waiting("CapacityProvisioning", "2 of 3 machines ready; deadline 10:40Z (40m left)"),
            id="joining",
        ),
        pytest.param(
            at(1),
            False,
            ONE,
            booking("b", phase="Failing", reason="InsufficientCapacity", message="no"),
            Waiting(
                "CapacityProvisioning",
                "attempt 1 failed and is rolled back: InsufficientCapacity: no; deadline 10:40Z (40m left)",
            ),
            id="rolling-back",
        ),
        pytest.param(at(6), False, ONE, booking("b", **FAILED), ToPlan(at(40), ONE.error), id="the-second-attempt-comes-at-once"),
        pytest.param(
            at(5) + timedelta(seconds=4),
            False,
            TWO,
            booking("b", **FAILED),
            Waiting(
                "GangIncomplete",
                "attempt 2 failed: InsufficientCapacity: no; the next one begins at 10:05:05Z; gives up at 10:40Z (35m left)",
                at(5) + timedelta(seconds=5),
            ),
            id="the-third-one-waits",
        ),
        pytest.param(at(5) + timedelta(seconds=5), False, TWO, booking("b", **FAILED), ToPlan(at(40), TWO.error), id="then-goes"),
        pytest.param(
            at(40),
            False,
            TWO,
            booking("b", **FAILED),
            Failed("GangIncomplete", "gave up after 2 attempts in 40m: InsufficientCapacity: no"),
            id="out-of-time",
        ),
        pytest.param(
            at(41),
            False,
            Attempts(1, NOW),
            None,
            Failed("GangIncomplete", "gave up after one attempt in 40m: its booking was removed"),
            id="its-booking-was-removed",
        ),
        pytest.param(
            at(41),
            False,
            ONE,
            booking("b", phase="Failing", reason="ProvisionTimeout", message="late"),
            Waiting(
                "CapacityProvisioning", "attempt 1 failed and is rolled back: ProvisionTimeout: late; deadline 10:40Z (0s left)"
            ),
            id="out-of-time-but-not-rolled-back-yet",
        ),
        pytest.param(at(9), True, ONE, None, Ended("BookingExpired", "the booking is gone"), id="provisioned-and-gone"),
        pytest.param(at(9), True, ONE, booking("b", **FAILED), Keep(), id="never-failed-after-provisioned"),
    ],
)
def test_standing(now: datetime, provisioned: bool, tries: Attempts, newest: ours.Booking | None, expected: Standing) -> None:
    assert standing(TERMS, NOW, provisioned, tries, newest, now) == expected


@pytest.mark.parametrize("provisioned", [False, True])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Provisioned"}, Provisioned, id="provisioned"),
        pytest.param({"phase": "Provisioned", "reason": "CapacityRevoked", "message": "lost"}, "CapacityRevoked", id="revoked"),
        pytest.param({"phase": "Released", "reason": "BookingExpired", "message": "no pods"}, "BookingExpired", id="expired"),
        pytest.param({"phase": "Releasing", "reason": "OwnerDone", "message": "finished"}, "BookingExpired", id="given-back"),
    ],
)
def test_after_provisioned(status: dict[str, Any], expected: Any, provisioned: bool) -> None:
    made = booking("b", provisioned_at=AT, **status)
    found = standing(TERMS, NOW, provisioned, ONE, made, at(6))
    if isinstance(expected, str):
        assert found == Ended(expected, status["message"], made)
    else:
        assert found == Provisioned(made)


READY = (machine(1, "Ready"), machine(2, "Ready"))
LOST = Condition(type="NodeLost", status="True", reason="NodeLost", message="node a is gone", last_transition_time=AT)


@pytest.mark.parametrize(
    ("status", "whole"),
    [
        pytest.param({"instances": READY}, True, id="all ready"),
        pytest.param({"instances": (*READY, machine(3, "Bad"))}, True, id="a bad one was replaced before"),
        pytest.param({"instances": (machine(1, "Ready"), machine(2, "Bad"))}, False, id="one went bad"),
        pytest.param({"instances": (machine(1, "Ready"), machine(2, "Joined"))}, False, id="its replacement joins"),
        pytest.param({"instances": READY, "conditions": (LOST,)}, False, id="a taken node is gone"),
    ],
)
def test_no_more_is_promised_than_is_there_and_what_was_promised_stays_so(status: dict[str, Any], whole: bool) -> None:
    made = booking("b", purchase(), phase="Provisioned", provisioned_at=AT, **status)
    assert isinstance(standing(TERMS, NOW, False, ONE, made, at(6)), Provisioned if whole else Waiting)
    assert standing(TERMS, NOW, True, ONE, made, at(6)) == Provisioned(made)


@pytest.mark.parametrize(
    ("limits", "states", "expected"),
    [
        pytest.param({}, ("Launched",), ", to join by the deadline at the latest", id="none of its own"),
        pytest.param({}, ("Joined",), ", to be verified by the deadline at the latest", id="joined"),
        pytest.param({}, ("Launched", "Joined"), ", to join and be verified by the deadline at the latest", id="both"),
        pytest.param({"join_seconds": 1200}, ("Launched",), ", to join by 10:25Z (20m left)", id="a time to join"),
        pytest.param(
            {"join_seconds": 1200},
            ("Launched", "Joined"),
            ", to join by 10:25Z (20m left), to be verified by the deadline at the latest",
            id="a time to join alone",
        ),
        pytest.param(
            {"verify_seconds": 600},
            ("Launched", "Joined"),
            ", to be verified by 10:15Z (10m left), to join by the deadline at the latest",
            id="a time to be verified alone",
        ),
        pytest.param({}, ("Ready", "Ready"), "", id="nothing is awaited"),
    ],
)
def test_how_long_machines_may_take(limits: dict[str, int], states: tuple[str, ...], expected: str) -> None:
    machines = tuple(machine(number, state, launched_at=AT, joined_at=AT) for number, state in enumerate(states))
    made = booking("b", purchase(), phase="Joining", phase_since=AT, instances=machines)
    made = replace(made, spec=replace(made.spec, **limits))
    found = standing(TERMS, NOW, False, ONE, made, at(5))
    assert isinstance(found, Waiting)
    ready = states.count("Ready")
    assert found.message == f"{ready} of 2 machines ready{expected}; deadline 10:40Z (35m left)"


def test_what_is_given_back_says_until_when() -> None:
    status: dict[str, Any] = {
        "reason": "BookingExpired",
        "message": "no pod came within 15m",
        "provisioned_at": AT,
        "phase_since": AT,
    }
    going, gone = (booking("b", phase=phase, **status) for phase in ("Releasing", "Released"))
    assert standing(TERMS, NOW, True, ONE, going, at(6)) == Ended(
        "BookingExpired", "no pod came within 15m; it is to be given back by 10:35Z", going
    )
    assert standing(TERMS, NOW, True, ONE, gone, at(6)) == Ended("BookingExpired", "no pod came within 15m", gone)


def test_attempts_outlive_their_bookings() -> None:
    bookings = [booking("two", attempt=2, **FAILED), booking("one", attempt=1, **{**FAILED, "message": "older"})]
    assert attempts(Attempts(), bookings) == Attempts(2, NOW, "InsufficientCapacity: no")
    assert attempts(Attempts(3, at(-5), "before"), bookings[:1]) == Attempts(3, at(-5), "InsufficientCapacity: no")
    assert attempts(Attempts(3, at(-5), "before"), []) == Attempts(3, at(-5), "before")
