"""One request as a pass sees it, also after a restart."""

from datetime import timedelta
from typing import Any

import pytest

from kube import ours
from kube.autoscaling import ProvisioningRequest
from kube.meta import decode
from provisioner.asking.acceptance import Accepted, NotYet, Refused, judge
from provisioner.planning.cases import Case, case_of
from provisioner.telling.progress import Ended, Provisioned, Waiting
from provisioner.telling.statuses import Status, stored
from tests.provisioner.asking.test_acceptance import desk
from tests.provisioner.make import NOW, booking, purchase, request, workload


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": type_, "message": "m", "lastTransitionTime": "2026-09-01T09:50:00Z"}


def asked(*types: str) -> ProvisioningRequest:
    return decode({**request().to_json(), "status": {"conditions": [condition(each) for each in types]}}, ProvisioningRequest)


def case(of: ProvisioningRequest, *bookings: ours.Booking, known: Accepted | None = None, **more: Any) -> Case:
    return case_of(of, stored(of), known, bookings, desk(**more), NOW)


def test_a_new_request_is_to_be_planned_for_its_queue_time() -> None:
    found = case(request())
    assert found.todo is not None
    assert (found.todo.deadline - NOW).total_seconds() == 24 * 3600
    assert found.finding is None


def test_the_clock_of_an_accepted_one_runs_on() -> None:
    found = case(asked("Accepted"))
    assert found.todo is not None
    assert (found.todo.deadline - NOW).total_seconds() == 24 * 3600 - 600


@pytest.mark.parametrize(
    ("of", "bookings", "more", "kind"),
    [
        pytest.param(request(), [], {"templates": []}, NotYet, id="template-lags"),
        pytest.param(request(parameters={"x": "y"}), [], {}, Refused, id="bad-parameter"),
        pytest.param(asked("Accepted"), [booking("b", purchase())], {}, Waiting, id="booked"),
        pytest.param(asked("Accepted"), [booking("b", phase="Provisioned", provisioned_at="x")], {}, Provisioned, id="done"),
        pytest.param(
            asked("Accepted", "Provisioned"),
            [booking("b", phase="Released", provisioned_at="x", reason="BookingExpired")],
            {},
            Ended,
            id="expired",
        ),
        pytest.param(asked("Accepted", "Provisioned"), [], {}, Ended, id="its-booking-is-gone"),
        pytest.param(asked("Accepted", "Provisioned", "BookingExpired"), [], {}, type(None), id="said-already"),
        pytest.param(asked("Failed"), [], {}, type(None), id="failed-is-the-end"),
        pytest.param(asked("Accepted", "Provisioned", "CapacityRevoked"), [], {}, type(None), id="revoked-is-the-end"),
        pytest.param(
            asked("Accepted"),
            [booking("b", phase="Provisioned", provisioned_at="x")],
            {"policies": []},
            Provisioned,
            id="done-though-its-policy-is-gone",
        ),
        pytest.param(
            asked("Accepted", "Provisioned"),
            [booking("b", phase="Released", provisioned_at="x", reason="BookingExpired")],
            {"workloads": []},
            Ended,
            id="expired-though-its-workload-is-gone",
        ),
        pytest.param(asked("Accepted"), [booking("b", purchase())], {"policies": []}, Waiting, id="booked-without-policy"),
        pytest.param(asked("Accepted"), [], {"policies": []}, type(None), id="its-policy-may-come-back"),
        pytest.param(asked("Accepted"), [], {"templates": []}, type(None), id="nothing-is-refused-in-hindsight"),
        pytest.param(asked("Accepted"), [], {"workloads": []}, type(None), id="nor-for-lack-of-its-workload"),
    ],
)
def test_what_is_found(of: ProvisioningRequest, bookings: list[ours.Booking], more: dict[str, Any], kind: type) -> None:
    found = case(of, *bookings, **more)
    assert isinstance(found.finding, kind)
    assert found.todo is None


def test_a_policy_that_is_gone_for_good_ends_the_wait() -> None:
    of = asked("Accepted")
    found = case_of(of, stored(of), None, (), desk(policies=[]), NOW + timedelta(minutes=2))
    assert isinstance(found.finding, Refused)
    assert found.finding.reason == "NoPolicy"


def test_later_edits_change_nothing() -> None:
    known = judge(request(), desk(), NOW)
    assert isinstance(known, Accepted)
    found = case(request(parameters={"x": "y"}), known=known, templates=[])
    assert found.accepted is known
    assert found.todo is not None


def test_no_plan_without_quota() -> None:
    known = judge(request(), desk(), NOW)
    assert isinstance(known, Accepted)
    evicted = workload(conditions={"QuotaReserved": "False", "Evicted": "True"})
    found = case(asked("Accepted"), known=known, workloads=[evicted])
    assert (found.todo, found.finding) == (None, None)


def test_attempts_come_from_details_and_bookings() -> None:
    old = Status(stored(asked("Accepted")).conditions, {"Attempt": "3", "FirstAttemptAt": "2026-09-01T09:55:00Z"})
    found = case_of(asked("Accepted"), old, None, [], desk(), NOW)
    assert found.tries.made == 3
    assert found.todo is not None
    assert (found.todo.deadline - NOW).total_seconds() == 40 * 60 - 300
