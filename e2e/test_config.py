"""config/ at the real API server: it installs, its roles are enough and no more, and its policy keeps booked room free."""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Api
from e2e.controlplane.cluster import ControlPlane, ControlPlaneError

Json = dict[str, Any]
Kubectl = Callable[..., str]

CONFIG = Path(__file__).parent.parent / "config"
SYSTEM = "corral-system"


@pytest.fixture(scope="module")
def installed(controlplane: ControlPlane) -> Iterator[ControlPlane]:
    """The namespace, the roles and the policy; neither Deployment, for no kubelet runs their image here."""
    parts = [part for part in built(controlplane, CONFIG / "default") if part["kind"] not in ("Deployment", "ConfigMap")]
    controlplane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=listed(parts))
    yield controlplane
    controlplane.kubectl("delete", "validatingadmissionpolicybinding", "corral-booked-room", "corral-own-templates")


def built(plane: ControlPlane, folder: Path) -> list[Json]:
    return [part for part in yaml.safe_load_all(plane.kubectl("kustomize", str(folder))) if part]


def listed(parts: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": parts})


# --- it installs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["default", "samples"])
def test_the_api_server_takes_it_all(installed: ControlPlane, folder: str) -> None:
    said = installed.kubectl("apply", "--dry-run=server", "--server-side", "--force-conflicts", "-k", str(CONFIG / folder))
    lines = said.strip().splitlines()
    assert len(lines) == len(built(installed, CONFIG / folder))
    assert all("serverside-applied" in line for line in lines)


def test_the_simulated_cloud_can_be_added(installed: ControlPlane, tmp_path: Path) -> None:
    own = {
        "resources": [os.path.relpath(CONFIG / "default", tmp_path)],
        "components": [os.path.relpath(CONFIG / "simulated-cloud", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    said = installed.kubectl("apply", "--dry-run=server", "--server-side", "--force-conflicts", "-k", str(tmp_path))
    assert "deployment.apps/corral-simulated-cloud serverside-applied" in said


def test_no_installation_brings_the_shared_crd(installed: ControlPlane) -> None:
    names = {part["metadata"]["name"] for part in built(installed, CONFIG / "default")}
    assert "provisioningrequests.autoscaling.x-k8s.io" not in names
    assert "bookings.corral.dev" in names


def test_an_existing_shared_crd_is_not_overwritten(installed: ControlPlane) -> None:
    file = CONFIG.parent / "crds" / "autoscaling.x-k8s.io_provisioningrequests.yaml"
    with pytest.raises(ControlPlaneError, match="already exists"):
        installed.kubectl("create", "-f", str(file))


@pytest.mark.parametrize("service", ["admission", "provisioner"])
def test_pods_pass_the_restricted_standard(installed: ControlPlane, service: str) -> None:
    parts = built(installed, CONFIG / "default")
    deployment = next(p for p in parts if p["kind"] == "Deployment" and p["metadata"]["name"] == f"corral-{service}")
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] |= {"name": f"trial-{service}", "namespace": SYSTEM}
    assert "created" in installed.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    del pod["spec"]["securityContext"]["runAsNonRoot"]
    with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
        installed.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


# --- roles ----------------------------------------------------------------------------------------------------------------

MAY = [
    ("admission", "patch", "workloads.kueue.x-k8s.io", "status", True),
    ("admission", "patch", "workloads.kueue.x-k8s.io", "", False),
    ("admission", "patch", "admissionchecks.kueue.x-k8s.io", "status", True),
    ("admission", "create", "provisioningrequests.autoscaling.x-k8s.io", "", True),
    ("admission", "delete", "provisioningrequests.autoscaling.x-k8s.io", "", True),
    ("admission", "patch", "provisioningrequests.autoscaling.x-k8s.io", "status", False),
    ("admission", "patch", "provisioningrequests.autoscaling.x-k8s.io", "", False),
    ("admission", "create", "podtemplates", "", True),
    ("admission", "update", "podtemplates", "", True),
    ("admission", "list", "podtemplates", "", False),
    ("admission", "update", "workloads.kueue.x-k8s.io", "finalizers", False),
    ("admission", "create", "events.events.k8s.io", "", True),
    ("admission", "watch", "pods", "", True),
    ("admission", "patch", "pods", "", False),
    ("admission", "list", "nodes", "", False),
    ("admission", "list", "secrets", "", False),
    ("admission", "create", "bookings.corral.dev", "", False),
    ("provisioner", "patch", "nodes", "", True),
    ("provisioner", "delete", "nodes", "", False),
    ("provisioner", "list", "pods", "", True),
    ("provisioner", "delete", "pods", "", False),
    ("provisioner", "patch", "provisioningrequests.autoscaling.x-k8s.io", "status", True),
    ("provisioner", "create", "provisioningrequests.autoscaling.x-k8s.io", "", False),
    ("provisioner", "create", "bookings.corral.dev", "", True),
    ("provisioner", "update", "bookings.corral.dev", "status", True),
    ("provisioner", "patch", "bookings.corral.dev", "", True),
    ("provisioner", "update", "bookings.corral.dev", "finalizers", False),
    ("provisioner", "patch", "capacitypools.corral.dev", "status", True),
    ("provisioner", "patch", "capacitypools.corral.dev", "", True),
    ("provisioner", "patch", "workloads.kueue.x-k8s.io", "status", False),
    ("provisioner", "list", "secrets", "", False),
]


def may(api: Api, service: str, verb: str, resource: str, subresource: str = "", namespace: str = "") -> bool:
    plural, _, group = resource.partition(".")
    asked = {"verb": verb, "resource": plural, "group": group, "subresource": subresource, "namespace": namespace}
    spec = {"user": f"system:serviceaccount:{SYSTEM}:corral-{service}", "resourceAttributes": asked}
    answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    allowed: bool = answer.body["status"]["allowed"]
    return allowed


@pytest.mark.parametrize(("service", "verb", "resource", "subresource", "allowed"), MAY)
def test_each_service_may_do_its_work_and_no_more(
    installed: ControlPlane, api: Api, service: str, verb: str, resource: str, subresource: str, allowed: bool
) -> None:
    assert may(api, service, verb, resource, subresource) is allowed


@pytest.mark.parametrize("service", ["admission", "provisioner"])
def test_leases_only_at_home(installed: ControlPlane, api: Api, service: str) -> None:
    assert may(api, service, "update", "leases.coordination.k8s.io", namespace=SYSTEM)
    assert not may(api, service, "update", "leases.coordination.k8s.io", namespace="kube-system")


# --- booked room ----------------------------------------------------------------------------------------------------------

EVERYTHING = {"operator": "Exists"}
BOOKED = {"key": "corral.dev/booked", "operator": "Exists", "effect": "NoSchedule"}
KEY = {"b-0123456789.booking.corral.dev/main": "true"}


def pod(namespace: str, *tolerations: Json, selector: Json | None = None, **metadata: Any) -> Json:
    spec = {"containers": [{"name": "main", "image": "x"}], "tolerations": list(tolerations), "nodeSelector": selector or {}}
    name = f"p-{uuid.uuid4().hex[:8]}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def owned_by(api_version: str, kind: str) -> Json:
    owner = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": str(uuid.uuid4()), "controller": True}
    return {"ownerReferences": [owner]}


@pytest.fixture
def policy(installed: ControlPlane, kubectl: Kubectl, namespace: str) -> str:
    """A namespace in which the policy is known to be in force: the API server takes it up some seconds after it is made."""
    end = time.monotonic() + 30
    while True:
        try:
            kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod(namespace, EVERYTHING)))
        except ControlPlaneError:
            return namespace
        assert time.monotonic() < end, "the policy never took effect"
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("tolerations", "selector", "words"),
    [
        pytest.param([], None, "", id="a plain pod"),
        pytest.param([{"key": "nvidia.com/gpu", "operator": "Exists"}], None, "", id="another taint"),
        pytest.param([EVERYTHING], None, "by tolerating everything", id="everything"),
        pytest.param([{**EVERYTHING, "effect": "NoSchedule"}], None, "by tolerating everything", id="every NoSchedule taint"),
        pytest.param([{**EVERYTHING, "effect": "NoExecute"}], None, "", id="every NoExecute taint"),
        pytest.param([BOOKED], None, "tolerates taint corral.dev/booked, but", id="by name"),
        pytest.param([{"key": "corral.dev/booked"}], None, "corral.dev/booked", id="by name, Equal"),
        pytest.param([BOOKED], {"team": "train"}, "corral.dev/booked", id="another selector"),
        pytest.param([BOOKED], {next(iter(KEY)): "false"}, "corral.dev/booked", id="a key that isn't true"),
        pytest.param([BOOKED], KEY, "", id="a booking's pod"),
        pytest.param([EVERYTHING], KEY, "", id="a booking's pod that tolerates everything"),
        pytest.param([BOOKED], {"corral.dev/request": "r"}, "", id="a pod of a node that serves one request whole"),
    ],
)
def test_pods_that_would_enter(kubectl: Kubectl, policy: str, tolerations: list[Json], selector: Json | None, words: str) -> None:
    body = json.dumps(pod(policy, *tolerations, selector=selector))
    if not words:
        assert "created" in kubectl("create", "-f", "-", stdin=body)
        return
    with pytest.raises(ControlPlaneError, match=words):
        kubectl("create", "-f", "-", stdin=body)


