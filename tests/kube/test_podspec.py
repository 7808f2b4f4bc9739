"""From pod templates to pod sets: selectors, tolerations and affinity of the admitted pod, and every reason for not deciding."""

from typing import Any

import pytest

from capacity.requirements import Expression, NodeSelectorTerm
from capacity.requirements import Toleration as Tolerated
from kube.core import DaemonSet, RuntimeClass, Toleration
from kube.meta import decode
from kube.podspec import daemon_pod_set, pod_set, template
from kube.requests import PodSpecError

ADMITTED = (
    Tolerated("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
    Tolerated("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
)


def of(spec: dict[str, Any], **more: Any) -> Any:
    return pod_set("worker", 4, template({"spec": {"containers": [{"name": "main"}], **spec}}), **more)


def test_carries_name_count_and_topology_keys() -> None:
    notes = {"corral.dev/required-topology": "rack", "corral.dev/preferred-topology": ""}
    result = pod_set("worker", 4, template({"metadata": {"annotations": notes}, "spec": {}}))
    assert (result.name, result.count, result.required_topology, result.preferred_topology) == ("worker", 4, "rack", None)


def test_joins_the_flavors_selector() -> None:
    assert of({"nodeSelector": {"a": "1"}}, extra_node_selector={"a": "1", "b": "2"}).node_selector == {"a": "1", "b": "2"}


def test_refuses_a_selector_that_contradicts_the_flavor() -> None:
    with pytest.raises(PodSpecError, match="nodeSelector a: the template wants 1, its flavor or runtime class 2"):
        of({"nodeSelector": {"a": "1"}}, extra_node_selector={"a": "2"})


def test_adds_the_tolerations_that_admission_adds() -> None:
    assert of({}).tolerations == ADMITTED


def test_adds_none_that_the_pod_speaks_of() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "value": "x", "effect": "NoExecute"}
    assert of({"tolerations": [own]}).tolerations == (Tolerated(own["key"], "Equal", "x", "NoExecute"), ADMITTED[1])


def test_tolerating_everything_adds_none() -> None:
    assert of({}, extra_tolerations=[Toleration(operator="Exists")]).tolerations == (Tolerated("", "Exists", "", ""),)


def test_required_affinity_is_kept_term_by_term() -> None:
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert of({"affinity": affinity}).affinity == (
        NodeSelectorTerm((Expression("a", "In", ("1", "2")),)),
        NodeSelectorTerm((), (Expression("metadata.name", "NotIn", ("n1",)),)),
    )


@pytest.mark.parametrize(
    "affinity",
    [
        pytest.param(None, id="none"),
        pytest.param({"nodeAffinity": None}, id="null"),
        pytest.param({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}, id="preferred"),
    ],
)
def test_what_isnt_required_doesnt_constrain(affinity: Any) -> None:
    result = of({"affinity": affinity})
    assert (result.affinity, result.undecidable) == (None, ())


KATA = decode(
    {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    },
    RuntimeClass,
)


def test_a_known_runtime_class_adds_what_it_adds() -> None:
    result = of({"runtimeClassName": "kata"}, runtime_classes={"kata": KATA})
    assert (result.requests["cpu"], result.node_selector, result.undecidable) == (250, {"kata": "yes"}, ())
    assert result.tolerations[0] == Tolerated("kata", "Exists")


SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def terms(*each: dict[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(each)}


def given(key: str) -> str:
    return f"pods are selected by label {key}, which their controller adds and the template doesn't show"


SELF = terms({"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}})


@pytest.mark.parametrize(
    ("spec", "reasons"),
    [
        pytest.param({"schedulerName": "default-scheduler"}, [], id="the default scheduler"),
        pytest.param({"schedulerName": "other"}, ["scheduler other places it, not default-scheduler"], id="another scheduler"),
        pytest.param({"nodeName": "n1"}, ["spec.nodeName n1 bypasses the scheduler"], id="preset node"),
        pytest.param({"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}, [], id="Kueue's gate"),
        pytest.param({"schedulingGates": [{"name": "a/b"}]}, ["scheduling gate a/b holds it back"], id="another gate"),
        pytest.param(
            {"volumes": [{"name": "v", "iscsi": {"lun": 1}}]},
            ["volume v: iscsi is limited by what else is mounted on its node"],
            id="volume that isn't modelled",
        ),
        pytest.param({"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]}, [], id="host port"),
        pytest.param(
            {"resourceClaims": [{"name": "gpu"}]}, ["resource claim gpu is allocated by the scheduler"], id="device claim"
        ),
        pytest.param({"topologySpreadConstraints": [SPREAD]}, [], id="spread"),
        pytest.param({"affinity": {"podAffinity": SELF, "podAntiAffinity": SELF}}, [], id="pod affinity"),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "labelSelector": {"matchLabels": {"job-name": "j"}}}]},
            [given("job-name")],
            id="spread by a label that the Job adds",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "labelSelector": {}, "matchLabelKeys": ["pod-template-hash", "mine"]}]},
            [given("pod-template-hash")],
            id="spread by a label that the ReplicaSet adds",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": terms({"topologyKey": "rack", "mismatchLabelKeys": ["ray.io/cluster"]})}},
            [given("ray.io/cluster")],
            id="affinity by a label that KubeRay adds",
        ),
        pytest.param(
            {"affinity": {"podAffinity": terms({"topologyKey": "rack", "namespaceSelector": {"matchLabels": {"a": "b"}}})}},
            ["pod affinity over rack selects namespaces by labels, which aren't known here"],
            id="namespaces that aren't known",
        ),
        pytest.param(
            {"affinity": {"podAffinity": terms({"topologyKey": "rack", "namespaceSelector": {}})}}, [], id="all namespaces"
        ),
    ],
)
def test_names_what_it_cant_decide(spec: dict[str, Any], reasons: list[str]) -> None:
    assert list(of(spec).undecidable) == reasons


def test_waits_for_what_the_pod_names() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    result = of({"runtimeClassName": "gvisor", "volumes": [claim]}, namespace="team")
    assert result.undecidable == ()
    assert result.awaits == (
        "RuntimeClass gvisor isn't there: create it",
        "volume v: PersistentVolumeClaim data isn't there: create it in namespace team",
    )


def test_extended_resources_served_by_device_classes() -> None:
    asks = {"x.com/gpu": "1", "y.com/gpu": "1", "deviceclass.resource.kubernetes.io/z": "1"}
    result = of({"containers": [{"name": "main", "resources": {"limits": asks}}]}, device_resources=frozenset({"x.com/gpu"}))
    assert [text.split()[1] for text in result.undecidable] == ["deviceclass.resource.kubernetes.io/z", "x.com/gpu"]


def test_carries_what_it_asks_of_other_pods() -> None:
    spec = {
        "containers": [{"name": "main", "ports": [{"hostPort": 80}]}],
        "affinity": {"podAffinity": SELF, "podAntiAffinity": SELF},
        "topologySpreadConstraints": [SPREAD],
    }
    made = template({"metadata": {"labels": {"app": "x", "job-name": "j"}}, "spec": spec})
    result = pod_set("worker", 1, made, namespace="team")
    assert (result.namespace, result.labels) == ("team", {"app": "x", "job-name": "j"})
    assert result.near == result.apart
    assert [term.namespaces for term in result.near] == [frozenset({"team"})]
    assert (len(result.ports), len(result.spreads), result.undecidable) == (1, 1, ())


def test_a_jobs_key_is_there_though_its_value_is_not_known() -> None:
    made = template({"metadata": {"labels": {"app": "x"}, "annotations": {"corral.dev/made-by": "JobSet"}}, "spec": {}})
    assert pod_set("worker", 1, made).labels == {"app": "x", "jobset.sigs.k8s.io/job-key": "?"}


@pytest.mark.parametrize(
    ("note", "words"),
    [
        pytest.param("leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology", "keeps the subgroups of a group", id="subgroups"),
        pytest.param("alpha.jobset.sigs.k8s.io/node-selector", "select nodes that somebody labels", id="labelled nodes"),
    ],
)
def test_ways_to_place_pods_that_nobody_plans_for(note: str, words: str) -> None:
    [reason] = pod_set("worker", 1, template({"metadata": {"annotations": {note: "rack"}}, "spec": {}})).undecidable
    assert note in reason
    assert words in reason


def test_a_label_that_the_template_shows_is_known() -> None:
    spread = {**SPREAD, "labelSelector": {"matchLabels": {"job-name": "j"}}}
    made = template({"metadata": {"labels": {"job-name": "j"}}, "spec": {"topologySpreadConstraints": [spread]}})
    assert pod_set("worker", 1, made).undecidable == ()


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(PodSpecError, match=r"pod template: .*containers"):
        template({"spec": {"containers": "main"}})


def test_daemon_sets_get_their_controllers_tolerations() -> None:
    view = decode({"metadata": {"namespace": "kube-system", "name": "gpu"}, "spec": {"template": {"spec": {}}}}, DaemonSet)
    result = daemon_pod_set(view)
    assert result.name == "kube-system/gpu"
    assert Tolerated("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule") in result.tolerations
    assert len(result.tolerations) == 6


def test_annotations_for_gangs_mean_nothing_on_a_daemon_set() -> None:
    template = {"metadata": {"annotations": {"corral.dev/rack": "r"}}, "spec": {"containers": [{"name": "main"}]}}
    view = decode({"metadata": {"namespace": "n", "name": "d"}, "spec": {"template": template}}, DaemonSet)
    assert daemon_pod_set(view).count == 1
