"""Who is served on which terms: by queue, by priority class, by annotation; and flavors whose nodes come from several pools."""

import subprocess
import sys
from typing import Any

import pytest

from e2e.scenario import RACK, Scenario, condition, is_true, until
from e2e.stack import ROOT

Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
OPEN = ["capacityOrder", "priceCeilingPerHour", "timeouts.queued", "timeouts.provision", "retry.limit", "runDuration"]


def made(version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def policy(corner: Scenario, name: str, **spec: Any) -> str:
    """Another policy of the corner, as patient as the first; its name."""
    base = {"pools": [corner.name], "timeouts": {"queued": "30s", "provision": "60s"}, "retry": {"limit": 0}}
    full = f"{corner.name}-{name}"
    corner.apply(made("corral.dev/v1alpha1", "CapacityPolicy", full, {**base, **spec}))
    return full


def priority_class(corner: Scenario, name: str, value: int) -> dict[str, str]:
    """A class of Kueue's, and the label by which a job has it."""
    full = f"{corner.name}-{name}"
    corner.apply({"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": full}, "value": value})
    return {"kueue.x-k8s.io/priority-class": full}


def job(corner: Scenario, name: str, count: int = 1, pod: Json | None = None, **parameters: str) -> None:
    """A Job with these parameters as annotations; `pod` are annotations of its pods."""
    notes = {f"provreq.kueue.x-k8s.io/{key}": value for key, value in parameters.items()}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    meta = {"name": name, "namespace": corner.namespace, "labels": labels, "annotations": notes}
    template = {"metadata": {"annotations": {"e2e.corral.dev/run-seconds": "600", **(pod or {})}}, "spec": corner.pod_spec()}
    spec = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": template}
    corner.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def refused(corner: Scenario, name: str, words: str) -> None:
    """Waits until the job is refused for good and an event on its Workload, which may come after, says why."""
    until(lambda: corner.workload(name)["spec"].get("active") is False, what=f"{name} refused")
    workload = corner.workload(name)["metadata"]["name"]
    until(lambda: any(words in each["message"] for each in corner.events("Workload", workload)), what=words)


def capacity_types(corner: Scenario) -> list[str]:
    return sorted({each["capacityType"] for booking in corner.bookings() for each in booking["spec"].get("purchases", [])})


# --- terms ----------------------------------------------------------------------------------------------------------------


def test_a_priority_class_is_served_on_the_terms_of_another_policy(corner: Scenario) -> None:
    """Reserved machines are for the urgent alone, though both are in one queue."""
    urgent = policy(corner, "urgent")
    corner.set_up(
        policy={
            "capacityOrder": ["on-demand"],
            "byPriorityClass": [{"policy": urgent, "names": [f"{corner.name}-high"]}],
        }
    )
    until(lambda: is_true(corner.get("cpolicy", corner.name), "Ready"))
    corner.job("plain", 1, labels=priority_class(corner, "low", 1))
    until(lambda: corner.bound("plain"), what="plain bound")
    assert capacity_types(corner) == ["on-demand"]
    corner.job("first", 2, labels=priority_class(corner, "high", 100))
    until(lambda: len(corner.bound("first")) == 2, what="first bound")
    assert sorted(b["spec"]["policy"] for b in corner.bookings()) == [corner.name, urgent]
    [mine] = [b for b in corner.bookings() if b["spec"]["policy"] == urgent]
    assert {each["capacityType"] for each in mine["spec"]["purchases"]} == {"reserved"}
    assert {r["spec"]["parameters"]["policy"] for r in corner.requests()} == {corner.name}


def test_a_policy_that_is_to_serve_a_class_and_is_not_there_is_named(corner: Scenario) -> None:
    corner.set_up(policy={"byPriorityClass": [{"policy": f"{corner.name}-gone", "names": [f"{corner.name}-high"]}]})
    words = f"there is no CapacityPolicy {corner.name}-gone: create it or correct the name"
    until(lambda: words in condition(corner.get("cpolicy", corner.name), "Ready").get("message", ""))
    corner.job("lost", 1, labels=priority_class(corner, "high", 100))
    told = f'spec.byPriorityClass hands {corner.name}-high to CapacityPolicy "{corner.name}-gone", which is not there'
    until(lambda: told in str(corner.workload("lost")["status"]["admissionChecks"]), what="the workload is told")
    job(corner, "other")
    until(lambda: corner.bound("other"), what="those of no such class are served")
    policy(corner, "gone")
    until(lambda: corner.bound("lost"), what="served once the policy is there")


def test_a_job_asks_for_less_than_its_policy_gives(corner: Scenario) -> None:
    """Reserved machines only, and no second attempt: rejected as soon as the first one fails."""
    corner.set_up(policy={"userOverrides": OPEN})
    corner.outside({"a": 2, "b": 2})
    job(corner, "thrifty", capacityOrder="reserved", retryLimit="0", queuedTimeout="3s")
    refused(corner, "thrifty", "Gave up after 1 attempt")
    assert not corner.machines()
    job(corner, "content", 1, priceCeilingPerHour="15")
    until(lambda: corner.bound("content"), what="one machine for 10 $/h")
    job(corner, "cheap", 2, priceCeilingPerHour="15", runDuration="1h", provisionTimeout="50s")
    until(lambda: "price ceiling of $15.00/h" in condition(corner.requests()[-1], "Provisioned").get("message", ""))