@pytest.mark.parametrize(
    ("owner", "let_in"),
    [
        pytest.param(owned_by("apps/v1", "DaemonSet"), True, id="DaemonSet"),
        pytest.param(owned_by("batch/v1", "Job"), False, id="Job"),
        pytest.param(owned_by("example.com/v1", "DaemonSet"), False, id="somebody else's DaemonSet"),
    ],
)
def test_pods_of_daemon_sets_are_let_in(kubectl: Kubectl, policy: str, owner: Json, let_in: bool) -> None:
    body = json.dumps(pod(policy, EVERYTHING, **owner))
    if let_in:
        assert "created" in kubectl("create", "--dry-run=server", "-f", "-", stdin=body)
        return
    with pytest.raises(ControlPlaneError, match="denied"):
        kubectl("create", "--dry-run=server", "-f", "-", stdin=body)


def test_the_system_is_let_in(kubectl: Kubectl, policy: str) -> None:
    body = pod("kube-system", EVERYTHING)
    assert "created" in kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


def placed(namespace: str, **parts: Any) -> str:
    """A pod that is made with the name of its node."""
    body = pod(namespace, **parts)
    body["spec"]["nodeName"] = "n1"
    return json.dumps(body)


@pytest.mark.parametrize(
    ("parts", "let_in"),
    [
        pytest.param({}, False, id="a user's"),
        pytest.param({"labels": {"corral.dev/health-check": "true"}}, False, id="as a health check's"),
        pytest.param({"selector": {"team": "train"}}, False, id="another selector"),
        pytest.param({"selector": KEY}, True, id="a booking's: the kubelet refuses it elsewhere"),
        pytest.param(owned_by("apps/v1", "DaemonSet"), True, id="a DaemonSet's"),
    ],
)
def test_pods_that_are_put_on_a_node_by_name(kubectl: Kubectl, policy: str, parts: Json, let_in: bool) -> None:
    """No taint keeps these off, for the scheduler never sees them."""
    if let_in:
        assert "created" in kubectl("create", "--dry-run=server", "-f", "-", stdin=placed(policy, **parts))
        return
    with pytest.raises(ControlPlaneError, match=r"by name, past the taints.*leave spec\.nodeName to the scheduler"):
        kubectl("create", "--dry-run=server", "-f", "-", stdin=placed(policy, **parts))


