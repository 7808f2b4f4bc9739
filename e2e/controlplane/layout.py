"""The files of one control plane's run directory: ports, keys, identities and the programs' own configuration."""

import json
import os
import secrets
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from e2e import ports
from e2e.controlplane import manifests, operators

Config = dict[str, Any]
_USERS = {  # user: groups; kwok plays every kubelet, for which it needs more than one kubelet may do
    "admin": "system:masters",
    "kwok": "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
}


@dataclass(frozen=True)
class Ports:
    """Ports on 127.0.0.1 that were free when they were chosen."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controller_manager: int
    kwok: int
    kueue: int  # health
    webhook: int  # Kueue's

    @classmethod
    def free(cls) -> "Ports":
        """As many as are needed, for as long as the run lasts."""
        return cls(*ports.take(len(cls.__dataclass_fields__)))


@dataclass(frozen=True)
class Layout:
    """Where everything of one run is. The directory is readable by its owner alone: it holds keys and tokens."""

    directory: Path
    ports: Ports
    with_kueue: bool
    bare: bool = False
    all_kinds: bool = False

    @classmethod
    def create(cls, directory: Path, *, with_kueue: bool, bare: bool = False, all_kinds: bool = False) -> "Layout":
        """Write a new run directory; whatever was in it before must be gone already. Needs the openssl program."""
        directory.mkdir(mode=0o700, parents=True)
        layout = cls(directory, Ports.free(), with_kueue, bare, all_kinds)
        (directory / "pki").mkdir()
        (directory / "kueue-certs").mkdir()
        state = {"ports": asdict(layout.ports), "with_kueue": with_kueue, "bare": bare, "all_kinds": all_kinds}
        _private(directory / "state.json", json.dumps(state))
        _make_key(layout.service_account_key)
        layout._write_identities()
        layout._write_configuration()
        return layout

    @classmethod
    def read(cls, directory: Path) -> "Layout":
        """Of a run that was created before; raises FileNotFoundError when there is none."""
        state = json.loads((directory / "state.json").read_text())
        return cls(directory, Ports(**state.pop("ports")), **state)

    @property
    def server(self) -> str:
        """URL of the API server."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def authority(self) -> Path:
        """The certificate to trust; the API server makes it at its first start."""
        return self.directory / "pki" / "apiserver.crt"

    @property
    def service_account_key(self) -> Path:
        """Key that signs and verifies service account tokens."""
        return self.directory / "service-account.key"

    def kubeconfig(self, user: str = "admin") -> Path:
        """Kubeconfig of one identity."""
        return self.directory / ("kubeconfig" if user == "admin" else f"{user.rpartition(':')[2]}.kubeconfig")

    def write_kubeconfig(self, path: Path, user: str, token: str) -> Path:
        """Write a kubeconfig with a bearer token, mode 0600, and return its path."""
        cluster = {"server": self.server, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "corral", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "corral", "context": {"cluster": "corral", "user": user}}],
            "current-context": "corral",
        }
        return _private(path, json.dumps(config, indent=1))

    def _write_identities(self) -> None:
        tokens = {user: secrets.token_urlsafe(24) for user in _USERS}
        rows = [f'{token},{user},{user},"{_USERS[user]}"' for user, token in tokens.items()]
        _private(self.directory / "tokens.csv", "\n".join(rows) + "\n")
        for user, token in tokens.items():
            self.write_kubeconfig(self.kubeconfig(user), user, token)

    def _write_configuration(self) -> None:
        scheduler = _scheduler(self.kubeconfig("system:kube-scheduler")) | (_PATIENT if self.bare else {})
        _private(self.directory / "scheduler.json", json.dumps(scheduler))
        _private(self.directory / "kueue.json", json.dumps(_kueue(self.ports, self.directory / "kueue-certs", self.all_kinds)))


def _scheduler(kubeconfig: Path) -> Config:
    """The default profile; only its rates differ, so that tests don't wait for a client's throttle or a pod's backoff."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }


# Thousands of pods at once, each judged on all nodes: with fewer, which of them it looks at is a matter of luck.
_PATIENT: Config = {"percentageOfNodesToScore": 100, "podMaxBackoffSeconds": 1}


def _kueue(ports: Ports, certificates: Path, all_kinds: bool) -> Config:
    """VisibilityOnDemand is off: it serves an aggregated API, which only works from inside a cluster."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": manifests.NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.kueue}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": ports.webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": manifests.WEBHOOK_SERVICE,
            "webhookSecretName": manifests.WEBHOOK_SECRET,
        },
        "clientConnection": {"qps": 200, "burst": 400},
        "integrations": {"frameworks": list(operators.FRAMEWORKS) if all_kinds else ["batch/job", "pod"]},
        "featureGates": {"VisibilityOnDemand": False, "ElasticJobsViaWorkloadSlices": all_kinds},
    }


def _make_key(path: Path) -> None:
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(path)]
    subprocess.run(command, capture_output=True, timeout=30, check=True)
    path.chmod(0o600)


def _private(path: Path, text: str) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    return path
