"""What the state tells of a booking's gang."""

from typing import Any

import pytest
from msgspec.structs import replace

from capacity.model import Holder, Running
from capacity.requirements import HostPort
from kube import ours
from kube.kueue import Workload
from kube.meta import ObjectKey, OwnerReference, decode
from provisioner.planning.company import holder_of, left_of, pods_of
from tests.provisioner.make import NOW, booking, policy, request, template, workload
from tests.provisioner.world_of_requests import World

START = int(NOW.timestamp())
JOB = OwnerReference(kind="Job", name="llm", controller=True)


def world() -> World:
    return World(lambda: NOW)


def held(*, bare: bool = False, **status: Any) -> ours.Booking:
    """A booking of request req, for Workload job unless it is bare."""
    made = booking("b", **status)
    owner = None if bare else ObjectKey(namespace="team", name="job", uid="wl-uid")
    return replace(made, spec=replace(made.spec, workload=owner))


def test_pods_are_as_their_templates_show_them() -> None:
    there = world()
    there.ask()
    port = [{"name": "c", "ports": [{"hostPort": 80}]}]
    there.add(template(pod_labels={"app": "x"}, spec={"containers": port}))
    assert pods_of(held(), there.state) == {"main": Running("team", {"app": "x"}, (HostPort(80),))}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(None, id="request gone"),
        pytest.param(request(uid="another"), id="request made anew"),
        pytest.param(request(templates=("gone",)), id="template gone"),
    ],
)
def test_what_is_gone_is_left_out(asked: Any) -> None:
    there = world()
    if asked is not None:
        there.add(asked)
    assert pods_of(held(), there.state) == {}


@pytest.mark.parametrize(
    ("owners", "bare", "title"),
    [
        pytest.param((JOB,), False, "job/llm", id="the job"),
        pytest.param((replace(JOB, controller=None),), False, "job", id="no controller: the Workload"),
        pytest.param((JOB,), True, "req", id="a bare request"),
    ],
)
def test_a_holder_has_a_name_for_people(owners: tuple[OwnerReference, ...], title: str, *, bare: bool) -> None:
    there, work = world(), workload()
    there.add(replace(work, metadata=replace(work.metadata, owner_references=owners)))
    assert holder_of(held(bare=bare), there.state) == Holder(title)


@pytest.mark.parametrize(
    ("run_time", "first_pod", "ends"),
    [
        pytest.param("1h", "2026-09-01T10:00:00Z", START + 3600, id="known and started"),
        pytest.param(
            "1h", None, START + 40 * 60 + 15 * 60 + 3600, id="not started: by the deadline and the booking's time at last"
        ),
        pytest.param("Unknown", "2026-09-01T10:00:00Z", None, id="run time unknown"),
    ],
)
def test_a_holder_ends_when_its_run_time_is_over(run_time: str, first_pod: str | None, ends: int | None) -> None:
    there = world()
    there.add(policy(runDuration={"default": run_time}))
    there.ask()
    assert holder_of(held(first_pod_at=first_pod), there.state).ends == ends


@pytest.mark.parametrize(
    ("uid", "over", "conditions", "left"),
    [
        pytest.param("wl-uid", None, {}, 2, id="none is over"),
        pytest.param("wl-uid", 3, {}, 1, id="three of the four of its Workload are"),
        pytest.param("wl-uid", 1, {}, 2, id="one was over before it was booked"),
        pytest.param("wl-uid", None, {"Finished": "True"}, 0, id="finished"),
        pytest.param("another", 4, {}, 2, id="a Workload made anew"),
    ],
)
def test_pods_that_are_not_over(uid: str, over: int | None, conditions: dict[str, str], left: int) -> None:
    """The booking holds two of the Workload's four pods."""
    there = world()
    raw = workload(uid=uid, conditions={"QuotaReserved": "True", **conditions}).to_json()
    raw["status"]["reclaimablePods"] = [] if over is None else [{"name": "main", "count": over}]
    there.add(decode(raw, Workload))
    assert left_of(held(), there.state) == {"main": left}


def test_of_a_bare_request_all_pods_are_left() -> None:
    assert left_of(held(bare=True), world().state) == {"main": 2}


def test_without_a_policy_its_run_time_is_unknown() -> None:
    there = world()
    there.ask(parameters={"policy": "gone"})
    assert holder_of(held(first_pod_at="2026-09-01T10:00:00Z"), there.state).ends is None
