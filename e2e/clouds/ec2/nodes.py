"""Instances as Nodes of a cluster: what kubelet registers and what the cloud controller adds (cloud.md 1.6, 1.10)."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any

from capacity.model import HOSTNAME
from e2e.clouds.ec2.account import Account
from e2e.clouds.ec2.catalogue import has_topology, types
from e2e.clouds.ec2.instances import Instance
from e2e.clouds.ec2.service import Service
from e2e.clouds.ec2.userdata import registration
from provisioner.clouds.simulated.cluster import Step
from provisioner.clouds.simulated.nodes import FAKE, TaintKey, Work

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
LAYERS = (
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
)


class Ec2Site:
    """The instances of a service, for `Cluster`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def device_plugin(self) -> str:
        return self._service.account.settings.device_plugin

    async def due(self) -> Work[Instance]:
        now = self._service.clock.now()
        self._service.account.advance(now)
        return due(self._service.account, now)

    def name(self, machine: Instance) -> str:
        """Its host name: a Node is matched to its instance by providerID alone (cloud.md 1.10)."""
        return machine.hostname

    def node(self, machine: Instance) -> dict[str, Any]:
        return node(self._service.account, machine)

    def devices(self, machine: Instance) -> Mapping[str, int]:
        return devices(machine)

    def startup_taints(self, machine: Instance) -> AbstractSet[TaintKey]:
        return {(each.key, each.effect) for each in self._service.account.settings.startup_taints}

    async def note(self, machine: Instance, step: Step) -> None:
        if step == "plugged":
            machine.plugged = self._service.clock.now()
        elif step == "refused":
            machine.problem = "its Node was refused"
        else:
            setattr(machine, step, True)


def due(account: Account, now: datetime) -> Work[Instance]:
    machines, settings = list(account.instances.values()), account.settings
    running = [each for each in machines if each.state(now) == "running"]
    bare = [each for each in running if each.joined and not each.published and devices(each)]
    joining, delay = timedelta(seconds=settings.joining), timedelta(seconds=settings.devices)
    return Work(
        join=tuple(each for each in running if not each.joined and each.runs + joining <= now and not _problem(each)),
        await_plugin=tuple(each for each in bare if each.plugged is None),
        publish=tuple(each for each in bare if each.plugged is not None and each.plugged + delay <= now),
        remove=tuple(each for each in machines if each.joined and not each.removed and each.state(now) == "terminated"),
    )


def node(account: Account, machine: Instance) -> dict[str, Any]:
    """The Node at registration: no devices yet."""
    told, spec = registration(machine.spec.user_data), machine.spec
    room = _allocatable(spec.type)
    return {
        "metadata": {
            "name": machine.hostname,
            "labels": {**told.labels, **_labels(account, machine), HOSTNAME: machine.hostname},
            "annotations": {FAKE: "fake"} if account.settings.readiness else {},
        },
        "spec": {"providerID": f"aws:///{spec.zone}/{machine.id}", "taints": told.taints},
        "status": {"capacity": room, "allocatable": room},
    }


def devices(machine: Instance) -> dict[str, int]:
    """What the device plugins will publish: EFA as many as were attached at launch."""
    gpus = sum(each["Count"] for each in types()[machine.spec.type].get("GpuInfo", {}).get("Gpus", ()))
    return {name: count for name, count in {GPU: gpus, EFA: machine.spec.efa}.items() if count}


def _problem(machine: Instance) -> str:
    machine.problem = machine.problem or registration(machine.spec.user_data).problem
    return machine.problem


def _labels(account: Account, machine: Instance) -> dict[str, str]:
    """kubelet's and the cloud controller's."""
    spec, zone = machine.spec, account.zones[machine.spec.zone]
    arch = types()[spec.type]["ProcessorInfo"]["SupportedArchitectures"][0]
    nodes = [account.node_hash(each) for each in machine.nodes] if has_topology(spec.type) else []
    return {
        "kubernetes.io/arch": "arm64" if arch == "arm64" else "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": spec.type,
        "topology.kubernetes.io/region": account.settings.region,
        "topology.kubernetes.io/zone": zone.name,
        "topology.k8s.aws/zone-id": zone.id,
        **dict(zip(LAYERS, nodes, strict=False)),
        **({"topology.k8s.aws/capacity-block-id": machine.block} if machine.block else {}),
    }


def _allocatable(instance_type: str) -> dict[str, str]:
    """What EKS's AMI leaves to pods (amazon-eks-ami, nodeadm: kube-reserved, hard eviction) of the memory that a guest sees."""
    kind = types()[instance_type]
    cpus, network = kind["VCpuInfo"]["DefaultVCpus"], kind["NetworkInfo"]
    card = network["NetworkCards"][0]["MaximumNetworkInterfaces"]
    pods = card * (network["Ipv4AddressesPerInterface"] - 1) + 2
    seen = kind["MemoryInfo"]["SizeInMiB"] * 975 // 1000
    reserved = 60 + 10 * (cpus > 1) + 5 * min(max(cpus - 2, 0), 2) + max(cpus - 4, 0) * 5 // 2
    return {
        "cpu": f"{cpus * 1000 - reserved}m",
        "memory": f"{seen - (255 + 11 * pods) - 100}Mi",
        "ephemeral-storage": "400Gi",
        "pods": str(pods),
    }