def test_jobs_of_users_put_no_pods_on_nodes_by_name(kubectl: Kubectl, policy: str) -> None:
    """Their pods are the job controller's, as those of health checks are."""
    spec = {"containers": [{"name": "main", "image": "x"}], "nodeName": "n1", "restartPolicy": "Never"}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sly", "namespace": policy}}
    template = {"metadata": {"labels": {"corral.dev/health-check": "true"}}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps({**made, "spec": {"template": template}}))
    refused = ("get", "events", "-n", policy, "--field-selector=reason=FailedCreate", "-o", "jsonpath={.items[*].message}")
    end = time.monotonic() + 30
    while "past the taints" not in kubectl(*refused):
        assert time.monotonic() < end, "the Job's pods were not refused"
        time.sleep(0.5)
    assert kubectl("get", "pods", "-n", policy, "-o", "name") == ""


def test_static_pods_are_let_in(kubectl: Kubectl, policy: str) -> None:
    """They run already: a kubelet makes pods only to show them (plugin NodeRestriction)."""
    grant = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "nodes", "namespace": policy},
    }
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    kubectl("create", "-f", "-", stdin=json.dumps({**body, "roleRef": role, "subjects": [grant]}))
    static = placed(policy, annotations={"kubernetes.io/config.mirror": "hash"})
    assert "created" in kubectl(
        "create", "--dry-run=server", "--as=system:node:n1", "--as-group=system:nodes", "-f", "-", stdin=static
    )


