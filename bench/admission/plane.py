"""The control plane that is measured: audited, fresh for each row, and without the programs that only act after admission."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.layout import Layout
from e2e.controlplane.programs import Launch
from e2e.stack import NAMESPACE, Program, Stack, configured

_AFTER_ADMISSION = ("kube-scheduler", "kwok", "kube-controller-manager")
_WRITES = ["create", "update", "patch", "delete"]
_MIB = 1024
_WHOLE = 100 * 1024
"""MiB: of a file that the API server turns over, at 100 MiB if it isn't told, only the last part would be counted."""


class Plane(ControlPlane):
    """Keeps in `audit.log` who writes Jobs, Workloads, requests, templates and events."""

    @property
    def audit(self) -> Path:
        """One JSON event a line."""
        return self.directory / "audit.log"

    def settle(self) -> None:
        """Ends what would run pods: no check waits for it, and it would take the machine from both."""
        for name in _AFTER_ADMISSION:
            self.kill(name)

    def _spec(self, name: str, layout: Layout) -> Launch:
        launch = super()._spec(name, layout)
        if name != "kube-apiserver":
            return launch
        policy = self.directory / "audit-policy.json"
        policy.write_text(json.dumps(_policy()))
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit}", f"--audit-log-maxsize={_WHOLE}"]
        return Launch(launch.name, [*launch.command, *flags], launch.ready)


def admission(plane: Plane, directory: Path) -> Program:
    """The admission service alone, under its own role, not yet started. Its settings are the default, but it has no lease: a
    machine that is busy for ten seconds would take it away."""
    directory.mkdir(parents=True, exist_ok=True)
    Stack(plane, directory, {}).install()
    settings = {
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.service_account(NAMESPACE, "corral-admission"))},
    }
    return configured("admission", directory, settings)


def peak_mib(pid: int) -> int:
    """The most memory that the process has had resident (proc(5), VmHWM), in MiB; 0 once it is gone."""
    with suppress(FileNotFoundError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / _MIB)
    return 0


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has taken so far, user and system."""
    with suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _policy() -> dict[str, Any]:
    """Events with their bodies, of the rest only who wrote what."""
    kinds = {"kueue.x-k8s.io": ["workloads", "workloads/status"], "": ["podtemplates"], "batch": ["jobs", "jobs/status"]}
    kinds["autoscaling.x-k8s.io"] = ["provisioningrequests", "provisioningrequests/status"]
    events = [{"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")]
    written = [{"group": group, "resources": names} for group, names in kinds.items()]
    rules = [
        {"level": "Request", "verbs": ["create"], "resources": events, "omitStages": ["RequestReceived"]},
        {"level": "Metadata", "verbs": _WRITES, "resources": written, "omitStages": ["RequestReceived"]},
        {"level": "None"},
    ]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
