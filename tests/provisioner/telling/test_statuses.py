"""The status of a request as one whole: every condition in each write, times that move only with the status."""

from datetime import timedelta
from typing import Any

import pytest

from kube.autoscaling import ProvisioningRequest
from kube.meta import decode
from provisioner.asking.acceptance import NotYet, Refused
from provisioner.nodes import marks
from provisioner.telling.progress import Attempts, Ended, Failed, Provisioned, Taken, Waiting
from provisioner.telling.statuses import Finding, Status, apply_body, news, status_of, stored
from tests.provisioner.make import NOW, booking, on_demand, purchase, request

NONE = Attempts()
WAITING = Waiting("GangIncomplete", "2 of 4 pods can be had now")
DONE = Provisioned(booking("b", purchase(count=1), on_demand("p1", 2), nodes=("n",), phase="Provisioned"))


def after(*findings: Finding, tries: Attempts = NONE) -> Status:
    """The status after each of the findings, a minute apart."""
    status = Status()
    for minute, finding in enumerate(findings):
        status = status_of(status, 1, finding, tries, NOW + timedelta(minutes=minute))
    return status


def said(status: Status) -> dict[str, tuple[Any, ...]]:
    return {c["type"]: (c["status"], c["reason"], c["lastTransitionTime"][11:16]) for c in status.conditions}


@pytest.mark.parametrize("uncounted", [False, True])
def test_a_failure_says_whether_it_should_count(uncounted: bool) -> None:
    assert after(Failed("TopologyUnsatisfied", "x", uncounted)).details == ({"Uncounted": "true"} if uncounted else {})


ACCEPTED = ("True", "Accepted", "10:00")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        pytest.param([NotYet("MissingPodTemplates", "x")], {"Accepted": ("False", "MissingPodTemplates", "10:00")}, id="not-yet"),
        pytest.param([Refused("InvalidArgument", "x")], {"Failed": ("True", "InvalidArgument", "10:00")}, id="refused"),
        pytest.param(
            [NotYet("NoQuota", "x"), WAITING],
            {"Accepted": ("True", "Accepted", "10:01"), "Provisioned": ("False", "GangIncomplete", "10:01")},
            id="accepted-late",
        ),
        pytest.param(
            [WAITING, Waiting("CapacityProvisioning", "0 of 4")],
            {"Accepted": ACCEPTED, "Provisioned": ("False", "CapacityProvisioning", "10:00")},
            id="another-reason-is-no-transition",
        ),
        pytest.param([Taken()], {"Accepted": ACCEPTED}, id="accepted-and-not-planned-yet"),
        pytest.param([WAITING, DONE], {"Accepted": ACCEPTED, "Provisioned": ("True", "Provisioned", "10:01")}, id="provisioned"),
        pytest.param(
            [WAITING, DONE, WAITING, Failed("GangIncomplete", "x"), Refused("InvalidArgument", "x")],
            {"Accepted": ACCEPTED, "Provisioned": ("True", "Provisioned", "10:01")},
            id="provisioned-is-never-taken-back",
        ),
        pytest.param(
            [WAITING, Failed("TopologyUnsatisfied", "x")],
            {
                "Accepted": ACCEPTED,
                "Provisioned": ("False", "GangIncomplete", "10:00"),
                "Failed": ("True", "TopologyUnsatisfied", "10:01"),
            },
            id="failed",
        ),
        pytest.param(
            [DONE, Ended("BookingExpired", "no pods", DONE.booking)],
            {
                "Accepted": ACCEPTED,
                "Provisioned": ("True", "Provisioned", "10:00"),
                "BookingExpired": ("True", "BookingExpired", "10:01"),
            },
            id="expired",
        ),
        pytest.param(
            [WAITING, Ended("CapacityRevoked", "lost", DONE.booking)],
            {
                "Accepted": ACCEPTED,
                "Provisioned": ("True", "Provisioned", "10:01"),
                "CapacityRevoked": ("True", "CapacityRevoked", "10:01"),
            },
            id="revoked-before-we-could-say-provisioned",
        ),
    ],
)
def test_conditions(findings: list[Finding], expected: dict[str, tuple[str, ...]]) -> None:
    assert said(after(*findings)) == expected


