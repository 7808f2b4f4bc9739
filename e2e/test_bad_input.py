"""Bad input gets one clear message on the object at fault, shown by `kubectl describe`; all else goes on without a hitch."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.controlplane.cluster import ControlPlaneError
from e2e.scenario import RACK, Scenario, condition, is_true, until

Json = dict[str, Any]
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture(autouse=True)
def undisturbed(corner: Scenario) -> Iterator[None]:
    """Whatever a test does, both services live on and log no traceback."""
    programs = corner.stack.programs.values()
    before = {program.command: len(program.log.read_bytes()) for program in programs}
    yield
    for program in programs:
        assert program.alive, program.tail()
        logged = program.log.read_bytes()[before[program.command] :].decode(errors="replace")
        assert "Traceback" not in logged, logged


def served(corner: Scenario, name: str = "good") -> None:
    """A gang in the same corner gets its machines all the same."""
    corner.job(name, 1)
    until(lambda: corner.bound(name), what=f"job {name} bound")


def told(corner: Scenario, kind: str, name: str, *words: str) -> None:
    """`kubectl describe` comes to hold the words (events go out beside the work); how it breaks lines doesn't matter."""

    def described() -> bool:
        found = " ".join(corner.kubectl("describe", kind, name, "-n", corner.namespace).split())
        return all(" ".join(word.split()) in found for word in words)

    until(described, seconds=15, what=f"kubectl describe {kind} {name} tells {words}")


def refusal(corner: Scenario, manifest: Mapping[str, Any]) -> str:
    """What kubectl says when the API server refuses the object."""
    with pytest.raises(ControlPlaneError) as caught:
        corner.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    return str(caught.value)


def pool(corner: Scenario, name: str, **spec: Any) -> Json:
    base = {"provider": {"simulated": {"endpoint": corner.stack.cloud.endpoint}}, "mode": "Active", "shapes": [corner.shape]}
    return {
        "apiVersion": "corral.dev/v1alpha1",
        "kind": "CapacityPool",
        "metadata": {"name": name},
        "spec": {**base, "sources": [{"name": "od", "capacityType": "on-demand"}], **spec},
    }


def template(corner: Scenario, name: str, **pod: Any) -> Json:
    spec = {**corner.pod_spec(), "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], **pod}
    meta = {"name": name, "namespace": corner.namespace}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"spec": spec}}


def request(corner: Scenario, name: str, *pod_sets: tuple[str, int], **parameters: str) -> Json:
    sets = [{"count": count, "podTemplateRef": {"name": of}} for of, count in pod_sets]
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": corner.namespace},
        "spec": {
            "provisioningClassName": "gang.corral.dev",
            "podSets": sets,
            "parameters": {"policy": corner.name, **parameters},
        },
    }


def bare(corner: Scenario, **pool: Any) -> None:
    """The corner, with a policy that admits requests which no Workload stands behind."""
    corner.set_up(policy={"bareRequests": {"namespaces": [corner.namespace]}}, **pool)


def failed(corner: Scenario, name: str) -> Json:
    until(lambda: is_true(corner.get("provreq", name), "Failed"), what="refused")
    return condition(corner.get("provreq", name), "Failed")


def annotated(corner: Scenario, name: str, **annotations: str) -> None:
    """A Job of one pod, annotated by its user."""
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    meta = {"name": name, "namespace": corner.namespace, "labels": labels, "annotations": annotations}
    spec = {"template": {"spec": corner.pod_spec()}, "backoffLimit": 0}
    corner.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


# --- pools and policies ---------------------------------------------------------------------------------------------------


def test_an_unknown_shape_is_named_on_the_pool(corner: Scenario) -> None:
    corner.set_up()
    name = f"{corner.name}-shape"
    corner.apply(pool(corner, name, shapes=["gpu9"]))
    until(lambda: condition(corner.get("cpool", name), "Ready").get("reason") == "UnknownShape")
    found = condition(corner.get("cpool", name), "Ready")
    assert found["status"] == "False"
    assert found["message"].startswith("spec.shapes: the cloud has no gpu9: correct or remove it; it knows")
    told(corner, "cpool", name, found["message"], "UnknownShape")
    served(corner)
    assert len([each for each in corner.events("CapacityPool", name) if each["reason"] == "UnknownShape"]) == 1
    corner.kubectl("delete", "cpool", name)


