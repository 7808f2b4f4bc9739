from typing import Any

import pytest
from msgspec import structs

from admission.gang import AssignmentMissingError, FlavorMissingError, Member, WorkloadMistakeError, members
from kube.kueue import ResourceFlavor, Workload
from kube.makers import JobSet
from kube.meta import decode
from tests.admission.objects import assignment, flavor, pod_set, workload

Json = dict[str, Any]
FLAVORS = {
    "h100": flavor("h100", {"gpu": "h100"}, [{"key": "gpu", "operator": "Exists"}]),
    "spot": flavor("spot", {"cap": "spot"}),
}


def gang(
    given: Workload,
    *,
    on_flavors: tuple[str, ...] = (),
    managed: tuple[str, ...] = (),
    flavors: dict[str, ResourceFlavor] = FLAVORS,
) -> tuple[Member, ...]:
    return members(given, on_flavors, managed, flavors)


def counts(found: tuple[Member, ...]) -> dict[str, int]:
    return {each.name: each.count for each in found}


def template(**spec: Any) -> Json:
    return {"spec": {"containers": [{"name": "main"}], **spec}}


def wants(kind: str, resource: str, where: str = "containers") -> Json:
    asking = {"name": "asking", "resources": {kind: {resource: "1"}}}
    return template(**{where: [asking]})


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        pytest.param(workload(), {}, {"main": 4}, id="count of the template", marks=pytest.mark.row("3.1-38", "3.9-118")),
        pytest.param(workload(assignments=[assignment(count=3)]), {}, {"main": 3}, id="partial admission"),
        pytest.param(workload(assignments=[assignment(count=0)]), {}, {}, id="admitted count zero"),
        pytest.param(workload(pod_set(count=0)), {}, {}, id="spec count zero"),
        pytest.param(workload(pod_set(count=0), assignments=[assignment(count=2)]), {}, {"main": 2}, id="admitted count wins"),
        pytest.param(workload(pod_set("head", 1), pod_set("workers", 0)), {}, {"head": 1}, id="zero count is skipped (#13975)"),
        pytest.param(
            workload(pod_set(count=0), assignments=[]), {}, {}, id="no pods, no assignment", marks=pytest.mark.row("3.1-40")
        ),
        pytest.param(
            workload(pod_set("a"), pod_set("b"), assignments=[assignment("a"), assignment("b", "spot")]),
            {"on_flavors": ("spot",)},
            {"b": 4},
            id="only pod sets on the check's flavors",
        ),
        pytest.param(
            workload(assignments=[{"name": "main", "flavors": {"cpu": "h100", "nvidia.com/gpu": "spot"}}]),
            {"on_flavors": ("spot",)},
            {"main": 4},
            id="one of two flavors is enough",
        ),
        pytest.param(workload(), {"on_flavors": ("other",)}, {}, id="none on the check's flavors"),
        pytest.param(
            workload(pod_set("a", template=wants("requests", "gpu")), pod_set("b")),
            {"managed": ("gpu",)},
            {"a": 4},
            id="managed: request",
        ),
        pytest.param(
            workload(pod_set("a", template=wants("limits", "gpu")), pod_set("b")),
            {"managed": ("gpu",)},
            {"a": 4},
            id="managed: limit",
        ),
        pytest.param(
            workload(pod_set("a", template=wants("requests", "gpu", "initContainers"))),
            {"managed": ("gpu",)},
            {"a": 4},
            id="managed: init",
        ),
        pytest.param(workload(), {"managed": ("tpu",)}, {}, id="nothing managed: not needed"),
    ],
)
def test_who_needs_capacity(given: Workload, options: dict[str, tuple[str, ...]], expected: dict[str, int]) -> None:
    assert counts(gang(given, **options)) == expected


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        pytest.param({}, {"gpu": "h100"}, id="flavor's labels"),
        pytest.param({"nodeSelector": {"a": "b"}}, {"a": "b", "gpu": "h100"}, id="beside the template's own"),
        pytest.param({"nodeSelector": {"gpu": "h100"}}, {"gpu": "h100"}, id="equal values are fine"),
    ],
)
def test_flavor_selects_nodes(spec: Json, selector: dict[str, str]) -> None:
    [found] = gang(workload(pod_set(template=template(**spec))))
    assert found.template["spec"]["nodeSelector"] == selector


def test_contradicting_selector_is_the_users_mistake() -> None:
    given = workload(pod_set(template=template(nodeSelector={"gpu": "a100"})))
    with pytest.raises(WorkloadMistakeError, match='pod set "main": nodeSelector gpu=a100 contradicts ResourceFlavor "h100"'):
        gang(given)


@pytest.mark.row("3.1-31", "3.1-41", "3.1-42")
def test_a_pod_set_without_assignment_is_named() -> None:
    with pytest.raises(AssignmentMissingError, match='pod set "b"'):
        gang(workload(pod_set("a"), pod_set("b"), assignments=[assignment("a")]))


