"""Machines after their gang: warm for the next one, idle, asked for by nobody. With the real scheduler and eviction API."""

import json
import urllib.request
from typing import Any

import pytest

from e2e.scenario import Scenario, condition, is_true, until
from kube import resources

Json = dict[str, Any]
IDLE = "corral.dev/idle-since"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def reserved(corner: Scenario, **source: Any) -> Json:
    """Both racks' machines, at most two of them."""
    return {"name": "res", "capacityType": "reserved", "reservationIDs": [corner.reservation], "maxNodes": 2, **source}


def on_demand(after: str) -> Json:
    return {"name": "od", "capacityType": "on-demand", "scaleIn": {"after": after}}


def ids(corner: Scenario) -> set[str]:
    return {machine["id"] for machine in corner.machines()}


# --- from one gang to the next --------------------------------------------------------------------------------------------


def test_idle_prepaid_machines_stay_and_are_taken_by_the_next_gang(corner: Scenario) -> None:
    corner.set_up(sources=(reserved(corner),))
    corner.job("first", 2, seconds=3)
    until(lambda: is_true(corner.workload("first"), "Finished"), what="the first gang is over")
    bought = ids(corner)
    until(lambda: all(b["status"]["phase"] == "Released" for b in corner.bookings()), what="given back")
    nodes = [corner.node(machine["node"]) for machine in corner.alive()]
    assert len(nodes) == 2
    assert all(IDLE in node["metadata"]["annotations"] for node in nodes)

    corner.job("second", 2)
    until(lambda: len(corner.bound("second")) == 2, what="the second gang runs")
    assert ids(corner) == bought, "nothing was launched for it"
    assert {*corner.bound("second")} == {node["metadata"]["name"] for node in nodes}
    assert not any(IDLE in corner.node(name)["metadata"]["annotations"] for name in corner.bound("second"))


def test_a_gang_that_waits_gets_the_machines_before_they_go(corner: Scenario) -> None:
    """With `after: 0s` they would be ended at once; the marks change from the one to the other booking."""
    corner.set_up(sources=(reserved(corner, scaleIn={"after": "0s"}),), policy={"timeouts": {"queued": "5m"}})
    corner.job("first", 2)
    until(lambda: len(corner.bound("first")) == 2, what="the first gang runs")
    bought = ids(corner)
    corner.job("second", 2)
    until(lambda: len(corner.requests()) == 2 and _waits(corner), what="the second gang waits")
    corner.kubectl("delete", "job", "first", "-n", corner.namespace)
    until(lambda: len(corner.bound("second")) == 2, what="the second gang runs")

    assert ids(corner) == bought
    assert len(corner.alive()) == 2
    [new] = [b for b in corner.bookings() if b["spec"].get("nodes") and b["status"]["phase"] == "Provisioned"]
    givers = {node["takenOver"] for node in new["spec"]["nodes"]}
    assert len(givers) == 1
    labels = corner.node(corner.bound("second")[0])["metadata"]["labels"]
    assert labels["corral.dev/request"] == new["metadata"]["name"]
    assert not any(key.startswith(f"{next(iter(givers))}.") for key in labels)
    corner.kubectl("delete", "job", "second", "-n", corner.namespace)
    until(lambda: not corner.alive(), what="nobody waits any more: they go")


def _waits(corner: Scenario) -> bool:
    return any(condition(each, "Provisioned").get("status") == "False" for each in corner.requests())


# --- scale-in -------------------------------------------------------------------------------------------------------------


def deployed(corner: Scenario, name: str, node: str, **notes: str) -> None:
    """One pod of a Deployment, on the node and nowhere else."""
    spec = corner.pod_spec(gpus=1)
    spec["restartPolicy"] = "Always"
    spec |= {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [GPU]}
    labels = {"app": name}
    template = {"metadata": {"labels": labels, "annotations": notes}, "spec": spec}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": corner.namespace}
    corner.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body})
    until(lambda: pods_of(corner, name, phase="Running"), what=f"{name} runs")


def pods_of(corner: Scenario, app: str, phase: str = "") -> list[Json]:
    mine = [each for each in corner.items("pod") if each["metadata"].get("labels", {}).get("app") == app]
    return [each for each in mine if phase in ("", each["status"].get("phase"))]


def budget(corner: Scenario, app: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    meta = {"name": app, "namespace": corner.namespace}
    corner.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})


def test_what_is_not_to_be_disturbed_keeps_its_node_and_the_rest_is_evicted_first(corner: Scenario) -> None:
    corner.set_up(sources=(on_demand("40s"),))
    corner.job("gang", 2, seconds=2)
    until(lambda: is_true(corner.workload("gang"), "Finished"), what="the gang is over")
    until(lambda: all(IDLE in corner.node(each["node"])["metadata"]["annotations"] for each in corner.alive()), what="idle")
    one, other = (machine["node"] for machine in corner.alive())
    deployed(corner, "kept", one, **{"karpenter.sh/do-not-disrupt": "true"})
    deployed(corner, "guarded", other)
    budget(corner, "guarded")
    until(lambda: corner.node(other)["spec"].get("unschedulable"), seconds=120, what="the other node is closed")
    until(lambda: "violate the pod's disruption budget" in _last_eviction(corner, "guarded"), what="its budget holds")
    assert len(corner.alive()) == 2
    assert not corner.node(one)["spec"].get("unschedulable"), "the pod that must stay keeps its node open"

    corner.kubectl("delete", "pdb", "guarded", "-n", corner.namespace)
    until(lambda: {each["node"] for each in corner.alive()} == {one}, seconds=90, what="the other is emptied and ended")
    assert pods_of(corner, "kept", phase="Running")
    pod = pods_of(corner, "kept")[0]["metadata"]["name"]
    corner.kubectl("annotate", "pod", pod, "karpenter.sh/do-not-disrupt-", "-n", corner.namespace)
    until(lambda: not corner.alive(), seconds=90, what="ended once nobody forbids it")


