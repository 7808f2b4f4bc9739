"""What `corral why` says on the real cluster, of each kind of waiting and of whoever made the request."""

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from corral.cli import main
from e2e import kueue_check
from e2e.scenario import RACK, Scenario, condition, is_true, until

Json = dict[str, Any]
PATIENT = {"timeouts": {"queued": "10m", "provision": "10m", "booking": "60s"}}


def why(corner: Scenario, target: str) -> str:
    """What the command prints, without a process of its own: it is asked often, and to load it takes longer than to answer."""
    arguments = ["why", target, "-n", corner.namespace, "--kubeconfig", str(corner.stack.plane.kubeconfig)]
    with redirect_stdout(StringIO()) as out:
        assert main(arguments) == 0
    return out.getvalue()


def told(corner: Scenario, target: str, *words: str) -> list[str]:
    """The lines of an answer that has all of the words; it is asked until it has."""

    def said() -> str:
        text = why(corner, target)
        assert text
        return text if all(word in text for word in words) else ""

    return until(said, what=f"corral why {target} says {words}").splitlines()


def none_free(corner: Scenario) -> None:
    """All that the corner's reservation has is in use by others."""
    corner.outside({"a": 2, "b": 2})


# --- the kinds of waiting -------------------------------------------------------------------------------------------------


def test_quota_that_is_short(corner: Scenario) -> None:
    corner.set_up()
    queue = corner.queue()
    queue["resourceGroups"][0]["flavors"][0]["resources"][2]["nominalQuota"] = "8"
    corner.apply(kueue_check.made("ClusterQueue", corner.name, queue))
    corner.job("short", 2)
    lines = told(corner, "job/short", "WAITING QuotaInsufficient ", "in flavor")
    assert (
        f"  {corner.name}/{corner.name}: nvidia.com/gpu 8 = 0 reserved + 8 free; needs 16   <- more than there is at all" in lines
    )
    assert lines[-1].startswith("  to do: raise the quota or ask for less: waiting can't help")


