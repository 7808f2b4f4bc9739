"""What the public traces say of nodes, pods, gangs and fabrics; read where they lie, never copied.

openb: Alibaba's GPU cluster of 2023 (FGD, USENIX ATC 2023; from hkust-adsl/kubernetes-scheduler-simulator, Apache-2.0). Philly:
jobs of Microsoft's cluster (msr-fiddle/philly-traces, CC BY 4.0). Lingjun: a fabric (alibaba-lingjun-dataset-2023, Apache-2.0).
"""

import csv
import os
from functools import cache
from pathlib import Path

from bench.planner.problems import GPU, MIB, Amounts

ROOT = Path(__file__).parents[2]


def folder() -> Path:
    """CORRAL_TRACES, else the folder beside the repository. Raises FileNotFoundError when it isn't there."""
    path = Path(os.environ.get("CORRAL_TRACES") or ROOT.parent / "shared" / "traces")
    if not path.is_dir():
        raise FileNotFoundError(f"no traces in {path}: set CORRAL_TRACES to the folder of openb_nodes.csv and the others")
    return path


@cache
def machines() -> tuple[tuple[str, Amounts], ...]:
    """GPU model ("" for none) and allocatable of each node of openb, in the trace's order."""
    return tuple((row["model"], amounts(row, "gpu")) for row in _rows("openb_nodes.csv"))


@cache
def pods() -> tuple[Amounts, ...]:
    """What each pod of openb asks for; a share of a GPU counts as a whole one."""
    return tuple(amounts(row, "num_gpu") for row in _rows("openb_pods.csv"))


@cache
def gangs() -> tuple[int, ...]:
    """GPUs of each job of Philly, in the trace's order."""
    return tuple(int(row["num_gpus"]) for row in _rows("philly_jobs.csv"))


@cache
def fabric() -> tuple[tuple[str, str], ...]:
    """Block (pod switch) and rack (access-switch pair) of each host of Lingjun."""
    return tuple((row["PSW"], f"{row['PSW']}-{row['ASW']}") for row in _rows("lingjun_topology.csv"))


def amounts(row: dict[str, str], gpus: str) -> Amounts:
    asked = {"cpu": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * MIB}
    return asked | ({GPU: int(row[gpus])} if int(row[gpus]) else {})


def _rows(name: str) -> list[dict[str, str]]:
    with (folder() / name).open(newline="") as file:
        return list(csv.DictReader(file))