def test_an_unreachable_cloud_is_named_on_the_pool(corner: Scenario) -> None:
    corner.set_up()
    name = f"{corner.name}-away"
    corner.apply(pool(corner, name, provider={"simulated": {"endpoint": "http://127.0.0.1:1"}}))
    until(lambda: condition(corner.get("cpool", name), "Ready").get("reason") == "ProviderUnreachable")
    told(corner, "cpool", name, "spec.provider: ", "http://127.0.0.1:1", "correct it or wait for the cloud")
    served(corner)
    corner.kubectl("delete", "cpool", name)


def test_negative_counts_are_refused_at_once(corner: Scenario) -> None:
    source = {"name": "od", "capacityType": "on-demand", "maxNodes": -1}
    words = refusal(corner, pool(corner, corner.name, sources=[source], limits={"onDemandNodes": -5}))
    assert f'CapacityPool "{corner.name}" is invalid' in words
    assert (
        "spec.sources[0].maxNodes: Invalid value: -1: spec.sources[0].maxNodes in body should be greater than or equal to 0"
        in words
    )
    assert "spec.limits.onDemandNodes: Invalid value: -5" in words


def test_a_policy_that_names_no_pool_says_so_and_works_once_corrected(corner: Scenario) -> None:
    corner.set_up(policy={"pools": ["nowhere"]})
    until(lambda: condition(corner.get("cpolicy", corner.name), "Ready").get("status") == "False")
    found = condition(corner.get("cpolicy", corner.name), "Ready")
    assert (found["reason"], found["message"]) == (
        "UnknownPool",
        "spec.pools: there is no CapacityPool nowhere: create it or correct the name",
    )
    told(corner, "cpolicy", corner.name, found["message"])
    corner.job("lost", 1)
    until(lambda: condition(corner.requests()[0], "Accepted").get("reason") == "NoPool")
    words = f"CapacityPolicy {corner.name}: there is no CapacityPool nowhere: create it or correct the name"
    told(corner, "provreq", corner.requests()[0]["metadata"]["name"], words)
    until(lambda: words in str(corner.workload("lost")["status"]["admissionChecks"]))
    corner.apply_policy(pools=[corner.name])
    until(lambda: corner.bound("lost"), what="served once the policy is right")
    assert is_true(corner.get("cpolicy", corner.name), "Ready")
    until(lambda: sorted(each["reason"] for each in corner.events("CapacityPolicy", corner.name)) == ["Ready", "UnknownPool"])


# --- requests -------------------------------------------------------------------------------------------------------------


def test_an_unknown_parameter_is_named_on_the_request(corner: Scenario) -> None:
    bare(corner)
    corner.apply(template(corner, "pods"))
    corner.apply(request(corner, "odd", ("pods", 1), timout="5m"))
    found = failed(corner, "odd")
    assert found["reason"] == "InvalidArgument"
    assert found["message"].startswith('parameter "timout" is unknown: remove it; known are policy, requiredTopology, ')
    told(corner, "provreq", "odd", found["message"])
    until(lambda: [each["reason"] for each in corner.events("ProvisioningRequest", "odd")] == ["InvalidArgument"])
    served(corner)


def test_an_unknown_parameter_of_a_job_is_named_on_its_workload(corner: Scenario) -> None:
    corner.set_up()
    annotated(corner, "odd", **{"provreq.kueue.x-k8s.io/timout": "5m"})
    until(lambda: corner.workload("odd")["spec"].get("active") is False, what="refused for good")
    told(
        corner,
        "workload",
        corner.workload("odd")["metadata"]["name"],
        'InvalidArgument: parameter "timout" is unknown: remove it',
    )
    assert not corner.machines()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        pytest.param(0, "should be greater than or equal to 1", id="none"),
        pytest.param(-3, "should be greater than or equal to 1", id="negative"),
    ],
)
def test_counts_out_of_range_are_refused_at_once(corner: Scenario, count: int, words: str) -> None:
    text = refusal(corner, request(corner, "odd", ("pods", count)))
    assert f'ProvisioningRequest "odd" is invalid: spec.podSets[0].count: Invalid value: {count}' in text
    assert words in text


@pytest.mark.parametrize("pod_sets", [pytest.param([16_385], id="one"), pytest.param([16_000, 385], id="the-sum")])
def test_too_many_pods_are_named_on_the_request(corner: Scenario, pod_sets: list[int]) -> None:
    """The kind's own schema, which is upstream's, sets no maximum."""
    bare(corner)
    corner.apply(request(corner, "odd", *((f"t{number}", count) for number, count in enumerate(pod_sets))))
    found = failed(corner, "odd")
    text = "podSets ask for 16385 pods: ask for 1 to 16384, and at least one of each"
    assert (found["reason"], found["message"]) == ("InvalidArgument", text)
    told(corner, "provreq", "odd", found["message"])


