"""From DescribeInstanceTypes to what kube-scheduler will see of a node of the type. Pure.

Amounts under-estimate where they must guess: a gang that turns out not to fit costs more than a node that turns out larger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capacity.model import Shape
from capacity.quantity import amount
from capacity.requirements import Taint
from kube.providers import AwsProvider, RegisteredTaint
from provisioner.clouds.aws.prices import hourly
from provisioner.clouds.base import CloudShape

EFA = "vpc.amazonaws.com/efa"
GPU = "nvidia.com/gpu"
NEURON = "aws.amazon.com/neuron"
_MIB = 2**20
_LOST_TO_THE_VM = 75
"""Thousandths of the memory that the guest doesn't see: Karpenter's default, 0.075 (docs, "Settings")."""
_EVICTION = 100 * _MIB


@dataclass(frozen=True, slots=True)
class Card:
    """A network card: how many interfaces it takes, and of which kinds ("interface", "efa", "efa-only")."""

    room: int = 1
    kinds: tuple[str, ...] = ("interface",)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """What matters of one type. `efas`: how many EFA interfaces it takes at most, on all cards."""

    name: str
    cpus: int
    memory: int
    gpus: int = 0
    accelerators: int = 0
    cards: tuple[Card, ...] = (Card(),)
    addresses: int = 2
    efas: int = 0
    arch: str = "amd64"


def parse(answer: Mapping[str, Any]) -> InstanceType:
    """Raises KeyError for an answer without name, processors or memory."""
    network: Mapping[str, Any] = answer.get("NetworkInfo") or {}
    devices = [each for each in (answer.get("GpuInfo") or {}).get("Gpus") or [] if each.get("Manufacturer", "NVIDIA") == "NVIDIA"]
    cards = sorted(network.get("NetworkCards") or [], key=lambda card: card.get("NetworkCardIndex", 0))
    arches = (answer.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ["x86_64"]
    return InstanceType(
        name=answer["InstanceType"],
        cpus=answer["VCpuInfo"]["DefaultVCpus"],
        memory=answer["MemoryInfo"]["SizeInMiB"] * _MIB,
        gpus=sum(each.get("Count", 0) for each in devices),
        accelerators=sum(each.get("Count", 0) for each in (answer.get("NeuronInfo") or {}).get("NeuronDevices") or []),
        cards=tuple(map(_card, cards)) or (Card(network.get("MaximumNetworkInterfaces", 1)),),
        addresses=network.get("Ipv4AddressesPerInterface", 2),
        efas=(network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0,
        arch="arm64" if "arm64" in arches else "amd64",
    )


def _card(answer: Mapping[str, Any]) -> Card:
    return Card(answer.get("MaximumNetworkInterfaces", 1), tuple(answer.get("InterfaceTypes") or ("interface",)))


def shape(kind: InstanceType, provider: AwsProvider) -> CloudShape:
    """The node that the type becomes. Without a known price it costs nothing here, and must not be offered on demand.

    Raises ValueError naming the field of the provider whose amount can't be read.
    """
    labels = {
        "kubernetes.io/arch": kind.arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind.name,
        **({"topology.kubernetes.io/region": provider.region} if provider.region else {}),
    }
    lasting = taints(provider.taints)
    made = Shape(
        name=kind.name, allocatable={**_allocatable(kind, provider), **_declared(provider)}, labels=labels, taints=lasting
    )
    return CloudShape(made, hourly(kind.name, provider.prices) or 0, startup_taints=taints(provider.startup_taints))


def pods(kind: InstanceType) -> int:
    """As many as the first card's interfaces have addresses for, and two on the host's network (amazon-eks-ami, eni-max-pods)."""
    return kind.cards[0].room * (kind.addresses - 1) + 2


def _allocatable(kind: InstanceType, provider: AwsProvider) -> dict[str, int]:
    """kube-reserved as EKS AMIs set it (amazon-eks-ami, nodeadm `kubelet/config.go`), 100 MiB for hard eviction."""
    reserved = (255 + 11 * pods(kind)) * _MIB
    memory = kind.memory * (1000 - _LOST_TO_THE_VM) // 1000 - reserved - _EVICTION
    devices = {GPU: kind.gpus, NEURON: kind.accelerators, EFA: kind.efas}
    return {
        "cpu": kind.cpus * 1000 - _reserved_cpu(kind.cpus),
        "memory": max(0, memory),
        "pods": pods(kind),
        **{name: count for name, count in devices.items() if count and name in provider.devices},
    }


def _reserved_cpu(cpus: int) -> int:
    """Milli-cores: 6 % of the first, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, rounded up."""
    quarters = sum(240 if core == 0 else 40 if core == 1 else 20 if core < 4 else 10 for core in range(cpus))
    return -(-quarters // 4)


def _declared(provider: AwsProvider) -> dict[str, int]:
    found = {}
    for name, text in provider.allocatable.items():
        try:
            found[name] = amount(name, text)
        except ValueError as problem:
            raise ValueError(f"provider.aws.allocatable.{name}: {problem}") from problem
    return found


def taints(given: tuple[RegisteredTaint, ...]) -> tuple[Taint, ...]:
    return tuple(Taint(each.key, each.effect, each.value) for each in given)
