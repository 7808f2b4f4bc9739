"""Instance types as DescribeInstanceTypes tells them: what moto recorded from the real API, and one that it lacks."""

import copy
import gzip
import itertools
import json
from functools import cache
from importlib.resources import files
from typing import Any

FAMILIES = {"p": "L-417A185B", "g": "L-DB2E81BA", "vt": "L-DB2E81BA", "trn": "L-2C3B7624"}
"""Quota of running on-demand vCPUs by the letters of a family; all others count as standard."""
STANDARD = "L-1216C47A"
TOPOLOGY = ("p", "trn", "g6e", "g7")  # families that the topology calls serve


@cache
def types() -> dict[str, dict[str, Any]]:
    """All instance types, by name."""
    recorded = (files("moto") / "ec2" / "resources" / "instance_types.json.gz").read_bytes()
    known: dict[str, dict[str, Any]] = json.loads(gzip.decompress(recorded))
    known["p6e-gb200.36xlarge"] = _gb200(known["p6-b200.48xlarge"])
    return known


def vcpus(name: str) -> int:
    return int(types()[name]["VCpuInfo"]["DefaultVCpus"])


def quota_of(name: str) -> str:
    """Code of the quota that on-demand instances of a type count against."""
    return FAMILIES.get("".join(itertools.takewhile(str.isalpha, name)), STANDARD)


def has_topology(name: str) -> bool:
    return name.startswith(TOPOLOGY)


def _gb200(like: dict[str, Any]) -> dict[str, Any]:
    """4 GPUs, 144 vCPUs, 960 GiB (cloud.md 7); the number of EFA is not known for sure: one for each GPU here."""
    made = copy.deepcopy(like)
    made["InstanceType"] = "p6e-gb200.36xlarge"
    made["VCpuInfo"] = {"DefaultVCpus": 144, "DefaultCores": 144, "DefaultThreadsPerCore": 1}
    made["MemoryInfo"] = {"SizeInMiB": 960 * 1024}
    made["ProcessorInfo"] = {"Manufacturer": "NVIDIA", "SupportedArchitectures": ["arm64"]}
    gpu = {"Count": 4, "Manufacturer": "NVIDIA", "MemoryInfo": {"SizeInMiB": 185 * 1024}, "Name": "GB200"}
    made["GpuInfo"] = {"Gpus": [gpu], "TotalGpuMemoryInMiB": 4 * 185 * 1024}
    network = made["NetworkInfo"]
    network.update(EfaInfo={"MaximumEfaInterfaces": 4}, MaximumNetworkCards=4, NetworkCards=network["NetworkCards"][:4])
    made["SupportedUsageClasses"] = ["capacity-block"]
    return made
