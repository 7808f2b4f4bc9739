"""From a plan to the Booking."""

import re
from datetime import timedelta

import pytest

from capacity.model import ZONE, CapacityType, Gang, Offering, Plan, PodSet, Purchase, Use
from capacity.model import Node as PlanNode
from kube import ours
from kube.meta import ObjectKey
from provisioner.asking.acceptance import Accepted
from provisioner.asking.parameters import terms
from provisioner.buying.drafts import booking_name, create_body, draft
from provisioner.telling.progress import Attempts
from tests.provisioner.make import H100, NOW, RACK, policy, request

TERMS = terms({}, lambda _: policy(timeouts={"queued": "1h", "provision": "40m", "booking": "15m"}))
GANG = Gang("team/job", (PodSet("main", 3, {"cpu": 8000, "pods": 1}),))
ACCEPTED = Accepted(GANG, TERMS, "digest", ObjectKey(namespace="team", name="job", uid="wl-uid"))
OFFERING = Offering("p/res", "p", "res", H100.shape, CapacityType.RESERVED, 4, 4, 0, {ZONE: "east", RACK: "a"}, "cr-1")
PLAN = Plan(
    GANG,
    (Use(PlanNode("n", "p", {}, {}), {"main": 1}),),
    (Purchase(OFFERING, 2, {"main": 1}),),
    cost=20_000_000,
    domains={ZONE: "east"},
)


def drafted(tries: Attempts) -> ours.Booking:
    return draft(
        request(),
        ACCEPTED,
        PLAN,
        tries,
        NOW,
        installation="here",
        giver=lambda _: "",
        provider_id=lambda name: f"sim:///{name}",
        node_labels={"p": {"team": "train"}}.__getitem__,
    )


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        pytest.param("job-llm", "job-llm", id="as-it-is"),
        pytest.param("a" * 240, "a" * 30, id="cut"),
        pytest.param("my.job_NAME", "my-job-name", id="made-safe"),
        pytest.param("x" * 29 + "-tail", "x" * 29, id="never-ends-in-a-dash"),
        pytest.param("...", "request", id="nothing-left"),
    ],
)
def test_the_name_is_a_label(name: str, readable: str) -> None:
    found = booking_name(request(metadata={"annotations": {"corral.dev/workload": name}}), 1)
    assert re.fullmatch(rf"{re.escape(readable)}-[0-9a-f]{{10}}", found)
    assert len(found) <= 45


def test_the_name_tells_attempts_and_incarnations_apart() -> None:
    names = {booking_name(request(uid=uid), attempt) for uid in ("a", "b") for attempt in (1, 2)}
    assert len(names) == 4
    assert booking_name(request(uid="a"), 1) == booking_name(request(uid="a"), 1)


def test_the_booking_of_a_plan() -> None:
    tries = Attempts(1, NOW - timedelta(minutes=10))
    made = drafted(tries)
    spec = made.spec
    assert (spec.attempt, spec.provision_deadline, spec.booking_seconds) == (2, "2026-09-01T10:30:00Z", 900)
    assert (spec.request.uid, spec.workload, spec.cost_per_hour) == ("req-uid", ACCEPTED.workload, "20.00")
    (pods,) = spec.pod_sets
    assert (pods.name, pods.count, pods.requests) == ("main", 3, {"cpu": 8000, "pods": 1})
    assert pods.label == f"{made.metadata.name}.booking.corral.dev/main"
    assert [(n.name, n.pool, n.pods, n.provider_id) for n in spec.nodes] == [("n", "p", {"main": 1}, "sim:///n")]
    (bought,) = spec.purchases
    assert (bought.name, bought.offering, bought.zone, bought.count) == ("p0", "p/res", "east", 2)
    assert (bought.reservation_id, bought.domain) == ("cr-1", {ZONE: "east", RACK: "a"})
    assert bought.labels == {"team": "train"}


def test_the_first_attempt_sets_the_deadline() -> None:
    made = drafted(Attempts())
    assert (made.spec.attempt, made.spec.provision_deadline) == (1, "2026-09-01T10:40:00Z")


def test_the_body_carries_the_finalizer_and_no_owner() -> None:
    body = create_body(drafted(Attempts()))
    assert body["metadata"]["finalizers"] == ["corral.dev/booking"]
    assert body["metadata"]["labels"] == {"corral.dev/request-uid": "req-uid", "corral.dev/workload-uid": "wl-uid"}
    assert "ownerReferences" not in body["metadata"]
    assert body["spec"]["podSets"][0]["name"] == "main"
