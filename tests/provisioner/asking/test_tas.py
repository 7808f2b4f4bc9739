"""Requests of Kueue's own provisioning check, as its v0.17.0 writes them, and the topology by which Kueue places the pods."""

from typing import Any

import pytest

from capacity.model import PodSet, Slices
from capacity.requirements import Expression, NodeSelectorTerm
from kube import core, kueue
from kube.autoscaling import ProvisioningRequest
from kube.meta import ObjectKey, decode
from provisioner.asking.acceptance import Accepted, Desk, Judgement, NotYet, Refused, judge, still_reserved
from provisioner.asking.authority import Look
from provisioner.asking.producers import check_of, stated
from provisioner.buying.drafts import booking_name
from tests.provisioner.make import GPU_TOLERATION, NOW, RACK, check, policy, request, template

KUEUES = "kueue.x-k8s.io/provisioning-request"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TOLERATIONS = [GPU_TOLERATION, {"key": "corral.dev/booked", "operator": "Exists"}]
MARK = {"key": "corral.dev/request", "valueFromProvisioningClassDetail": "RequestLabel"}
NAME = "job-capacity-1"


def kueues_request(name: str = NAME, *pod_sets: str, **more: Any) -> ProvisioningRequest:
    """For Workload `job`, uid wl-uid; 4 pods of each pod set."""
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "job", "uid": "wl-uid", "controller": True}
    labels = {"kueue.x-k8s.io/managed": "true"}
    meta = {"labels": labels, "annotations": {}, "ownerReferences": [owner], "uid": "pr-uid"} | more.pop("metadata", {})
    templates = [f"ppt-{name}-{each}" for each in pod_sets or ("main",)]
    return request(name, metadata=meta, templates=templates, **more)


def kueues_template(pod_set: str = "main", owner: str = "ProvisioningRequest", **spec: Any) -> core.PodTemplate:
    """Handed over to the request, unless its owner is the Workload still."""
    raw = template(f"ppt-{NAME}-{pod_set}", spec={"tolerations": TOLERATIONS} | spec).to_json()
    uid = "pr-uid" if owner == "ProvisioningRequest" else "wl-uid"
    raw["metadata"] |= {"labels": {}, "ownerReferences": [{"kind": owner, "name": "x", "uid": uid, "controller": True}]}
    return decode(raw, core.PodTemplate)


def workload(*pod_sets: str, flavors: dict[str, str] | None = None, **topology: Any) -> kueue.Workload:
    names = pod_sets or ("main",)
    given = flavors or {}
    own = template(spec={"tolerations": topology.pop("tolerations", TOLERATIONS)}).template
    value = {
        "metadata": {"name": "job", "namespace": "team", "uid": "wl-uid"},
        "spec": {
            "podSets": [{"name": name, "count": 4, "template": own, "topologyRequest": topology.get(name)} for name in names]
        },
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {
                "podSetAssignments": [
                    {"name": name, "count": 4, "flavors": {"cpu": given.get(name, "tas")}, "delayedTopologyRequest": "Pending"}
                    for name in names
                ]
            },
            "admissionChecks": [
                {"name": "capacity", "state": "Pending", "message": "", "lastTransitionTime": "2026-09-01T09:59:00Z"}
            ],
        },
    }
    return decode(value, kueue.Workload)


def flavor(name: str, topology: str | None) -> kueue.ResourceFlavor:
    return decode({"metadata": {"name": name}, "spec": {"topologyName": topology}}, kueue.ResourceFlavor)


