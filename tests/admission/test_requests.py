from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from admission.gang import Member
from admission.model import Condition
from admission.requests import Attempt, fingerprint, pod_template, provisioning_request, same, seen
from kube.kueue import Workload
from tests.admission.objects import UID, assignment, condition, stored, workload

Json = dict[str, Any]
MEMBERS = (Member("driver", 1, {"spec": {"a": 1}}), Member("workers", 8, {"spec": {"b": 2}}))


def attempt(given: Workload | None = None, *, number: int = 1, check: str = "capacity", **changes: Any) -> Attempt:
    given = given or workload()
    made = Attempt(given, check, number, fingerprint(given, check, number), {"policy": "training"}, MEMBERS, {"trace": "t"})
    return replace(made, **changes)


def test_objects_of_an_attempt() -> None:
    made = attempt()
    assert made.name.startswith("job-llm-12345-")
    assert pod_template(made, 1) == {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": f"{made.name}-1",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/managed": "true", "corral.dev/workload-uid": UID, "corral.dev/pod-set": "workers"},
            "ownerReferences": [
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Workload",
                    "name": "job-llm-12345",
                    "uid": UID,
                    "controller": True,
                }
            ],
        },
        "template": {"spec": {"b": 2}},
    }
    assert provisioning_request(attempt(number=2), "uid-0") == {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": attempt(number=2).name,
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/managed": "true", "corral.dev/workload-uid": UID},
            "annotations": {
                "corral.dev/workload": "job-llm-12345",
                "corral.dev/admission-check": "capacity",
                "corral.dev/attempt": "2",
                "corral.dev/admission-hash": attempt(number=2).fingerprint,
                "corral.dev/pod-sets": "driver,workers",
                "trace": "t",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "PodTemplate",
                    "name": f"{attempt(number=2).name}-0",
                    "uid": "uid-0",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "provisioningClassName": "gang.corral.dev",
            "parameters": {"policy": "training"},
            "podSets": [
                {"podTemplateRef": {"name": f"{attempt(number=2).name}-0"}, "count": 1},
                {"podTemplateRef": {"name": f"{attempt(number=2).name}-1"}, "count": 8},
            ],
        },
    }


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        pytest.param("w" * 240, "w" * 30, id="240 characters (W13)"),
        pytest.param("a.b.c", "a-b-c", id="dots"),
        pytest.param("w" * 29 + "-x", "w" * 29, id="no dash at the cut"),
    ],
)
def test_names_fit_a_label(name: str, prefix: str) -> None:
    made = attempt(workload(name=name))
    assert made.name.rpartition("-")[0] == prefix
    assert len(pod_template(made, 1)["metadata"]["name"]) <= 63


CHANGES: list[Any] = [
    pytest.param(lambda: attempt(workload(uid="0" * 36)), id="same-named workload made again (W11)"),
    pytest.param(lambda: attempt(number=2), id="next attempt"),
    pytest.param(lambda: attempt(check="other"), id="another check (W12)"),
    pytest.param(lambda: attempt(workload(assignments=[assignment(flavor="spot")])), id="another flavor (W5)"),
    pytest.param(lambda: attempt(workload(assignments=[assignment(count=3)])), id="another count"),
    pytest.param(
        lambda: attempt(workload(conditions=[condition("QuotaReserved", since="2026-09-01T12:30:00Z")])),
        id="another reservation (W7)",
    ),
]


@pytest.mark.parametrize("changed", CHANGES)
def test_what_makes_another_attempt(changed: Callable[[], Attempt]) -> None:
    assert changed().fingerprint != attempt().fingerprint
    assert changed().name != attempt().name


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"parameters": {"policy": "other"}}, id="parameters"),
        pytest.param({"members": MEMBERS[:1]}, id="members"),
        pytest.param({"members": (MEMBERS[0], Member("workers", 8, {"spec": {"b": 3}}))}, id="template"),
    ],
)
def test_settings_don_t_supersede_an_attempt_but_change_the_name(changed: dict[str, Any]) -> None:
    """A running attempt is never touched by an edit; yet what is written anew is never mistaken for what was written before."""
    assert attempt(**changed).fingerprint == attempt().fingerprint
    assert attempt(**changed).name != attempt().name


def test_the_same_attempt_has_the_same_name() -> None:
    assert attempt().name == attempt(workload()).name
    assert attempt(workload(conditions=[condition("QuotaReserved"), condition("Evicted", "False")])).name == attempt().name


WANTED = provisioning_request(attempt(), "uid-0")


@pytest.mark.parametrize(
    ("meta", "spec", "expected"),
    [
        pytest.param({}, {}, True, id="ours"),
        pytest.param({"annotations": {**WANTED["metadata"]["annotations"], "more": "x"}}, {}, True, id="annotated by others"),
        pytest.param({"ownerReferences": []}, {}, False, id="without owner"),
        pytest.param({"ownerReferences": [{"kind": "PodTemplate", "uid": "old"}]}, {}, False, id="owner made anew"),
        pytest.param({"labels": {}}, {}, False, id="without labels"),
        pytest.param(
            {"annotations": {**WANTED["metadata"]["annotations"], "corral.dev/pod-sets": "x"}}, {}, False, id="other marks"
        ),
        pytest.param({}, {"parameters": {"policy": "generous"}}, False, id="other parameters"),
        pytest.param({"deletionTimestamp": "2026-09-01T12:00:00Z"}, {}, False, id="on its way out"),
    ],
)
def test_whose_request_it_is(meta: Json, spec: Json, expected: bool) -> None:
    found = {**WANTED, "metadata": {**WANTED["metadata"], **meta}, "spec": {**WANTED["spec"], **spec}}
    assert same(WANTED, found) is expected


def test_a_request_as_the_decision_sees_it() -> None:
    status = {"conditions": [condition("Provisioned")], "provisioningClassDetails": {"Booking": "b"}}
    found = seen(stored(WANTED, uid="u", **status))
    assert (found.name, found.uid, found.fingerprint, found.booking) == (attempt().name, "u", attempt().fingerprint, "b")
    assert found.pod_sets == ("driver", "workers")
    assert found.templates == (f"{found.name}-0", f"{found.name}-1")
    assert found.conditions == {"Provisioned": Condition(True, "Provisioned", "")}
    assert not found.deleting
    assert not found.uncounted
    failed = seen(stored(WANTED, uid="u", provisioningClassDetails={"Uncounted": "true"}))
    assert failed.uncounted