@pytest.mark.parametrize(
    ("opened", "parameters", "words"),
    [
        pytest.param([], {"retryLimit": "0"}, "does not open it: remove it, or add retry.limit to userOverrides", id="closed"),
        pytest.param(
            OPEN, {"queuedTimeout": "31s"}, "allows 30s at most: ask for no more, or raise timeouts.queued", id="longer"
        ),
        pytest.param(OPEN, {"capacityOrder": "spot"}, "must be some of reserved, capacity-block, on-demand", id="no-type"),
        pytest.param(OPEN, {"policy": "mine"}, "the admission check chooses the policy: remove the annotation", id="the-policy"),
    ],
)
def test_what_a_job_may_not_ask_for_is_named_on_its_workload(
    corner: Scenario, opened: list[str], parameters: Json, words: str
) -> None:
    corner.set_up(policy={"userOverrides": opened})
    job(corner, "odd", **parameters)
    refused(corner, "odd", words)
    assert not corner.machines()


# --- flavors --------------------------------------------------------------------------------------------------------------


def flavor(corner: Scenario, **spec: Any) -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    corner.apply(made(KUEUE, "ResourceFlavor", corner.name, {"tolerations": tolerations, **spec}))


def unfit(corner: Scenario, pool: str) -> str:
    return str(condition(corner.get("cpool", pool), "FlavorsUnfit").get("message", ""))


ANY_ZONE: Json = {"crossZone": {"policy": "Allow"}}


def test_one_flavor_spans_two_pools_whose_nodes_bear_its_labels(corner: Scenario) -> None:
    """Reserved machines of the one and on-demand machines of the other serve one gang."""
    other = f"{corner.name}-other"
    labels: Json = {"team": corner.name}
    corner.set_up(pool={"nodeLabels": labels}, sources=("reserved",), policy={"pools": [corner.name, other], **ANY_ZONE})
    source = {"name": "od", "capacityType": "on-demand", "scaleIn": {"policy": "WhenIdle", "after": "1s"}}
    provider = {"simulated": {"endpoint": corner.stack.cloud.endpoint}}
    spec = {"mode": "Active", "provider": provider, "shapes": [corner.shape], "sources": [source], "nodeLabels": labels}
    corner.apply(made("corral.dev/v1alpha1", "CapacityPool", other, spec))
    flavor(corner, nodeLabels=labels)
    corner.job("wide", 6)
    until(lambda: len(corner.bound("wide")) == 6, what="all bound")
    found = [corner.node(name)["metadata"]["labels"] for name in corner.bound("wide")]
    assert {each["team"] for each in found} == {corner.name}
    assert sorted(each["corral.dev/pool"] for each in found) == [corner.name] * 4 + [other] * 2
    assert f"ResourceFlavor {corner.name} " not in condition(corner.get("cpool", other), "LabelsMissing").get("message", "")
    corner.kubectl("patch", "cpool", other, "--type=merge", "-p", '{"spec":{"mode":"Paused"}}')


def test_what_a_flavor_lacks_is_told_on_the_pool_before_anybody_waits(corner: Scenario) -> None:
    corner.set_up()
    until(lambda: condition(corner.get("cpool", corner.name), "FlavorsUnfit").get("status") == "False")
    labels = {"node.kubernetes.io/instance-type": corner.shape}
    flavor(corner, nodeLabels=labels, tolerations=[])
    until(lambda: "neither tolerates nor names taint nvidia.com/gpu=present:NoSchedule" in unfit(corner, corner.name))
    corner.apply(made(KUEUE, "Topology", corner.name, {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}))
    corner.kubectl("delete", "resourceflavor", corner.name, "--wait=false")
    corner.kubectl("patch", "resourceflavor", corner.name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    flavor(corner, nodeLabels=labels, topologyName=corner.name)
    until(lambda: f"ResourceFlavor {corner.name} has a topologyName: with a check" in unfit(corner, corner.name))
    until(lambda: "has a topologyName" in str(corner.events("ResourceFlavor", corner.name)), what="told on the flavor as well")
    corner.job("stuck", 1)
    until(lambda: "reserves quota only on nodes that are there already" in why(corner, "stuck"), what="corral why tells the trap")


def test_kueues_topology_annotation_on_a_plain_flavor_is_explained(corner: Scenario) -> None:
    corner.set_up()
    job(corner, "stuck", pod={"kueue.x-k8s.io/podset-required-topology": RACK})
    told = until(lambda: text if "trap:" in (text := why(corner, "stuck")) else "", what="corral why tells the trap")
    assert "kueue.x-k8s.io/podset-required-topology of pod set main needs a flavor with topologyName" in told
    assert f"write corral.dev/required-topology: {RACK} in its place" in told


def why(corner: Scenario, job: str) -> str:
    """What `corral why` prints of a job."""
    command = [sys.executable, "-m", "corral", "why", f"job/{job}", "-n", corner.namespace]
    command += ["--kubeconfig", str(corner.stack.plane.kubeconfig)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False).stdout