@pytest.mark.parametrize("namespace_", ["kube-system", SYSTEM])
@pytest.mark.parametrize("tolerations", [[], [EVERYTHING]], ids=["by name", "and tolerating everything"])
def test_the_system_and_health_checks_put_pods_on_nodes(
    kubectl: Kubectl, policy: str, namespace_: str, tolerations: list[Json]
) -> None:
    body = json.loads(placed(namespace_))
    harmless = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    body["spec"] |= {"tolerations": tolerations, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    body["spec"]["containers"][0]["securityContext"] = harmless
    assert "created" in kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))


def test_a_toleration_added_later_is_looked_at_too(kubectl: Kubectl, policy: str) -> None:
    body = pod(policy)
    name = body["metadata"]["name"]
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    added = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": BOOKED}])
    with pytest.raises(ControlPlaneError, match=r"corral\.dev/booked"):
        kubectl("patch", "pod", name, "-n", policy, "--type=json", "-p", added)
    kubectl("label", "pod", name, "-n", policy, "a=b")


@pytest.mark.parametrize(
    ("selector", "words"),
    [pytest.param({"corral.dev/request": "b"}, "", id="with-a-booking"), pytest.param({}, "denied", id="with-none")],
)
def test_a_pod_that_is_held_is_looked_at_when_its_gate_goes(kubectl: Kubectl, policy: str, selector: Json, words: str) -> None:
    body = pod(policy, BOOKED)
    body["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
    name = body["metadata"]["name"]
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    patch = json.dumps({"spec": {"schedulingGates": None, "nodeSelector": selector}})
    if not words:
        kubectl("patch", "pod", name, "-n", policy, "--type=merge", "-p", patch)
        return
    with pytest.raises(ControlPlaneError, match=words):
        kubectl("patch", "pod", name, "-n", policy, "--type=merge", "-p", patch)


def test_pods_from_before_the_policy_can_still_be_written_to(kubectl: Kubectl, policy: str) -> None:
    """Else their finalizers could never be removed. A pod that loses its owner stands for one that was there before."""
    labels = {"matchLabels": {"app": "x"}}
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"no": "node"}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "x", "namespace": policy}}
    made = json.loads(
        kubectl(
            "create", "-o", "json", "-f", "-", stdin=json.dumps({**owner, "spec": {"selector": labels, "template": template}})
        )
    )
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": made["metadata"]["uid"], "controller": True}
    body = pod(policy, EVERYTHING, ownerReferences=[reference])
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    orphan = json.dumps({"metadata": {"ownerReferences": None, "labels": {"a": "b"}}})
    assert "patched" in kubectl("patch", "pod", body["metadata"]["name"], "-n", policy, "--type=merge", "-p", orphan)


@pytest.mark.parametrize("name", ["corral-booked-room", "corral-own-templates"])
def test_a_policy_has_no_type_errors(installed: ControlPlane, name: str) -> None:
    seen = json.loads(installed.kubectl("get", "validatingadmissionpolicy", name, "-o", "json"))
    assert seen["status"].get("typeChecking", {}).get("expressionWarnings", []) == []


# --- what health checks run -----------------------------------------------------------------------------------------------

ADMISSION = f"--as=system:serviceaccount:{SYSTEM}:corral-admission"


def template(namespace: str) -> str:
    meta = {"name": "nccl-pair", "namespace": namespace}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return json.dumps({"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": {"spec": spec}})


@pytest.mark.parametrize("verb", ["create", "replace", "delete"])
def test_admission_leaves_the_templates_of_health_checks_alone(policy: str, kubectl: Kubectl, verb: str) -> None:
    """In its own namespace; elsewhere it writes them for workloads."""
    for namespace in (SYSTEM, policy):
        if verb != "create":
            kubectl("apply", "-f", "-", stdin=template(namespace))
    assert "podtemplate" in kubectl(verb, ADMISSION, "--dry-run=server", "-f", "-", stdin=template(policy))
    with pytest.raises(ControlPlaneError, match="admission writes no PodTemplates in Corral's own namespace"):
        kubectl(verb, ADMISSION, "--dry-run=server", "-f", "-", stdin=template(SYSTEM))
    kubectl("delete", "--ignore-not-found", "-f", "-", stdin=template(SYSTEM))
