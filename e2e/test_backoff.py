"""Who waits, and at whose cost: a hopeless gang of high priority, and a big one before a stream of small ones, all for real."""

import json
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.history import History, Json
from e2e.scenario import Scenario, condition, is_true, until

pytestmark = pytest.mark.timeout(600)  # on a busy machine the start takes minutes


def times(history: History, job: str, kind: str) -> int:
    """How often the condition turned True."""
    return len({condition(each, kind)["lastTransitionTime"] for each in history.versions[job] if is_true(each, kind)})


@pytest.fixture
def history(corner: Scenario) -> Iterator[History]:
    with History(corner.stack.plane.kubeconfig, corner.namespace) as made:
        yield made


@pytest.fixture
def urgent(corner: Scenario) -> Iterator[str]:
    """A priority class above that of all others."""
    corner.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": corner.name},
            "value": 1000,
        }
    )
    yield corner.name
    corner.kubectl("delete", "workloadpriorityclass", corner.name)


def limit_quota(corner: Scenario, gpus: int) -> None:
    quotas = {"cpu": "10000", "memory": "100Ti", "nvidia.com/gpu": str(gpus)}
    given = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
    group = {"coveredResources": [*quotas], "flavors": [{"name": corner.name, "resources": given}]}
    patch = json.dumps({"spec": {"resourceGroups": [group]}})
    corner.kubectl("patch", "clusterqueue", corner.name, "--type", "merge", "-p", patch)


def rests(workload: Json) -> bool:
    """Whether it is in its backoff, and our entry says so."""
    status = workload.get("status") or {}
    waits = status.get("requeueState", {}).get("requeueAt") and condition(workload, "QuotaReserved").get("status") == "False"
    return bool(waits) and status["admissionChecks"][0]["state"] == "Pending"


def test_a_hopeless_gang_of_high_priority_holds_up_nobody(corner: Scenario, urgent: str, history: History) -> None:
    """Three machines in a rack, where no rack has more than two, and a quota that is enough for it alone."""
    policy = {"timeouts": {"queued": "24h"}, "retry": {"limit": 2, "backoff": "6s", "maxBackoff": "6s"}}
    corner.set_up(sources=("reserved",), policy=policy)
    limit_quota(corner, 24)
    corner.job("hopeless", 3, labels={"kueue.x-k8s.io/priority-class": urgent}, rack=True)
    [entry] = history.first("hopeless", rests)["status"]["admissionChecks"]  # long before timeouts.queued
    assert entry["message"].startswith("Attempt 1 of 3 failed: TopologyUnsatisfied: needs 3 pods in one topology.corral.dev/rack")
    assert "it would not fit even if all were free" in entry["message"]

    corner.job("modest", 2, rack=True, seconds=12)
    until(lambda: len(corner.bound("modest")) == 2, what="another runs meanwhile")
    before = len(history.versions["hopeless"])
    time.sleep(8)  # its backoff is over, and the quota is in use: it waits in the queue like any other
    assert len(history.versions["hopeless"]) - before < 6
    until(lambda: is_true(corner.workload("modest"), "Finished"), what="the other has run to its end")

    until(lambda: corner.workload("hopeless")["spec"]["active"] is False, seconds=180, what="the end of its attempts")
    assert times(history, "hopeless", "QuotaReserved") == 3
    assert len(history.versions["hopeless"]) < 60, Counter(
        each["metadata"]["generation"] for each in history.versions["hopeless"]
    )
    assert not corner.bound("hopeless")
    assert len(corner.machines()) == 2, "nothing was bought for it"


def standings(corner: Scenario) -> list[str]:
    requests = [(each["metadata"]["name"], condition(each, "Provisioned").get("message", "")) for each in corner.requests()]
    bookings = [(each["metadata"]["name"], each["status"]["phase"]) for each in corner.bookings()]
    return [f"{name}: {text}" for name, text in (*requests, *bookings)]


def test_a_big_gang_gets_its_turn_before_small_ones_that_came_later(corner: Scenario, history: History) -> None:
    """All four machines of the reservation, and small jobs that wait for each machine that comes free."""
    corner.set_up(sources=("reserved",), policy={"timeouts": {"queued": "10m", "provision": "5m", "booking": "5m"}})
    small = 0
    for small in range(1, 5):
        corner.job(f"small-{small}", 1, seconds=8)
    until(lambda: is_true(corner.workload("small-1"), "Admitted"), what="the small ones run")
    corner.job("big", 4, seconds=4)
    until(lambda: any("big" in each["metadata"]["name"] for each in corner.requests()))
    later: list[str] = []
    end = time.monotonic() + 240
    while not is_true(corner.workload("big"), "Admitted"):
        assert time.monotonic() < end, standings(corner)
        time.sleep(1.1)  # times of creation are whole seconds
        if len(later) < 8:
            small += 1
            corner.job(f"small-{small}", 1, seconds=4)
            later.append(f"small-{small}")
    until(lambda: len(corner.bound("big")) == 4, seconds=120, what="the big one is bound whole")
    begun = condition(corner.workload("big"), "Admitted")["lastTransitionTime"]
    passed = [name for name in later if is_true(corner.workload(name), "Admitted")]
    assert all(condition(corner.workload(name), "Admitted")["lastTransitionTime"] >= begun for name in passed)
    assert len(later) > 3
    until(lambda: is_true(corner.workload(later[0]), "Admitted"), seconds=120, what="the small ones go on")