def test_capacity_that_is_on_its_way(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",))
    corner.stack.cloud.fault("late", shape=corner.shape, delay="30s")
    corner.job("comes", 2)
    lines = told(corner, "job/comes", "WAITING CapacityProvisioning ", "of the machines")
    assert ": 0 of 2 machines ready" in lines[0]
    assert lines[1].startswith("  deadline ")
    assert lines[2].startswith("  to do: wait: all is booked or ordered")
    assert "    2 of the machines: not joined yet" in [line[: len("    2 of the machines: not joined yet")] for line in lines]


def test_no_rack_with_room_for_all(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy=PATIENT)
    corner.outside({"a": 1, "b": 1})
    corner.job("wide", 2, rack=True)
    lines = told(corner, "job/wide", "WAITING TopologyUnsatisfied ")
    assert f"needs 2 pods in one {RACK}" in lines[0]
    assert any(line.startswith("  would fit: ") for line in lines)
    assert any(line.startswith("  to do: wait until one domain has room for all") for line in lines)


def test_prepaid_machines_that_do_not_suit(corner: Scenario) -> None:
    """Those of the other rack: the one that is asked for is in use, and may be free again."""
    corner.set_up(sources=("reserved",), policy=PATIENT)
    corner.outside({"a": 2, "b": 0})
    corner.job("elsewhere", 2, nodeSelector={RACK: f"{corner.shape}-a"})
    lines = told(corner, "job/elsewhere", "WAITING ReservationMismatch ")
    assert f"2 of {corner.reservation} (node selector asks for {RACK}={corner.shape}-a, here it is {corner.shape}-b)" in lines[0]
    assert any(line.startswith("  to do: let the job accept the prepaid machines that are free") for line in lines)


def test_a_gang_of_which_a_part_can_be_had(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy=PATIENT)
    corner.outside({"a": 2, "b": 1})
    corner.job("part", 2)
    lines = told(corner, "job/part", "WAITING GangIncomplete ")
    assert "1 of 2 pods" in lines[0]
    assert any(line.startswith("  to do: wait: it starts by itself") for line in lines)


# --- who asks -------------------------------------------------------------------------------------------------------------


def test_a_request_of_kueues_own_check(corner: Scenario) -> None:
    kueue_check.set_up(corner, sources=("reserved",), policy=PATIENT)
    none_free(corner)
    kueue_check.job(corner, "tas", 2, required_topology=RACK)
    told(corner, "job/tas", "WAITING GangIncomplete ", "0 of 2 pods")
    [request] = corner.requests()
    assert "corral.dev/workload-uid" not in request["metadata"].get("labels", {})
    told(corner, f"provreq/{request['metadata']['name']}", "WAITING GangIncomplete ", "0 of 2 pods")


def test_a_bare_request(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",), policy={**PATIENT, "bareRequests": {"namespaces": [corner.namespace]}})
    none_free(corner)
    meta = {"name": "mine", "namespace": corner.namespace}
    spec = {**corner.pod_spec(), "tolerations": [kueue_check.GPU]}
    corner.apply({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"spec": spec}})
    asked = {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": corner.name}}
    sets = {"podSets": [{"count": 2, "podTemplateRef": {"name": "mine"}}]}
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest"}
    corner.apply({**kind, "metadata": meta, "spec": {**asked, **sets}})
    lines = told(corner, "provreq/mine", "WAITING GangIncomplete ")
    assert "0 of 2 pods" in lines[0]
    corner.outside({"a": 0, "b": 0})
    lines = told(corner, "provreq/mine", "PROVISIONED ")
    assert any(line.startswith("  booking ") for line in lines)


def test_each_of_two_checks_with_its_own_request(corner: Scenario) -> None:
    """One for each flavor, the flavors by rack; the Workload has a pod set for each."""
    corner.set_up(sources=("reserved",), policy=PATIENT)
    none_free(corner)
    parameters = {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": corner.name}
    queue, sides = corner.queue(), {f"{corner.shape}-{side}": f"{corner.name}-{side}" for side in "ab"}
    for rack, name in sides.items():
        corner.apply(kueue_check.made("ResourceFlavor", name, {"nodeLabels": {RACK: rack}, "tolerations": [kueue_check.GPU]}))
        corner.apply(
            kueue_check.made("AdmissionCheck", name, {"controllerName": "corral.dev/capacity", "parameters": parameters})
        )
    [group] = queue["resourceGroups"]
    group["flavors"] = [{**group["flavors"][0], "name": name} for name in sides.values()]
    queue["admissionChecksStrategy"]["admissionChecks"] = [{"name": name, "onFlavors": [name]} for name in sides.values()]
    corner.apply(kueue_check.made("ClusterQueue", corner.name, queue))
    pods = [
        {"name": rack, "count": 2, "template": {"spec": {**corner.pod_spec(), "nodeSelector": {RACK: rack}}}} for rack in sides
    ]
    corner.apply(kueue_check.made("Workload", "both", {"queueName": "q", "podSets": pods}, corner.namespace))
    lines = told(corner, "workload/both", *(f"(check {name})" for name in sides.values()))
    assert [line.split()[0] for line in lines if "(check " in line] == ["WAITING", "WAITING"]
    assert len(corner.requests()) == 2


# --- what it is called ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jobs", "Job.batch", "pod"])
def test_what_runs_by_any_name(corner: Scenario, kind: str) -> None:
    """A pod of a job is told by the job's Workload."""
    corner.set_up(sources=("reserved",))
    corner.job("runs", 1)
    until(lambda: corner.bound("runs"), what="bound")
    name = corner.pods("runs")[0]["metadata"]["name"] if kind == "pod" else "runs"
    assert "admitted with all of its capacity" in why(corner, f"{kind}/{name}").splitlines()[0]


def test_what_nobody_knows(corner: Scenario) -> None:
    corner.set_up(sources=("reserved",))
    corner.job("there", 1)
    until(lambda: corner.workload("there"), what="its Workload")
    lines = why(corner, "rayjob/there").splitlines()
    assert lines[0].startswith(
        f"UNKNOWN rayjob/there: no Workload in namespace {corner.namespace} has an owner of kind rayjob named there"
    )
    assert lines[-1].endswith("are of: job/there")


# --- traps ----------------------------------------------------------------------------------------------------------------


def test_a_flavor_with_a_topology_is_no_trap_where_nodes_are_adopted(corner: Scenario) -> None:
    """Kueue assigns the nodes that are there, Corral books just these; who finds no room is not told to change the flavor."""
    names = [f"{corner.name}-{number}" for number in (1, 2)]
    corner.adopt(*names)
    adopted: Json = {"provider": {"adopted": {}}, "nodeSelector": {"matchLabels": {"corner": corner.name}}}
    corner.set_up(sources=(), pool={**adopted, "shapes": [], "topologyKeys": [], "readiness": {}})
    tas = f"{corner.name}-tas"
    corner.apply(kueue_check.made("Topology", corner.name, {"levels": [{"nodeLabel": kueue_check.HOST}]}))
    with_topology = kueue_check.flavor(corner, nodeLabels={"corner": corner.name})
    corner.apply({**with_topology, "metadata": {"name": tas}})
    queue = corner.queue()
    queue["resourceGroups"][0]["flavors"][0]["name"] = tas
    corner.apply(kueue_check.made("ClusterQueue", corner.name, queue))
    until(lambda: all(is_true(corner.node(name), "Ready") for name in names), what="the nodes are ready")
    kueue_check.job(corner, "here", 2)
    until(lambda: sorted(corner.bound("here")) == names, what="bound to the adopted nodes")
    kueue_check.job(corner, "more", 1)
    lines = told(corner, "job/more", "WAITING QuotaInsufficient ", "topology")
    assert condition(corner.get("cpool", corner.name), "FlavorsUnfit")["status"] == "False"
    assert not any("trap:" in line for line in lines)