def look(known: kueue.Workload | None = None, **more: Any) -> Look:
    updates = {"nodeSelector": more.get("updates", [MARK])}
    spec = {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": "default"}, "podSetUpdates": updates}
    config = decode({"metadata": {"name": "conf"}, "spec": spec}, kueue.ProvisioningRequestConfig)
    levels = [{"nodeLabel": key} for key in more.get("levels", (ZONE, RACK, HOST))]
    topology = decode({"metadata": {"name": "racks"}, "spec": {"levels": levels}}, kueue.Topology)
    flavors = {"tas": flavor("tas", "racks"), "plain": flavor("plain", None)}
    return Look(
        {("team", "job"): known or workload()}.get,
        lambda _: check(controller=more.get("controller", KUEUES), kind="ProvisioningRequestConfig", parameters="conf"),
        {},
        {"conf": config}.get,
        flavor=flavors.get,
        topology=({"racks": topology} if more.get("topology", True) else {}).get,
    )


def outcome(asked: ProvisioningRequest, seen: Look, *templates: core.PodTemplate) -> Judgement:
    by_key = {("team", each.metadata.name): each for each in templates or (kueues_template(),)}
    return judge(asked, Desk(by_key.get, {"default": policy()}.get, seen, ["p"]), NOW)


def pods(found: Judgement) -> tuple[PodSet, ...]:
    assert isinstance(found, Accepted), found
    return found.gang.pod_sets


def test_a_request_of_kueues_own_check_is_served_for_its_workload() -> None:
    found = outcome(kueues_request(), look())
    assert isinstance(found, Accepted), found
    assert (found.workload, found.check) == (ObjectKey(namespace="team", name="job", uid="wl-uid"), "capacity")
    assert (found.gang.name, found.gang.one_mark) == ("team/job", True)
    assert [(each.name, each.count) for each in pods(found)] == [("main", 4)]
    assert still_reserved(found, look())
    assert booking_name(kueues_request(), 1).startswith("job-")


def test_its_templates_may_still_be_the_workloads() -> None:
    assert isinstance(outcome(kueues_request(), look(), kueues_template(owner="Workload")), Accepted)


@pytest.mark.parametrize(
    ("asked", "seen", "text"),
    [
        pytest.param(kueues_request(metadata={"labels": {}}), look(), "no Workload stands behind", id="not-managed-by-kueue"),
        pytest.param(kueues_request(), look(controller="corral.dev/capacity"), 'no check "capacity" of kueue', id="our-check"),
        pytest.param(kueues_request(parameters={"policy": "rich"}), look(), "rich", id="another-policy"),
        pytest.param(kueues_request(count=5), look(), "asks for 5 pods", id="greedy"),
    ],
)
def test_no_request_that_only_looks_like_it_is_served(asked: ProvisioningRequest, seen: Look, text: str) -> None:
    found = outcome(asked, seen)
    assert isinstance(found, Refused | NotYet)
    assert text in found.message


def test_a_template_of_somebody_else_is_refused() -> None:
    foreign = decode(
        {**kueues_template().to_json(), "metadata": template(f"ppt-{NAME}-main").to_json()["metadata"]}, core.PodTemplate
    )
    raw = foreign.to_json()
    raw["metadata"]["ownerReferences"] = [{"kind": "Workload", "name": "job", "uid": "other", "controller": True}]
    found = outcome(kueues_request(), look(), decode(raw, core.PodTemplate))
    assert isinstance(found, NotYet)
    assert "is not owned by Workload job" in found.message


def test_the_name_of_its_request_tells_the_check() -> None:
    assert check_of(kueues_request(), workload()) == "capacity"
    assert check_of(kueues_request("job-capacity-x"), workload()) == ""
    assert check_of(kueues_request("other-capacity-1"), workload()) == ""
    assert stated(request(bare=True)) is None


def test_kueues_topology_request_and_the_levels_of_its_topology_are_planned_for() -> None:
    asked = {"required": ZONE, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 2}
    (found,) = pods(outcome(kueues_request(), look(workload(main=asked))))
    assert (found.required_topology, found.slices, found.placed_by_kueue) == (ZONE, Slices(RACK, 2), True)
    assert found.levels == (ZONE, RACK, HOST)
    assert [each.key for each in found.tolerations] == ["gpu", "corral.dev/booked"]
    assert found.affinity == (NodeSelectorTerm((Expression(ZONE, "Exists"), Expression(RACK, "Exists"))),)


def test_pod_sets_of_a_group_are_placed_together_others_by_themselves() -> None:
    group = {"required": RACK, "podSetGroupName": "g"}
    asked = kueues_request(NAME, "lead", "work", "rest")
    templates = [kueues_template(name) for name in ("lead", "work", "rest")]
    found = pods(outcome(asked, look(workload("lead", "work", "rest", lead=group, work=group)), *templates))
    assert [each.topology_group for each in found] == ["g", "g", "rest"]


def test_a_flavor_without_a_topology_is_left_to_kube_scheduler() -> None:
    (found,) = pods(outcome(kueues_request(), look(workload(flavors={"main": "plain"}))))
    assert (found.placed_by_kueue, found.levels, found.affinity) == (False, (), None)


def test_a_topology_that_is_not_there_yet_is_waited_for() -> None:
    (found,) = pods(outcome(kueues_request(), look(topology=False)))
    assert found.awaits == ("Topology racks of its flavor",)


@pytest.mark.parametrize(
    ("known", "levels", "text"),
    [
        pytest.param(workload(), (ZONE, RACK), "add the level kubernetes.io/hostname", id="no-host-level"),
        pytest.param(
            workload(main={"podsetSliceRequiredTopologyConstraints": [{}]}), (RACK, HOST), "slices within", id="nested-slices"
        ),
    ],
)
def test_what_can_not_be_planned_is_said(known: kueue.Workload, levels: tuple[str, ...], text: str) -> None:
    (found,) = pods(outcome(kueues_request(), look(known, levels=levels)))
    assert text in " ".join(found.undecidable)


def test_several_flavors_with_topologies_are_undecidable() -> None:
    seen = look(workload("a", "b", flavors={"b": "other"}))
    flavors = {"tas": flavor("tas", "racks"), "other": flavor("other", "racks")}
    seen = Look(seen.workload, seen.check, {}, seen.config, flavor=flavors.get, topology=seen.topology)
    found = pods(outcome(kueues_request(NAME, "a", "b"), seen, kueues_template("a"), kueues_template("b")))
    assert all("several flavors" in each.undecidable[0] for each in found)


@pytest.mark.parametrize(
    ("seen", "given", "text"),
    [
        pytest.param(
            look(updates=[]),
            kueues_template(),
            "ProvisioningRequestConfig conf: nothing would send the pods to their nodes: add to spec.podSetUpdates.nodeSelector",
            id="nothing-steers",
        ),
        pytest.param(
            look(updates=[MARK | {"valueFromProvisioningClassDetail": "Booking"}]),
            kueues_template(),
            "valueFromProvisioningClassDetail RequestLabel",
            id="steers-by-another-detail",
        ),
        pytest.param(
            look(),
            kueues_template(tolerations=[GPU_TOLERATION]),
            "add the toleration to spec.tolerations of ResourceFlavor tas",
            id="does-not-tolerate-the-taint",
        ),
        pytest.param(
            look(workload(tolerations=[GPU_TOLERATION])),
            kueues_template(),
            "add the toleration to the job's own pod template",
            id="only-its-flavor-tolerates-the-taint",
        ),
        pytest.param(
            look(workload("main", "launcher")),
            kueues_template(),
            "pod set launcher of the Workload is on the same flavor, but the request leaves it out: remove managedResources",
            id="a-pod-set-left-out",
        ),
    ],
)
def test_what_would_not_come_to_its_nodes_is_refused_with_the_remedy(seen: Look, given: core.PodTemplate, text: str) -> None:
    found = outcome(kueues_request(), seen, given)
    assert isinstance(found, Refused)
    assert found.reason == "InvalidArgument"
    assert text in found.message


def test_a_pod_set_on_a_flavor_of_its_own_may_be_left_out() -> None:
    assert isinstance(outcome(kueues_request(), look(workload("main", "launcher", flavors={"launcher": "plain"}))), Accepted)
