"""The harness itself: what other tests take for granted about the real control plane."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane, ControlPlaneError

Kubectl = Callable[..., str]
Objects = list[dict[str, Any]]


def eventually(check: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "didn't come true in time"
        time.sleep(0.2)


def get(kubectl: Kubectl, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", *what, "--output=json"))
    return found


def apply(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def container(**requests: str) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": requests}}


def pod(node: str, namespace: str, name: str, annotations: dict[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "annotations": annotations}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "restartPolicy": "Never", "containers": [container(cpu="1")]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def phase(kubectl: Kubectl, namespace: str, name: str) -> str:
    return str(get(kubectl, "pod", name, "-n", namespace)["status"]["phase"])


@pytest.fixture
def node(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    name = f"node-{namespace}"
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    meta = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/hostname": name}}
    status = {"allocatable": resources, "capacity": resources}
    created = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
    kubectl("create", "--filename=-", stdin=json.dumps(created))
    kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=30s")
    yield name
    kubectl("delete", "node", name)


def queue(namespace: str) -> Objects:
    api, name = "kueue.x-k8s.io/v1beta2", namespace
    flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "8"}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    return [
        {
            "apiVersion": api,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"kubernetes.io/hostname": f"node-{name}"}},
        },
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": "queue", "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    ]


def job(namespace: str) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {"e2e.corral.dev/run-seconds": "1"}},
        "spec": {"restartPolicy": "Never", "containers": [container(cpu="2")]},
    }
    meta = {"name": "job", "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
    spec = {"parallelism": 3, "completions": 3, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def test_a_queued_job_is_admitted_by_kueue_and_completes_on_a_fake_node(kubectl: Kubectl, namespace: str, node: str) -> None:
    apply(kubectl, *queue(namespace))
    apply(kubectl, job(namespace))
    kubectl("wait", "--for=condition=Complete", "job/job", "-n", namespace, "--timeout=60s", timeout=70)
    workload = get(kubectl, "workloads.kueue.x-k8s.io", "-n", namespace)["items"][0]
    assert {"QuotaReserved", "Admitted", "Finished"} <= {
        c["type"] for c in workload["status"]["conditions"] if c["status"] == "True"
    }
    assert {one["spec"]["nodeName"] for one in get(kubectl, "pods", "-n", namespace)["items"]} == {node}


def test_a_pod_ends_as_its_annotations_say(kubectl: Kubectl, namespace: str, node: str) -> None:
    apply(
        kubectl,
        pod(node, namespace, "fails", {"e2e.corral.dev/run-seconds": "1", "e2e.corral.dev/exit": "fail"}),
        pod(node, namespace, "succeeds", {"e2e.corral.dev/run-seconds": "1"}),
        pod(node, namespace, "runs", {}),
    )
    eventually(lambda: phase(kubectl, namespace, "fails") == "Failed")
    eventually(lambda: phase(kubectl, namespace, "succeeds") == "Succeeded")
    assert phase(kubectl, namespace, "runs") == "Running"


def test_a_pod_runs_as_long_as_it_says_even_if_it_is_changed_meanwhile(kubectl: Kubectl, namespace: str, node: str) -> None:
    apply(kubectl, pod(node, namespace, "pod", {"e2e.corral.dev/run-seconds": "4"}))
    eventually(lambda: phase(kubectl, namespace, "pod") == "Running")
    time.sleep(2)
    kubectl("label", "pod", "pod", "-n", namespace, "changed=true")
    eventually(lambda: phase(kubectl, namespace, "pod") == "Succeeded")
    state = get(kubectl, "pod", "pod", "-n", namespace)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert 4 <= seconds(state["finishedAt"]) - seconds(state["startedAt"]) <= 5


def seconds(timestamp: str) -> float:
    return time.mktime(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))


def test_a_deleted_pod_goes(kubectl: Kubectl, namespace: str, node: str) -> None:
    apply(kubectl, pod(node, namespace, "pod", {}))
    eventually(lambda: phase(kubectl, namespace, "pod") == "Running")
    kubectl("delete", "pod", "pod", "-n", namespace, "--timeout=15s")


def test_a_node_keeps_the_allocatable_that_others_patch(kubectl: Kubectl, node: str) -> None:
    patch = json.dumps({"status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}}})
    assert "nvidia.com/gpu" not in get(kubectl, "node", node)["status"]["allocatable"]
    kubectl("patch", "node", node, "--subresource=status", "--type=merge", "--patch", patch)
    kubectl("annotate", "node", node, "e2e.corral.dev/unready=true")
    eventually(lambda: ready(kubectl, node) == "False")
    kubectl("annotate", "node", node, "e2e.corral.dev/unready-")
    eventually(lambda: ready(kubectl, node) == "True")
    assert get(kubectl, "node", node)["status"]["allocatable"] == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }


def ready(kubectl: Kubectl, node: str) -> str:
    return str(next(c["status"] for c in get(kubectl, "node", node)["status"]["conditions"] if c["type"] == "Ready"))


def test_a_ready_node_loses_its_not_ready_taint(kubectl: Kubectl, node: str) -> None:
    eventually(lambda: "taints" not in get(kubectl, "node", node)["spec"])


def test_a_second_start_is_refused(controlplane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="already up"):
        ControlPlane(controlplane.directory).start()
    command = [sys.executable, "-m", "e2e.controlplane", "up", "--dir", str(controlplane.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "already up" in done.stdout
    assert f"KUBECONFIG={controlplane.kubeconfig}" in done.stdout


def test_a_service_account_has_its_own_rights_only(controlplane: ControlPlane, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    kubeconfig = controlplane.service_account(namespace, "nobody")
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ControlPlaneError, match="forbidden"):
        kubectl("--kubeconfig", str(kubeconfig), "get", "nodes")


def running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_programs_are_killed_restarted_and_stopped_without_a_trace(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path / "plane", with_kueue=False)
    with plane:
        plane.kubectl("create", "namespace", "kept")
        before = plane.alive()
        plane.kill("etcd", signal.SIGKILL)
        eventually(lambda: plane.dead() == ["etcd"])
        plane.restart("etcd")
        eventually(lambda: plane.is_ready("kube-apiserver"))
        assert "kept" in plane.kubectl("get", "namespace", "kept")
        pids = {*before.values(), *plane.alive().values()}
    assert len(pids) == 6
    assert not plane.alive()
    assert not [pid for pid in pids if running(pid)]


def test_a_start_that_fails_names_the_culprit_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin" / "kube-scheduler"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    broken.chmod(0o755)
    binaries = dataclasses.replace(build.binaries(), scheduler=broken)
    monkeypatch.setattr(build, "binaries", lambda: binaries)
    plane = ControlPlane(tmp_path / "plane", with_kueue=False)
    with pytest.raises(ControlPlaneError, match=r"kube-scheduler ended; (?s:.*)no such luck"):
        plane.start()
    pids = json.loads((plane.directory / "pids.json").read_text())
    assert pids == {}
    assert not [one for one in Path("/proc").glob("[0-9]*") if str(plane.directory) in command_line(one)]


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""
