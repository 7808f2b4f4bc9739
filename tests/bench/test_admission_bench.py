"""What bench/admission counts from an audit log, and how it judges and keeps what was measured."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bench.admission import scene
from bench.admission.audit import KUEUE, OURS, Writes, writes
from bench.admission.measure import Latency, Load, Pace
from bench.admission.report import Row, part, write

IN_TREE = "kueue.x-k8s.io/provisioning-request"


def line(
    verb: str, resource: str, user: str, *, manager: str = "", code: int = 200, namespace: str = "load", **more: Any
) -> bytes:
    name, _, sub = resource.partition("/")
    reference = {"resource": name, "subresource": sub, "namespace": namespace}
    uri = f"/x?fieldManager={quote(manager, safe='')}&force=true" if manager else "/x"
    event = {
        "verb": verb,
        "user": {"username": user},
        "objectRef": reference,
        "responseStatus": {"code": code},
        "requestURI": uri,
    }
    return json.dumps(event | more).encode()


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        pytest.param(line("create", "podtemplates", OURS), "create podtemplates", id="ours"),
        pytest.param(
            line("patch", "workloads/status", OURS, manager="corral-admission"), "patch workloads/status", id="our-entry"
        ),
        pytest.param(line("update", "podtemplates", KUEUE), "update podtemplates", id="in-tree-template"),
        pytest.param(line("patch", "jobs", KUEUE), None, id="kueue-lets-a-job-go"),
        pytest.param(line("patch", "workloads/status", KUEUE, manager=IN_TREE), "patch workloads/status", id="in-tree-entry"),
        pytest.param(line("patch", "workloads/status", KUEUE, manager="kueue-admission"), None, id="kueue-s-core"),
        pytest.param(line("update", "workloads/status", KUEUE), None, id="kueue-s-list-of-checks"),
        pytest.param(line("patch", "provisioningrequests/status", "admin"), None, id="the-provisioner"),
        pytest.param(line("create", "podtemplates", OURS, namespace="single-1"), None, id="another-measure"),
    ],
)
def test_the_writes_of_the_check_alone_count(given: bytes, counted: str | None) -> None:
    assert writes([given], "load").by_kind == Counter([counted] if counted else [])


@pytest.mark.parametrize(
    ("since", "counted"), [pytest.param("", 3, id="all"), pytest.param("2026-11-30T10:00:00.5Z", 2, id="since")]
)
def test_everybody_s_writes_count_from_the_beginning_of_the_load(since: str, counted: int) -> None:
    lines = [
        line("create", "jobs", "admin", requestReceivedTimestamp="2026-11-30T10:00:00.400000Z"),
        line("update", "jobs", KUEUE, requestReceivedTimestamp="2026-11-30T10:00:00.600000Z"),
        line("create", "events", OURS, requestReceivedTimestamp="2026-11-30T10:00:01.000000Z"),
    ]
    assert writes(lines, "load", since).everybody == counted


def test_what_is_refused_counts_and_events_are_told_by_reason() -> None:
    found = writes(
        [
            line("patch", "workloads/status", OURS, manager="corral-admission", code=409),
            line("create", "events", OURS, requestObject={"reason": "AdmissionCheckUpdated"}),
            line("create", "events", KUEUE, requestObject={"reason": "QuotaReserved"}),
        ],
        "load",
    )
    assert (found.total, found.conflicts) == (1, 1)
    assert found.events == {"AdmissionCheckUpdated": 1}


@pytest.mark.parametrize(
    ("spans", "at", "expected"),
    [
        pytest.param([], 0.5, None, id="none"),
        pytest.param([3.0], 0.99, 3.0, id="one"),
        pytest.param([float(n) for n in range(100)], 0.5, 50.0, id="middle"),
        pytest.param([float(n) for n in range(100)], 0.99, 99.0, id="last-but-none"),
    ],
)
def test_percentiles(spans: list[float], at: float, expected: float | None) -> None:
    assert part(spans, at) == expected


def row(count: int, name: str = "Corral") -> Row:
    """Three writes for each workload in ten seconds, where the API server takes a hundred a second."""
    found = Writes(Counter({"create podtemplates": count, "create provisioningrequests": count, "patch workloads/status": count}))
    peak = {"admission": 80, "Kueue": 200, "API server": 500}
    load = Load(count, 10.0, found, [0.1] * count, [0.2] * count, peak, dict.fromkeys(peak, 1.0))
    return Row(name, Pace(100.0, 0.008), load, [Latency(1, [0.05], [0.03], [0.025])])


def test_the_share_is_of_writes_against_the_pace() -> None:
    assert row(200).per_workload == 3
    assert row(200).share == pytest.approx(0.6)  # 600 writes in 10 s are 60 of 100 a second


def test_a_run_replaces_that_of_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "admission"
    write(path, [row(200)], "replaced")
    write(path, [row(100), row(50, "behind")], "small")
    write(path, [row(200)], "second")
    records = json.loads(path.with_suffix(".json").read_text())
    assert [(each["asked"], each["workloads"], each["machine"]) for each in records] == [
        (100, 100, "small"),
        (100, 50, "small"),
        (200, 200, "second"),
    ]
    text = path.with_suffix(".md").read_text()
    assert "replaced" not in text
    assert "| Corral | 1 | 50.0 | 30.0 | 30.0 | 25.0 | 1.20 | met |" in text


def test_both_sides_are_given_the_same() -> None:
    """But for the check: its controller and where its parameters are."""
    ours, theirs = (dict(scene.objects(each, "q", held=True)) for each in (scene.OURS, scene.IN_TREE))
    different = [kind.kind for kind in ours if ours[kind] != theirs[kind]]
    assert different == ["AdmissionCheck"]
