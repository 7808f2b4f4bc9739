from datetime import UTC, datetime

import pytest

from kube.core import StatusCondition
from kube.kueue import Workload, WorkloadStatus
from kube.meta import ObjectMeta
from provisioner.asking.owners import of_bare, of_workload
from provisioner.steps import Owner

BOOKED = datetime(2026, 9, 1, 10, 0, tzinfo=UTC)
EARLIER, LATER = "2026-09-01T09:59:00Z", "2026-09-01T10:05:00Z"


def workload(*conditions: tuple[str, str, str]) -> Workload:
    found = tuple(StatusCondition(type=t, status=s, last_transition_time=at) for t, s, at in conditions)
    return Workload(metadata=ObjectMeta(name="job", namespace="team"), status=WorkloadStatus(conditions=found))


QUOTA = ("QuotaReserved", "True", EARLIER)


@pytest.mark.parametrize(
    ("conditions", "request_there", "owner"),
    [
        pytest.param([QUOTA], True, Owner.WAITING, id="holds quota"),
        pytest.param([QUOTA, ("Admitted", "True", LATER)], True, Owner.ADMITTED, id="admitted"),
        pytest.param([QUOTA, ("Admitted", "True", LATER)], False, Owner.ADMITTED, id="admitted, its request deleted"),
        pytest.param([QUOTA, ("Finished", "True", LATER)], True, Owner.DONE, id="finished"),
        pytest.param([QUOTA, ("Evicted", "True", LATER)], True, Owner.WAITING, id="evicted, but its pods may still run"),
        pytest.param([("QuotaReserved", "False", LATER), ("Evicted", "True", LATER)], True, Owner.DONE, id="evicted"),
        pytest.param([], True, Owner.DONE, id="no quota at all"),
        pytest.param([("QuotaReserved", "True", LATER)], False, Owner.DONE, id="quota for a new attempt"),
        pytest.param([("QuotaReserved", "True", LATER)], True, Owner.WAITING, id="new quota, but the request is still there"),
        pytest.param([("QuotaReserved", "True", LATER)], None, Owner.WAITING, id="new quota, and the request is not known"),
    ],
)
def test_of_workload(conditions: list[tuple[str, str, str]], request_there: bool | None, owner: Owner) -> None:
    assert of_workload(workload(*conditions), request_there, BOOKED)[0] is owner


@pytest.mark.parametrize(
    ("quota", "owner"),
    [
        pytest.param([], Owner.UNKNOWN, id="Kueue has ended the old slice, and has yet to reserve quota for the new one"),
        pytest.param([QUOTA], Owner.ADMITTED, id="then it has"),
        pytest.param([("Evicted", "True", LATER)], Owner.DONE, id="the job was stopped"),
    ],
)
def test_of_a_slice_that_another_replaces(quota: list[tuple[str, str, str]], owner: Owner) -> None:
    old = workload(QUOTA, ("Admitted", "True", EARLIER), ("Finished", "True", LATER))
    assert of_workload(old, False, BOOKED, [workload(*quota)])[0] is owner


@pytest.mark.parametrize(
    ("request_there", "owner"),
    [(True, Owner.WAITING), (False, Owner.DONE), (None, Owner.UNKNOWN)],
)
def test_of_bare(request_there: bool | None, owner: Owner) -> None:
    assert of_bare(request_there)[0] is owner
