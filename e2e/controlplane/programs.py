"""How each program of the control plane is started, and how it shows that it is ready."""

import os
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.build import HERE, Binaries
from e2e.controlplane.layout import Layout

CONTROLLERS = (
    "job-controller",
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
    "taint-eviction-controller",
    "node-lifecycle-controller",
    "disruption-controller",
    "ttl-after-finished-controller",
    "clusterrole-aggregation-controller",
)


@dataclass(frozen=True)
class Launch:
    """A command line, and the URL that answers 200 once it is ready."""

    name: str
    command: list[str | Path]
    ready: str

    def env(self, directory: Path) -> dict[str, str]:
        """HOME is the run directory, so that nobody's own configuration gets in."""
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(directory)}


def etcd(layout: Layout, binaries: Binaries) -> Launch:
    """A member alone; it doesn't sync to disk, since no test outlives the machine."""
    client = f"http://127.0.0.1:{layout.ports.etcd}"
    peer = f"http://127.0.0.1:{layout.ports.etcd_peer}"
    flags = [
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    return Launch("etcd", [binaries.etcd, *flags], f"{client}/health")


def apiserver(layout: Layout, binaries: Binaries) -> Launch:
    """RBAC and every default admission plugin but ServiceAccount, whose tokens no fake pod needs.

    In a bare control plane nobody would take away the taint with which TaintNodesByCondition lets each Node begin.
    """
    plugins = "ServiceAccount,TaintNodesByCondition" if layout.bare else "ServiceAccount"
    flags = [
        f"--etcd-servers=http://127.0.0.1:{layout.ports.etcd}",
        f"--cert-dir={layout.authority.parent}",
        f"--secure-port={layout.ports.apiserver}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={layout.directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--disable-admission-plugins={plugins}",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        *(["--enable-priority-and-fairness=false", "--delete-collection-workers=8"] if layout.bare else []),
    ]
    return Launch("kube-apiserver", [binaries.apiserver, *flags], f"{layout.server}/readyz")


def controller_manager(layout: Layout, binaries: Binaries) -> Launch:
    """Only the controllers that workloads, nodes and Corral depend on, each with its own bootstrap role."""
    port = layout.ports.controller_manager
    flags = [
        f"--kubeconfig={layout.kubeconfig('system:kube-controller-manager')}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    return Launch("kube-controller-manager", [binaries.controller_manager, *flags], f"https://127.0.0.1:{port}/healthz")


def scheduler(layout: Layout, binaries: Binaries) -> Launch:
    """The default scheduler. Anyone may read its metrics: its queues tell whether it has considered all that there is."""
    port = layout.ports.scheduler
    flags = [
        f"--config={layout.directory / 'scheduler.json'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]
    return Launch("kube-scheduler", [binaries.scheduler, *flags], f"https://127.0.0.1:{port}/readyz")


def kwok(layout: Layout, binaries: Binaries) -> Launch:
    """Plays the kubelet of each Node that has the annotation `kwok.x-k8s.io/node: fake`."""
    address = f"127.0.0.1:{layout.ports.kwok}"
    flags = [
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--server-address={address}",
        *(f"--config={stage}" for stage in sorted((HERE / "stages").glob("*.yaml"))),
    ]
    return Launch("kwok", [binaries.kwok, *flags], f"http://{address}/healthz")


def kueue(layout: Layout, binaries: Binaries) -> Launch:
    """Kueue's manager under the rights of its own service account."""
    flags = [f"--config={layout.directory / 'kueue.json'}", f"--kubeconfig={layout.kubeconfig('kueue')}"]
    return Launch("kueue", [binaries.kueue, *flags], f"http://127.0.0.1:{layout.ports.kueue}/readyz")


STARTS = {
    "etcd": etcd,
    "kube-apiserver": apiserver,
    "kube-controller-manager": controller_manager,
    "kube-scheduler": scheduler,
    "kwok": kwok,
    "kueue": kueue,
}