def test_a_job_with_too_many_pods_is_named_on_its_workload(corner: Scenario) -> None:
    corner.set_up()
    small = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}]
    corner.job("huge", 20_000, containers=small)
    until(lambda: corner.workload("huge")["spec"].get("active") is False, what="refused for good")
    told(corner, "workload", corner.workload("huge")["metadata"]["name"], "podSets ask for 20000 pods: ask for 1 to 16384")
    served(corner)


def test_a_missing_template_has_its_grace_and_is_named_on_the_request(corner: Scenario) -> None:
    bare(corner)
    corner.apply(request(corner, "odd", ("nowhere", 1)))
    until(lambda: condition(corner.get("provreq", "odd"), "Accepted").get("status") == "False")
    waits = condition(corner.get("provreq", "odd"), "Accepted")
    text = f"PodTemplate nowhere not found in namespace {corner.namespace}: create it"
    assert waits["reason"] == "MissingPodTemplates"
    assert waits["message"].startswith(f"{text}; refused at ")
    corner.apply(request(corner, "slow", ("soon", 1)))
    until(lambda: condition(corner.get("provreq", "slow"), "Accepted").get("status") == "False")
    corner.apply(template(corner, "soon"))
    until(lambda: is_true(corner.get("provreq", "slow"), "Provisioned"), what="served once its template is there")
    found = failed(corner, "odd")
    assert (found["reason"], found["message"]) == ("MissingPodTemplates", text)
    told(corner, "provreq", "odd", found["message"])


def test_a_template_without_requests_is_named(corner: Scenario) -> None:
    bare(corner)
    corner.apply(template(corner, "pods", containers=[{"name": "main", "image": "x"}]))
    corner.apply(request(corner, "odd", ("pods", 1)))
    found = failed(corner, "odd")
    text = 'pod set pods: container "main" requests nothing: set requests for cpu, memory or a device in PodTemplate pods'
    assert (found["reason"], found["message"]) == ("InvalidArgument", text)
    told(corner, "provreq", "odd", found["message"])
    served(corner)


def test_a_job_without_requests_is_named_on_its_workload(corner: Scenario) -> None:
    corner.set_up()
    corner.job("empty", 1, containers=[{"name": "main", "image": "x"}])
    until(lambda: corner.workload("empty")["spec"].get("active") is False, what="refused for good")
    told(corner, "workload", corner.workload("empty")["metadata"]["name"], 'container "main" requests nothing')


def test_a_template_that_the_api_server_refuses_is_named_on_the_workload(corner: Scenario) -> None:
    """Nobody checks the template of a Workload made by hand before our PodTemplate is."""
    corner.set_up()
    container = {"name": "main", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    by_hand(corner, "odd", spec)
    until(lambda: corner.get("workload", "odd")["spec"].get("active") is False, what="refused for good")
    told(corner, "workload", "odd", 'pod set "main": the API server refuses its pod template', "Limit must be set")
    served(corner)


def by_hand(corner: Scenario, name: str, pod: Json) -> None:
    """A Workload that no job stands behind."""
    sets = [{"name": "main", "count": 1, "template": {"spec": pod}}]
    corner.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": corner.namespace},
            "spec": {"queueName": "q", "podSets": sets},
        }
    )


def test_a_workload_with_a_name_of_240_characters_is_served(corner: Scenario) -> None:
    corner.set_up()
    name = "w" * 240
    by_hand(corner, name, corner.pod_spec())
    until(lambda: is_true(corner.get("workload", name), "Admitted"), what="admitted")
    [booking] = corner.bookings()
    assert len(booking["metadata"]["name"]) <= 45
    told(corner, "workload", name, "from Pending to Ready")
    corner.kubectl("delete", "workload", name, "-n", corner.namespace)
    until(lambda: not corner.alive(), what="given back")


