"""Both services and the stand-in for EC2, and what a test of them needs: a pool, a queue, jobs, and the calls that were made."""

import base64
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.aws.server import Ec2Server
from e2e.controlplane.cluster import ControlPlane
from e2e.scenario import Scenario, is_true, until
from e2e.stack import Stack

SHAPE = "p5.48xlarge"
ZONE_A, ZONE_B = "us-east-1a", "us-east-1b"
PLAIN, FLEETS = {"id": "lt-01", "version": "1"}, {"id": "lt-01", "version": "2"}
"""Versions of the launch template: one that leaves interfaces and preference to each launch, one that a fleet can use."""
LAYER = "topology.k8s.aws/network-node-layer-3"
_NODE_CONFIG = b"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: train, cidr: 10.100.0.0/16}}\n"
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
_GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SLOW = 180.0
"""Seconds: on a busy machine everything takes its time."""
Call = dict[str, Any]


def account() -> dict[str, Any]:
    """An account with a launch template; each test brings its own reservations and stock."""
    data = {"ImageId": "ami-0a", "UserData": base64.b64encode(_NODE_CONFIG).decode()}
    groups = {"Groups": ["sg-0efa"]}
    set_ = [
        {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa-only" if card else "efa", **groups}
        for card in range(32)
    ]
    plain = {**data, "NetworkInterfaces": [{"DeviceIndex": 0, **groups}]}
    whole = {**data, "NetworkInterfaces": set_, "CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    return {
        "launchTemplates": [{"id": "lt-01", "name": "nodes", "versions": [plain, whole]}],
        "stock": [{"type": SHAPE, "zone": zone, "count": 0} for zone in (ZONE_A, ZONE_B)],
        "settings": {"running": 1, "visible": 1, "terminating": 2, "counting": 2, "joining": 1, "devices": 1},
    }


class AwsStack(Stack):
    """The provisioner looks for orphans soon, so that a test can see it."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        super().__init__(plane, directory, {}, _CREDENTIALS)
        self.ec2 = Ec2Server(directory / "ec2", account(), plane.kubeconfig)

    def start(self) -> None:
        self.install()
        self.ec2.start()
        for service in ("admission", "provisioner"):
            self._add_service(service)
            self.programs[service].start()

    def stop(self) -> None:
        super().stop()
        self.ec2.stop()


class Situation(Scenario):
    """A test's own pool, queue and reservations; the stock of the account is set anew for each."""

    def __init__(self, stack: AwsStack, namespace: str) -> None:
        super().__init__(stack, namespace, SHAPE)
        self.ec2 = stack.ec2
        self._pool: dict[str, Any] = {}
        self._began = time.monotonic()
        self._before = max((each["number"] for each in self.ec2.calls()), default=0)

    def settle(self) -> None:
        """Waits for machines of the tests before that still end: they keep their places until they are gone."""
        until(lambda: all(each["state"] != "shutting-down" for each in self.ec2.instances()), seconds=SLOW, what="all have ended")

    def hold(self, total: int, *, suffix: str = "", **more: Any) -> str:
        """A reservation of the test's own in zone a; its id."""
        identity = f"cr-{self.namespace.removeprefix('t-')}{suffix}"
        self.ec2.change(reservations=[{"id": identity, "type": SHAPE, "zone": ZONE_A, "total": total, **more}])
        return identity

    def stock(self, **zones: int) -> None:
        """On-demand machines by zone, `a=2, b=4`; none where nothing is said."""
        names = {"a": ZONE_A, "b": ZONE_B}
        self.ec2.change(stock=[{"type": SHAPE, "zone": name, "count": zones.get(key, 0)} for key, name in names.items()])

    def buy_from(
        self,
        *reservations: str,
        kind: str = "reserved",
        on_demand: bool = False,
        template: Mapping[str, str] = PLAIN,
        **policy: Any,
    ) -> None:
        """Sets up pool, policy and queue for these sources, and waits until the pool is ready."""
        scale_in = {"policy": "WhenIdle", "after": "1s"}
        sources = [{"name": "held", "capacityType": kind, "reservationIDs": list(reservations), "scaleIn": scale_in}]
        sources = sources if reservations else []
        sources += [{"name": "od", "capacityType": "on-demand", "scaleIn": scale_in}] if on_demand else []
        pool = {
            "provider": {"aws": self._provider(template)},
            "nodeLabels": {"nvidia.com/gpu.present": "true"},
            "topologyKeys": ["topology.kubernetes.io/zone", LAYER],
            "readiness": {"timeout": "180s", "requiredDaemonSets": ["kube-system/nvidia-device-plugin"]},
        }
        self._pool = {**pool, "mode": "Active", "shapes": [SHAPE], "sources": sources}
        terms = {"timeouts": {"queued": "300s", "provision": "240s", "booking": "120s"}, "retry": {"limit": 3, "backoff": "1s"}}
        self.set_up(policy={**terms, **policy})
        until(lambda: is_true(self.get("cpool", self.name), "Ready"), seconds=SLOW, what="the pool is ready")

    def apply_pool(self, *, sources: tuple[str | Mapping[str, Any], ...], **spec: Any) -> None:
        """The pool of `buy_from`."""
        metadata = {"name": self.name}
        self.apply({"apiVersion": "corral.dev/v1alpha1", "kind": "CapacityPool", "metadata": metadata, "spec": self._pool})

    def clear(self) -> None:
        """The pool goes, too: what looks at it costs must not count for the next test."""
        super().clear()
        self.kubectl("delete", "cpool", self.name, "--ignore-not-found", "--wait=false")

    def made(self, operation: str = "") -> list[Call]:
        """The test's own launches and terminations, and all other calls since its start; dry runs are none."""
        found = [each for each in self.ec2.calls(after=self._before) if operation in ("", each["operation"])]
        return [each for each in found if not each["parameters"].get("DryRun")]

    def counts(self) -> Counter[str]:
        return Counter(each["operation"] for each in self.made())

    def lasted(self) -> float:
        """Seconds since the test's start."""
        return time.monotonic() - self._began

    def machines(self) -> list[dict[str, Any]]:
        return [each for each in self.ec2.instances() if each["tags"].get("corral.dev/pool") == self.name]

    def runs(self, job: str, count: int, seconds: float = SLOW) -> None:
        until(lambda: len(self.bound(job)) == count, seconds=seconds, what=f"all {count} pods of {job} are bound")

    def given_back(self) -> None:
        """Ends the jobs and waits until no machine is left."""
        self.kubectl("delete", "jobs", "--all", "-n", self.namespace)
        until(lambda: not self.alive(), seconds=SLOW, what="all machines are given back")

    def _provider(self, template: Mapping[str, str]) -> dict[str, Any]:
        return {
            "clusterName": "train",
            "launchTemplate": dict(template),
            "subnetIDs": ["subnet-0a", "subnet-0b"],
            "region": "us-east-1",
            "endpoint": self.ec2.endpoint,
            "taints": [_GPU_TAINT],
        }