def _last_eviction(corner: Scenario, app: str) -> str:
    """What the API server says to one who tries the same, without doing it."""
    pod = pods_of(corner, app)[0]["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": corner.namespace},
        "deleteOptions": {"dryRun": ["All"]},
    }
    target = f"/api/v1/namespaces/{corner.namespace}/pods/{pod}/eviction"
    return json.dumps(corner.api.call("POST", target, body).body)


# --- machines that nobody claims --------------------------------------------------------------------------------------------


@pytest.fixture
def tags(corner: Scenario) -> dict[str, str]:
    """Of a machine of this installation and pool."""
    uid = corner.api.get(resources.NAMESPACES, "", "kube-system")["metadata"]["uid"]
    return {"corral.dev/installation": uid, "corral.dev/pool": corner.name, "corral.dev/booking": "long-gone"}


def launch(corner: Scenario, tags: dict[str, str], count: int = 1, zone: str = "west") -> list[Json]:
    """Machines of the test's shape that no booking knows of."""
    token = f"{corner.name}-{len(corner.machines())}"
    return corner.stack.cloud.launch(token, shape=corner.shape, zone=zone, count=count, tags=tags)


def test_an_orphan_goes_after_two_sightings_but_not_under_a_pod_nor_that_of_others(
    corner: Scenario, tags: dict[str, str]
) -> None:
    corner.set_up(sources=("on-demand",))
    [orphan] = launch(corner, tags)
    [busy] = launch(corner, tags)
    [foreign] = launch(corner, {**tags, "corral.dev/installation": "another"})
    [cloned] = launch(corner, {**tags, "corral.dev/cluster": "another"})
    node = until(lambda: corner.stack.cloud.machines()[busy["id"]]["node"], what="its node joins")
    until(lambda: is_true(corner.node(node), "Ready"), what="ready")
    corner.pod("work", node=node)
    until(lambda: corner.get("pod", "work")["status"].get("phase") == "Running", what="somebody's work runs there")
    until(lambda: _state(corner, orphan) != "running", seconds=150, what="the orphan is ended")
    log = corner.stack.programs["provisioner"].log.read_text()
    assert orphan["id"] in next(line for line in log.splitlines() if "nobody claims" in line and orphan["id"] in line)
    assert [_state(corner, each) for each in (busy, foreign, cloned)] == ["running"] * 3
    assert corner.get("pod", "work")["status"]["phase"] == "Running"

    corner.kubectl("delete", "pod", "work", "-n", corner.namespace, "--grace-period=0", "--force")
    until(lambda: _state(corner, busy) != "running", seconds=120, what="ended once the work is over")
    assert [_state(corner, each) for each in (foreign, cloned)] == ["running"] * 2
    corner.stack.cloud.terminate(foreign["id"], cloned["id"])


def _state(corner: Scenario, machine: Json) -> str:
    state: str = corner.stack.cloud.machines()[machine["id"]]["state"]
    return state


def test_too_many_orphans_stop_the_reaper_and_raise_an_alarm(corner: Scenario, tags: dict[str, str]) -> None:
    corner.set_up(sources=("on-demand",))
    lost = [*launch(corner, tags, 4), *launch(corner, tags, 2, zone="north")]
    until(lambda: is_true(corner.get("cpool", corner.name), "TooManyOrphans"), what="the pool says so")
    told = condition(corner.get("cpool", corner.name), "TooManyOrphans")
    assert told["reason"] == "ReaperStopped"
    assert told["message"].startswith("6 of 6 machines look orphaned, such as ")
    until(lambda: any(e["reason"] == "TooManyOrphans" for e in corner.events("CapacityPool", corner.name)), what="an event")
    assert f'corral_reaper_alarms_total{{pool="{corner.name}"}}' in _metrics(corner)
    assert f'corral_orphaned_machines{{pool="{corner.name}"}} 6' in _metrics(corner)
    assert len(corner.alive()) == 6

    corner.stack.cloud.terminate(lost[0]["id"])
    until(lambda: not is_true(corner.get("cpool", corner.name), "TooManyOrphans"), seconds=90, what="the alarm is over")
    assert len(corner.alive()) == 5, "the grace begins anew"
    until(lambda: not corner.alive(), seconds=150, what="few enough to be ended")


def _metrics(corner: Scenario) -> str:
    with urllib.request.urlopen(corner.stack.url("provisioner", "/metrics"), timeout=5) as reply:
        text: str = reply.read().decode()
        return text