def test_the_details_come_with_provisioned() -> None:
    tries = Attempts(2, NOW, "InsufficientCapacity: no")
    assert after(WAITING, tries=tries).details == {
        "Attempt": "2",
        "FirstAttemptAt": "2026-09-01T10:00:00Z",
        "LastError": "InsufficientCapacity: no",
    }
    found = after(WAITING, DONE, tries=tries)
    assert (found.details["Booking"], found.details["CostPerHour"]) == ("b", "20.00")
    assert found.details["RequestLabel"] == marks.labels("b", ())[marks.REQUEST]
    assert found.details["NodesByPodSet"] == '{"main": 4}'


def test_attempts_are_read_back() -> None:
    tries = Attempts(2, NOW, "no")
    assert after(WAITING, tries=tries).attempts == tries
    assert Status(details={"Attempt": "two"}).attempts == Attempts()


@pytest.mark.parametrize(
    ("booked", "expected"),
    [
        pytest.param({}, "; it expires at 10:15Z unless its workload is admitted or a pod comes before", id="awaited"),
        pytest.param({"provisioned_at": "2026-09-01T23:50:00Z"}, "; it expires at 2026-09-02 00:05Z unless", id="another day"),
        pytest.param({"first_pod_at": "2026-09-01T10:01:00Z"}, "", id="its pods are there"),
    ],
)
def test_provisioned_says_when_the_booking_expires(booked: dict[str, str], expected: str) -> None:
    made = booking("b", purchase(), phase="Provisioned", **{"provisioned_at": "2026-09-01T10:00:00Z", **booked})
    message = next(each["message"] for each in after(Provisioned(made)).conditions if each["type"] == "Provisioned")
    assert message.startswith(f"all 2 machines are ready, booked as b{expected}")
    assert expected or message.endswith("booked as b")


def test_what_has_ended_no_longer_expires() -> None:
    made = booking("b", purchase(), phase="Releasing", provisioned_at="2026-09-01T10:00:00Z")
    found = after(Ended("BookingExpired", "no pods", made)).conditions
    assert next(each["message"] for each in found if each["type"] == "Provisioned") == "all 2 machines are ready, booked as b"


def test_only_our_conditions_are_ours() -> None:
    foreign = {
        "type": "Provisioning",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "2026-09-01T10:00:00Z",
    }
    asked = decode({**request().to_json(), "status": {"conditions": [foreign]}}, ProvisioningRequest)
    assert stored(asked) == Status()
    body = apply_body(asked, after(WAITING))
    assert [c["type"] for c in body["status"]["conditions"]] == ["Accepted", "Provisioned"]
    assert body["metadata"] == {"name": "req", "namespace": "team", "uid": "req-uid"}


def test_what_was_written_is_read_back_the_same() -> None:
    written = after(WAITING, DONE, tries=Attempts(1, NOW))
    asked = decode({**request().to_json(), "status": apply_body(request(), written)["status"]}, ProvisioningRequest)
    assert stored(asked) == written


@pytest.mark.parametrize(
    ("before", "finding", "expected"),
    [
        pytest.param([], WAITING, ("Normal", "GangIncomplete", WAITING.message), id="waiting"),
        pytest.param([WAITING], Waiting("GangIncomplete", "3 of 4"), None, id="other-numbers-are-no-news"),
        pytest.param([WAITING], Failed("GangIncomplete", "x"), ("Warning", "GangIncomplete", "x"), id="failed"),
        pytest.param([], NotYet("NoQuota", "x"), ("Warning", "NoQuota", "x"), id="not-yet"),
        pytest.param([WAITING], DONE, ("Normal", "Provisioned", "all 4 machines are ready, booked as b"), id="provisioned"),
        pytest.param([DONE], Ended("CapacityRevoked", "x"), ("Warning", "CapacityRevoked", "x"), id="revoked"),
        pytest.param([DONE], Ended("BookingExpired", "x"), ("Normal", "BookingExpired", "x"), id="expired"),
    ],
)
def test_news(before: list[Finding], finding: Finding, expected: object) -> None:
    old = after(*before)
    assert news(old, status_of(old, 1, finding, NONE, NOW)) == expected
