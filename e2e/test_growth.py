"""An elastic job that grows while it runs: machines for its new pods are bought, and all go back at its end."""

import json
from typing import Any

import pytest

from e2e.scenario import RACK, Scenario, condition, is_true, until

Json = dict[str, Any]
pytestmark = [pytest.mark.usefixtures("all_kinds"), pytest.mark.timeout(600)]  # on a busy machine the start takes minutes
SLOW = 120.0


def start(corner: Scenario, pods: int, completions: int, *, rack: bool = False) -> None:
    """Job `grows` of so many pods, each on a machine of its own, which run until the test ends them."""
    level = {"corral.dev/required-topology": RACK} if rack else {}
    template = {"metadata": {"annotations": {"e2e.corral.dev/run-seconds": "3600", **level}}, "spec": corner.pod_spec()}
    meta = {
        "name": "grows",
        "namespace": corner.namespace,
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }
    spec = {"parallelism": pods, "completions": completions, "backoffLimit": 0, "template": template}
    corner.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    until(lambda: len(corner.bound("grows")) == pods, seconds=SLOW, what="the first pods are bound")


def resize(corner: Scenario, pods: int) -> None:
    corner.kubectl("patch", "job", "grows", "-n", corner.namespace, "-p", json.dumps({"spec": {"parallelism": pods}}))


def slices(corner: Scenario) -> list[Json]:
    return sorted(corner.items("workload"), key=lambda item: item["metadata"]["creationTimestamp"])


def latest(corner: Scenario) -> Json:
    """The slice that stands for the job."""
    found = [each for each in slices(corner) if not is_true(each, "Finished")]
    return found[0] if len(found) == 1 else {}


def running(corner: Scenario) -> dict[str, str]:
    """The node of each pod that runs, by the pod's UID."""
    pods = [pod for pod in corner.pods("grows") if pod["status"].get("phase") == "Running"]
    return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods}


def succeed(corner: Scenario) -> None:
    """Lets all of the job's pods succeed."""
    for pod in corner.pods("grows"):
        name = pod["metadata"]["name"]
        done = json.dumps({"status": {"phase": "Succeeded"}})
        corner.kubectl("patch", "pod", name, "-n", corner.namespace, "--subresource", "status", "-p", done)


def given_back(corner: Scenario) -> bool:
    return not corner.alive() and all(each["status"]["phase"] == "Released" for each in corner.bookings())


def test_a_job_grows_by_one_machine_and_gives_all_back_when_it_ends(corner: Scenario) -> None:
    corner.set_up()
    start(corner, 2, completions=3)
    until(lambda: len(running(corner)) == 2)
    before = running(corner)
    [first] = corner.bookings()
    resize(corner, 3)
    until(lambda: len(running(corner)) == 3, seconds=SLOW, what="the third pod runs")
    assert before.items() <= running(corner).items()
    assert len(corner.machines()) == 3
    [second] = [each for each in corner.bookings() if each["metadata"]["name"] != first["metadata"]["name"]]
    [added] = set(running(corner).values()) - set(before.values())
    keys = {each["spec"]["podSets"][0]["label"] for each in (first, second)}
    assert second["spec"]["podSets"][0]["inherited"] == [first["spec"]["podSets"][0]["label"]]
    assert keys <= corner.node(added)["metadata"]["labels"].keys()
    assert {each["status"]["phase"] for each in corner.bookings()} == {"Provisioned"}
    succeed(corner)
    until(lambda: is_true(slices(corner)[-1], "Finished"), seconds=SLOW, what="the job is over")
    until(lambda: given_back(corner), seconds=SLOW, what="all is given back")
    assert len(corner.machines()) == 3


def test_a_grown_job_that_was_stopped_is_asked_for_anew_and_gives_back_what_it_had(corner: Scenario) -> None:
    """Its template selects the first booking's key ever after: Kueue restores it from the slice, which has that key.

    Kueue 0.17.0 fails to start such a job (FailedToStart), for a mark of its own that it restores, too: nothing may be left then.
    """
    corner.set_up()
    start(corner, 1, completions=100)
    [first] = corner.bookings()
    resize(corner, 2)
    until(lambda: len(running(corner)) == 2, seconds=SLOW, what="the second pod runs")
    old = {each["metadata"]["name"] for each in corner.bookings()}
    name = latest(corner)["metadata"]["name"]
    for active in (False, True):
        patch = json.dumps({"spec": {"active": active}})
        corner.kubectl("patch", "workload", name, "-n", corner.namespace, "--type", "merge", "-p", patch)
        until(lambda active=active: is_true(latest(corner), "QuotaReserved") == active, seconds=SLOW)  # type: ignore[misc]
    [pods] = until(lambda: [b["spec"]["podSets"][0] for b in corner.bookings() if b["metadata"]["name"] not in old], seconds=SLOW)
    assert (pods["count"], pods["inherited"]) == (2, [first["spec"]["podSets"][0]["label"]])
    corner.kubectl("delete", "job", "grows", "-n", corner.namespace)
    until(lambda: not corner.alive(), seconds=SLOW, what="all is given back")


def test_what_is_added_stays_in_the_rack_of_the_rest(corner: Scenario) -> None:
    """Two machines are left, but in the other rack."""
    corner.set_up(sources=("reserved",))
    start(corner, 2, completions=100, rack=True)
    until(lambda: len(running(corner)) == 2)
    before = running(corner)
    resize(corner, 3)

    def waits() -> list[Json]:
        found = [each for each in corner.requests() if each["spec"]["podSets"][0]["count"] == 1]
        return [each for each in found if condition(each, "Provisioned")]

    [asked] = until(waits, seconds=SLOW, what="one machine more is asked for")
    assert f"node selector asks for {RACK}=" in condition(asked, "Provisioned")["message"]
    assert len(corner.machines()) == 2
    assert running(corner) == before