# --- the cluster around ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        pytest.param(None, "missing parameters: set spec.parameters to a CapacityPolicy", id="none"),
        pytest.param({"apiGroup": "corral.dev", "kind": "Policy", "name": "x"}, 'kind "Policy"', id="unknown-kind"),
        pytest.param(
            {"apiGroup": "corral.dev", "kind": "CapacityPolicy", "name": "nowhere"},
            'CapacityPolicy "nowhere" is not there or not valid: create or correct it',
            id="no-such-policy",
        ),
    ],
)
def test_wrong_parameters_are_named_on_the_check(corner: Scenario, parameters: Json | None, words: str) -> None:
    corner.set_up()
    name = f"{corner.name}-check"
    spec = {"controllerName": "corral.dev/capacity", **({"parameters": parameters} if parameters else {})}
    corner.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec})
    until(lambda: condition(corner.get("admissioncheck", name), "Active"))
    found = condition(corner.get("admissioncheck", name), "Active")
    assert (found["status"], found["reason"]) == ("False", "BadParametersRef")
    assert words in found["message"]
    told(corner, "admissioncheck", name, words)
    until(lambda: [each["reason"] for each in corner.events("AdmissionCheck", name)] == ["BadParametersRef"])
    served(corner)
    corner.kubectl("delete", "admissioncheck", name)


def test_a_daemon_set_that_does_not_tolerate_the_taint_is_named_and_stops_nothing_unless_required(corner: Scenario) -> None:
    corner.set_up()
    agent = _daemon_set(corner, "agent")
    corner.apply(agent)
    full = f"{corner.namespace}/agent"
    until(lambda: condition(corner.get("cpool", corner.name), "DaemonSetsBlocked").get("status") == "True")
    found = condition(corner.get("cpool", corner.name), "DaemonSetsBlocked")
    remedy = "add the toleration {key: corral.dev/booked, operator: Exists, effect: NoSchedule} to the pod template"
    assert found["reason"] == "TolerationMissing"
    assert f"DaemonSet {full} would not run on booked nodes: {remedy}" in found["message"]
    told(corner, "cpool", corner.name, found["message"])
    told(corner, "daemonset", "agent", f"would not run on booked nodes: {remedy}")
    served(corner)

    required = ["kube-system/nvidia-device-plugin", full]
    corner.apply_pool(sources=("reserved",), readiness={"timeout": "20s", "requiredDaemonSets": required})
    until(lambda: condition(corner.get("cpool", corner.name), "DaemonSetsBlocked").get("reason") == "RequiredDaemonSets")
    corner.job("held", 2)
    until(lambda: remedy in condition(corner.requests()[-1], "Provisioned").get("message", ""), what="told why it waits")
    assert len(corner.machines()) == 1
    agent["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    corner.apply(agent)
    until(lambda: len(corner.bound("held")) == 2, what="served once the DaemonSet is right")
    assert condition(corner.get("cpool", corner.name), "DaemonSetsBlocked")["status"] == "False"
    corner.kubectl("delete", "daemonset", "agent", "-n", corner.namespace)


def _daemon_set(corner: Scenario, name: str) -> Json:
    pod = {"nodeSelector": {TYPE: corner.shape}, "containers": [{"name": "c", "image": "c"}]}
    pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": corner.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def test_a_flavor_whose_labels_nothing_bears_is_named(corner: Scenario) -> None:
    corner.set_up()
    flavor = {
        "nodeLabels": {TYPE: corner.shape, "team": "nobody"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    manifest: Json = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": corner.name}}
    corner.apply({**manifest, "spec": flavor})
    until(lambda: condition(corner.get("cpool", corner.name), "LabelsMissing").get("status") == "True")
    found = condition(corner.get("cpool", corner.name), "LabelsMissing")
    text = f"ResourceFlavor {corner.name} asks for {TYPE}={corner.shape}, team=nobody, which no node or shape of a pool bears"
    assert text in found["message"]
    told(corner, "cpool", corner.name, found["message"])
    told(corner, "resourceflavor", corner.name, text)
    corner.job("lost", 1)
    until(lambda: "team" in condition(corner.requests()[0], "Provisioned").get("message", ""), what="told why it waits")
    assert not corner.machines()
    corner.apply({**manifest, "spec": {**flavor, "nodeLabels": {TYPE: corner.shape}}})
    until(lambda: condition(corner.get("cpool", corner.name), "LabelsMissing").get("status") == "False")
    corner.kubectl("delete", "job", "lost", "-n", corner.namespace)
    served(corner)


def test_a_topology_level_that_no_pool_has_is_named_on_the_policy(corner: Scenario) -> None:
    corner.set_up(policy={"topology": {"required": "rack"}})
    until(lambda: condition(corner.get("cpolicy", corner.name), "Ready").get("status") == "False")
    found = condition(corner.get("cpolicy", corner.name), "Ready")
    assert found["reason"] == "UnknownTopologyKey"
    assert f"spec.topology.required: no pool has rack among its topologyKeys: name one of {RACK}" in found["message"]
    told(corner, "cpolicy", corner.name, found["message"])
    corner.apply_policy()
    served(corner)
