"""What goes wrong, ends or is asked wrongly where Kueue's own check is the producer: nothing is left over or runs astray."""

import time
from typing import Any

import pytest

from e2e.kueue_check import (
    BOOKED,
    GPU,
    KUEUE,
    ON_KUEUE,
    admitted,
    booked,
    given_back,
    job,
    phase,
    quotas,
    racks,
    request_of,
    set_up,
)
from e2e.scenario import RACK, Scenario, condition, is_true, until


def test_what_fits_in_no_rack_is_told_and_never_bought(corner: Scenario) -> None:
    set_up(corner, sources=("reserved",), policy={"timeouts": {"queued": "20s", "provision": "60s", "booking": "30s"}})
    job(corner, "wide", 3, required_topology=RACK)
    until(lambda: is_true(corner.requests()[0], "Failed"), what="the first request fails")
    told = condition(corner.requests()[0], "Failed")
    assert told["reason"] == "TopologyUnsatisfied", told["message"]
    until(lambda: corner.workload("wide")["spec"].get("active") is False, what="Kueue gives up after its retry")
    assert [each["metadata"]["name"] for each in corner.requests()] == [request_of(corner, "wide", 2)]
    assert not corner.machines()


@pytest.mark.row("3.8-11", "3.8-12")
def test_a_job_deleted_meanwhile_cancels_the_order_and_harms_no_other(corner: Scenario) -> None:
    """What waits for Kueue's second pass is forgotten with its job."""
    set_up(corner)
    corner.stack.cloud.fault("late", shape=corner.shape, delay="6s")
    job(corner, "gone", 2, required_topology=RACK)
    job(corner, "stays", 2, required_topology=RACK)
    until(lambda: len(corner.machines()) == 4, what="both are ordered")
    corner.kubectl("delete", "job", "gone", "-n", corner.namespace)
    until(lambda: len(corner.bound("stays")) == 2, what="the other runs")
    until(lambda: len(corner.alive()) == 2, what="the first one's order is cancelled")
    corner.kubectl("delete", "job", "stays", "-n", corner.namespace)
    until(lambda: given_back(corner), what="all is given back")


@pytest.mark.row("3.7-02", "3.7-03", "3.7-06")
def test_limits_alone_will_do_and_kueue_may_be_restarted_meanwhile(corner: Scenario) -> None:
    set_up(corner)
    corner.stack.cloud.fault("late", shape=corner.shape, delay="8s")
    limits = {"cpu": "32", "memory": "100Gi", "nvidia.com/gpu": "8"}
    container = {"name": "c", "image": "c", "resources": {"limits": limits}}
    notes = {f"{ON_KUEUE}required-topology": RACK}
    corner.job("llm", 2, notes=notes, containers=[container], tolerations=[GPU, BOOKED])
    until(lambda: len(corner.machines()) == 2, what="ordered")
    corner.stack.plane.kill("kueue")
    corner.stack.plane.restart("kueue")
    until(lambda: len(corner.bound("llm")) == 2, what="bound")
    assert len(racks(corner, "llm")) == 1


@pytest.mark.row("3.7-09", "3.8-15")
def test_a_job_that_found_no_quota_comes_in_when_another_has_finished(corner: Scenario) -> None:
    set_up(corner, queue=quotas(corner, {corner.name: 16}))
    job(corner, "first", 2, seconds=3, only_gpus=True, required_topology=RACK)
    until(lambda: admitted(corner, "first"))
    job(corner, "second", 2, only_gpus=True, required_topology=RACK)
    until(lambda: condition(corner.workload("second"), "QuotaReserved").get("status") == "False")
    assert "admission" not in corner.workload("second")["status"]
    until(lambda: is_true(corner.workload("first"), "Finished"))
    until(lambda: len(corner.bound("second")) == 2, what="bound")


def test_a_preempted_gang_gives_its_nodes_back_and_comes_again(corner: Scenario) -> None:
    """Kueue 0.17.0 leaves the old request where it is: it must hold nothing, nor let the gang start on nodes that are gone."""
    set_up(corner, sources=("reserved",), queue=quotas(corner, {corner.name: 16}))
    corner.apply({"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": corner.name}, "value": 1000})
    job(corner, "low", 2, only_gpus=True, required_topology=RACK)
    until(lambda: len(corner.bound("low")) == 2, what="the first runs")
    first = corner.bookings()[0]["metadata"]["name"]
    labels = {"kueue.x-k8s.io/priority-class": corner.name}
    job(corner, "high", 2, only_gpus=True, labels=labels, required_topology=RACK)
    until(lambda: len(corner.bound("high")) == 2, what="the second runs in its place")
    assert is_true(corner.workload("low"), "Evicted")
    until(lambda: phase(corner, first) in ("", "Released"), what="the first's booking is over")
    assert condition(corner.get("provreq", request_of(corner, "low")), "BookingExpired")["status"] == "True"
    corner.kubectl("delete", "job", "high", "-n", corner.namespace)
    until(lambda: len(corner.bound("low")) == 2, what="the first comes again")
    assert set(corner.bound("low")) == set(booked(corner))
    assert first not in {node["metadata"]["labels"]["corral.dev/request"] for node in booked(corner).values()}


def test_a_request_deleted_under_a_running_job_changes_nothing(corner: Scenario) -> None:
    set_up(corner)
    job(corner, "sacred", 2, required_topology=RACK)
    until(lambda: len(corner.bound("sacred")) == 2)
    corner.kubectl("delete", "provreq", "--all", "-n", corner.namespace)
    time.sleep(6)
    assert len(corner.alive()) == 2
    assert admitted(corner, "sacred")
    assert {pod["status"]["phase"] for pod in corner.pods("sacred")} == {"Running"}
    corner.kubectl("delete", "job", "sacred", "-n", corner.namespace)
    until(lambda: given_back(corner), what="given back once the job is gone")


@pytest.mark.parametrize(
    ("tolerations", "config", "text"),
    [
        pytest.param([GPU], {}, "add the toleration to the job's own pod template", id="taint"),
        pytest.param(
            [GPU, BOOKED], {"podSetUpdates": None}, "add to spec.podSetUpdates.nodeSelector key corral.dev/request", id="selector"
        ),
    ],
)
def test_pods_that_would_miss_their_nodes_or_be_evicted_from_them_are_told_so(
    corner: Scenario, tolerations: list[dict[str, str]], config: dict[str, Any], text: str
) -> None:
    set_up(corner, config=config)
    corner.job("astray", 2, notes={f"{ON_KUEUE}required-topology": RACK}, tolerations=tolerations)
    until(lambda: is_true(corner.requests()[0], "Failed"), what="refused")
    assert text in condition(corner.requests()[0], "Failed")["message"]
    assert not corner.machines()