@pytest.mark.row("3.9-117")
def test_missing_flavor_is_named() -> None:
    with pytest.raises(FlavorMissingError, match='ResourceFlavor "h100" of pod set "main" is not there'):
        gang(workload(), flavors={})


def test_flavor_without_marks_leaves_the_template_alone() -> None:
    given = template()
    [found] = gang(workload(pod_set(template=given)), flavors={"h100": flavor()})
    assert found.template == given


def test_both_flavors_of_a_pod_set_count() -> None:
    given = workload(assignments=[{"name": "main", "flavors": {"cpu": "spot", "nvidia.com/gpu": "h100"}}])
    [found] = gang(given)
    assert found.template["spec"]["nodeSelector"] == {"gpu": "h100", "cap": "spot"}


def test_tolerations_are_added_once() -> None:
    own = [{"key": "gpu", "operator": "Exists"}, {"key": "mine", "operator": "Exists"}]
    [found] = gang(workload(pod_set(template=template(tolerations=own))))
    assert found.template["spec"]["tolerations"] == own
    [found] = gang(workload())
    assert found.template["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


def test_limits_stand_in_for_missing_requests() -> None:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": "8"}, "requests": {"cpu": "1"}}
    given = template(containers=[{"name": "c", "resources": resources}], initContainers=[{"name": "i", "resources": resources}])
    [found] = gang(workload(pod_set(template=given)))
    for kind in ("containers", "initContainers"):
        assert found.template["spec"][kind][0]["resources"]["requests"] == {"cpu": "1", "nvidia.com/gpu": "8"}
    assert given["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}, "the stored workload is not touched"


def test_labels_are_kept() -> None:
    """A pod with affinity to its own job-name label could not be planned without it (kueue#7597)."""
    given = {"metadata": {"labels": {"job-name": "llm"}, "annotations": {"a": "b"}}, **template()}
    [found] = gang(workload(pod_set(template=given)))
    assert found.template["metadata"] == given["metadata"]


OWN = "corral.dev/required-topology"
RACK = {OWN: "rack"}


@pytest.mark.parametrize(
    ("topology", "own", "expected"),
    [
        pytest.param({"required": "rack"}, {}, {**RACK, "corral.dev/topology-group": "main"}, id="required, by itself"),
        pytest.param(
            {"preferred": "block"},
            {},
            {"corral.dev/preferred-topology": "block", "corral.dev/topology-group": "main"},
            id="preferred, by itself",
        ),
        pytest.param({"unconstrained": True}, {}, None, id="unconstrained"),
        pytest.param({"required": "rack"}, {OWN: "host"}, {OWN: "host"}, id="the template's own comes first, and its group"),
        pytest.param(None, {OWN: "host"}, {OWN: "host"}, id="none of Kueue's"),
        pytest.param(
            {"required": "rack", "podSetGroupName": "pair"}, {}, {**RACK, "corral.dev/topology-group": "pair"}, id="a group"
        ),
        pytest.param(
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2},
            {},
            {"corral.dev/slice-topology": "rack", "corral.dev/slice-size": "2"},
            id="slices",
        ),
    ],
)
def test_kueues_topology_request_is_carried(topology: Json | None, own: dict[str, str], expected: dict[str, str] | None) -> None:
    given = template() | ({"metadata": {"annotations": own}} if own else {})
    [found] = gang(workload(pod_set(template=given, topology=topology)))
    assert found.template.get("metadata", {}).get("annotations") == expected


def test_slices_within_slices_are_refused_not_ignored() -> None:
    layers = {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 2}]}
    with pytest.raises(WorkloadMistakeError, match='pod set "main": slices within slices'):
        gang(workload(pod_set(template=template(), topology=layers)))


def test_a_flavor_with_a_topology_leaves_the_hosts_to_kueue() -> None:
    plain = flavor()
    leveled = structs.replace(plain, spec=structs.replace(plain.spec, topology_name="default"))
    [found] = gang(workload(pod_set(template=template())), flavors={"h100": leveled})
    assert found.template["metadata"]["annotations"] == {"corral.dev/placed-by-kueue": "true"}


def test_what_a_job_set_says_of_its_pods_is_noted() -> None:
    jobs = [{"name": "main", "template": {"spec": {"parallelism": 2}}}]
    notes = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    maker = decode({"metadata": {"annotations": notes}, "spec": {"replicatedJobs": jobs}}, JobSet)
    [found] = members(workload(pod_set(template=template())), (), (), FLAVORS, maker)
    assert found.template["metadata"]["annotations"] == {
        "corral.dev/made-by": "JobSet",
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "corral.dev/exclusive-size": "2",
    }


def test_null_counts_as_absent() -> None:
    given = template(nodeSelector=None, tolerations=None, initContainers=None, containers=[{"name": "c", "resources": None}])
    [found] = gang(workload(pod_set(template=given)))
    assert found.template["spec"]["nodeSelector"] == {"gpu": "h100"}
